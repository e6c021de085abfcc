"""The record of used questions: which questions were used on this machine as train, dev and test.

    STATE/uses/questions.db    one SQLite file; a row a use of a set of questions, by any number of processes

It holds no text: a question is a digest, and so is an answer whose score was shown. It is no cache, because
nothing makes it again: it is in this user's folder for state, readable by this user alone.

A test use is counted where a program's answers were not all shown before, by one use. Frequent test uses of
the same questions find a gain by chance, so p is multiplied (`adjustment`).
"""

from __future__ import annotations

import json
import re
import sqlite3
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from ragc.core.digest import digest
from ragc.core.files import PRIVATE_FILE, home, make_private
from ragc.errors import StoreError

EVALUATION = "eval"
"""The work that scores a program and chooses nothing. All other work is a search."""

_TABLES = (
    """CREATE TABLE IF NOT EXISTS uses (number INTEGER PRIMARY KEY, at TEXT DEFAULT CURRENT_TIMESTAMP,
    role TEXT, work TEXT, recipe TEXT, questions TEXT, shown TEXT,
    UNIQUE (questions, role, work, recipe, shown))""",
    """CREATE TABLE IF NOT EXISTS members (question TEXT, questions TEXT,
    PRIMARY KEY (question, questions)) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS shown (question TEXT, answer TEXT, number INTEGER,
    PRIMARY KEY (question, answer, number)) WITHOUT ROWID""",
    """CREATE VIEW IF NOT EXISTS searches AS
    SELECT role, questions FROM uses WHERE role != 'test' AND work != 'eval'""",
)
"""Uses of sets; the questions of each set; the answers that each use showed; uses that taught or chose."""

_LABELS = re.compile(
    r"""\A(?:[\s*•>"'“`_]*(?:\#{1,6}\s+|[-–—]\s+)?[\s*_]*
    (?:
      (?:(?:question|query|prompt|problem|exercise|item|task|input|user|human|quest|q)\s*[.-]?\s*(?:NUMBER)?
      |(?:example|ex|sample)\s*[.-]?\s*NUMBER)
      [*_]*(?:\s*[:)\]|>]+|\s*[.–—-]+\s|[ ]*\n)
    | (?:[(\[]?\d+(?:\.\d+)*[)\]]|\#?\d+[:|](?!\d)|[(\[]?[a-h][)\]]\s)
    | (?:q\.\s*|\#)?\d+(?:\.\d+)*(?:\.|\s+[-–—])?[*_]*\s*
      (?=(?:what|which|who|whom|whose|when|where|why|how|is|are|was|were|do|does|did|can|name|in|q|question|example)\b)
    )[*_\s]*(?=(?s:.*?)[^\W\d_]{2})){0,6}
    [\s*•>"'“`_]*(?:\#{1,6}\s+|[-–—]\s+)?""".replace(
        "NUMBER", r"(?:no\.?|nr\.?|number|\#)?\s*\d+(?:\.\d+)*(?:\s*(?:of|/)\s*\d+)?"
    ),
    re.VERBOSE,
)
"""English labels in front of a question, such as `Q:`, `Question 3 of 10:`, `3)`, headings and bullets.

A number with a dot is a label only before a question word: "2. Bundesliga: who won?" keeps it.
"""

_ANSWER = re.compile(
    r"(?:\n\s*|(?<=[?!])\s+)[*_]*(?:\#+\s+(?:answer|a)\s*:?|(?:(?:your|final|short)\s+)?(?:answer|a)\s*:)[*_\s]*\Z"
)
"""The place for the answer behind a question."""

_SIGN = re.compile(r"(?P<number>(?<=\d)\s*[^\w\s]\s*(?=\d)|(?<!\w)[-−](?=\d)|(?<=\w)[#%])|[^\w\s]|_")
"""Punctuation and symbols; those in the group belong to a number or a name, such as `17-5` and `C#`."""


@lru_cache(maxsize=16_384)  # a compile asks for the same questions when it begins and when it ends
def question_digest(text: str) -> str:
    """Returns the digest of the question `text`: 16 hexadecimal digits.

    It is the same for other case, white space, punctuation, articles, Unicode compatibility forms (NFKC) and
    invisible characters, with a label in front or a place for the answer behind.
    """
    lines = "\n".join(unicodedata.normalize("NFKC", text).casefold().splitlines())
    visible = re.sub(r"[\ufe00-\ufe0f]", "", "".join(c for c in lines if c.isspace() or c.isprintable()))
    plain = _LABELS.sub("", _ANSWER.sub("", visible))
    signs = _SIGN.sub(
        lambda sign: sign[0].strip() if sign["number"] or unicodedata.category(sign[0])[0] != "P" else "",
        re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", plain),
    )
    words = " ".join(word for word in signs.split() if word not in ("a", "an", "the"))
    content = re.sub(r"(?<!\d) | (?!\d)", "", words) or " ".join(visible.split()) or text
    return digest(["ragc.question", content])[:16]


def adjustment(number: int) -> int:
    """Returns the factor of p at the `number`-th test use of the same questions, from 1: 1, 2, 5, 5, 5, 20,
    40, 80 ...

    All uses share one error, as in alpha spending (Lan and DeMets 1983, doi:10.1093/biomet/70.3.659): the
    reciprocals of the factors add up to 2.2 over any number of uses, so that the chance of a false "better",
    half of .05 at one use, stays about .05 over all. Other factors were measured, see experiments/LOG.md.
    """
    return (1, 2, 5, 5, 5)[max(number, 1) - 1] if number <= 5 else 20 << min(number - 6, 60)


@dataclass(frozen=True, slots=True)
class TestUse:
    """A use of `questions` test questions: the `number`-th of these or of some of these on this machine.

    `seen` counts those that earlier uses showed. `again` says that all of its scores were shown before, so
    that nothing new was counted. `number` is None, and `problem` says why, if it could not be counted.
    """

    __test__ = False  # no class of tests, for pytest

    number: int | None
    questions: int
    seen: int = 0
    again: bool = False
    problem: str = ""

    def to_json(self) -> dict[str, Any]:
        """Returns JSON values only."""
        return asdict(self)

    @property
    def warning(self) -> str:
        """A sentence on why the use was not counted; "" if it was."""
        return f"Test uses are not counted: {self.problem}" if self.problem else ""

    @property
    def adjustment(self) -> int:
        """The factor of p for the uses before this one; 1 where their number is unknown."""
        return 1 if self.number is None else adjustment(self.number)

    @property
    def text(self) -> str:
        """The use in a few words, such as "test use 3 of these questions"; "" without a number."""
        part = f", {self.seen} of which were used before" if 0 < self.seen < self.questions else ""
        which = f"{self.number} of these questions{part}{', the same again' if self.again else ''}"
        return f"test use {which}" if self.number else ""

    @property
    def sentence(self) -> str:
        """The use with what it does to a p-value, for reports; "" without a number."""
        price = f"; p is multiplied by {self.adjustment:,} for the uses before" if self.adjustment > 1 else ""
        return f"T{self.text[1:]}{price}." if self.text else ""


@dataclass(frozen=True, slots=True)
class ShownScores:
    """Scores on test questions that are about to be shown, of which nothing is counted yet.

    `shown` has a set for each program: pairs of a question's digest and that of the program and its answer.
    `work` is what shows them, by the recipe with the digest `recipe`. A record inside the directory `beside`,
    that of the compiled program, is not believed.
    """

    shown: tuple[frozenset[tuple[str, str]], ...] = field(repr=False)
    recipe: str = ""
    work: str = EVALUATION
    beside: Path | None = None

    @property
    def questions(self) -> frozenset[str]:
        """The digests of the questions."""
        return frozenset(question for answers in self.shown for question, _ in answers)

    def joined(self, other: ShownScores) -> ShownScores | None:
        """Returns both as one test use; None where they show other questions."""
        return replace(self, shown=self.shown + other.shown) if self.questions == other.questions else None

    def count(self) -> TestUse:
        """Counts the test use. Never raises for a record that cannot be used: the result says so."""
        path = database()
        try:
            if self.beside is not None and path.resolve().is_relative_to(self.beside.resolve()):
                raise StoreError(f"{path} is in {self.beside}, so it is not believed.")
            with opened() as record:
                return record.count(self)
        except StoreError as error:
            return TestUse(None, len(self.questions), problem=str(error))


class UsedQuestions(sqlite3.Connection):
    """The open record, within one transaction. Questions are their digests."""

    def add(self, role: str, work: str, questions: Iterable[str], recipe: str = "", shown: str = "") -> int:
        """Records a use of `questions` as `role` ("train", "dev" or "test"); returns its number.

        A use that is recorded already, or of no question, changes nothing.
        """
        members = sorted(set(questions))
        name = _set_digest(members)
        use = self.execute(
            """INSERT OR IGNORE INTO uses (role, work, recipe, questions, shown)
            SELECT ?, ?, ?, ?, ? WHERE ? > 0""",
            (role, work, recipe, name, shown, len(members)),
        )
        self.executemany("INSERT OR IGNORE INTO members VALUES (?, ?)", ((each, name) for each in members))
        return use.lastrowid or 0

    def roles(self, questions: Iterable[str], own: Iterable[Iterable[str]] = ()) -> dict[str, str]:
        """Returns how earlier searches used those of `questions` that they used: "train", "dev", or both.

        Uses of exactly one of the sets in `own` are left out: they are by the same study, or by one that adds
        no risk.
        """
        rows = self.execute(
            """SELECT question, CASE WHEN min(role) < max(role) THEN 'train and dev' ELSE min(role) END
            FROM members JOIN searches USING (questions)
            WHERE questions NOT IN (SELECT value FROM json_each(?))
            AND question IN (SELECT value FROM json_each(?)) GROUP BY question""",
            (json.dumps([_set_digest(each) for each in own]), json.dumps(list(questions))),
        )
        return dict(rows)

    def count(self, scores: ShownScores) -> TestUse:
        """Counts the test use that shows `scores`."""
        earlier: list[int | None] = [
            self.execute(
                """SELECT min(number) FROM (SELECT number FROM shown JOIN json_each(?)
                ON question = json_extract(value, '$[0]') AND answer = json_extract(value, '$[1]')
                GROUP BY number HAVING count(*) = ?)""",
                (json.dumps(sorted(answers)), len(answers)),
            ).fetchone()[0]
            for answers in scores.shown
        ]
        again = None not in earlier
        before, seen = self.execute(
            """SELECT count(DISTINCT number), count(DISTINCT question)
            FROM members JOIN uses USING (questions)
            WHERE role = 'test' AND number < ? AND question IN (SELECT value FROM json_each(?))""",
            (max(filter(None, earlier), default=0) if again else 2**62, json.dumps(sorted(scores.questions))),
        ).fetchone()
        if not again:
            shown = frozenset().union(*scores.shown)
            number = self.add("test", scores.work, scores.questions, scores.recipe, digest(sorted(shown)))
            self.executemany("INSERT INTO shown VALUES (?, ?, ?)", ((*each, number) for each in shown))
        return TestUse(before + 1, len(scores.questions), seen, again)

    def counts(self) -> tuple[int, int]:
        """Returns the numbers of test uses, and of sets of questions that searches used as train or dev."""
        tests, searched = self.execute(
            """SELECT count(*) FILTER (WHERE role = 'test'),
            (SELECT count(*) FROM (SELECT DISTINCT role, questions FROM searches)) FROM uses"""
        ).fetchone()
        return tests, searched


def database() -> Path:
    """Returns the file of the record: in `$RAGC_HOME`, else `$XDG_STATE_HOME/ragc` or `~/.local/state/ragc`.

    Not created here.
    """
    return home("XDG_STATE_HOME", ".local/state", "record of used questions") / "uses" / "questions.db"


@contextmanager
def opened(*, write: bool = True) -> Iterator[UsedQuestions]:
    """Opens the record for one transaction, which ends with the block. Raises StoreError if that fails.

    Without `write` nothing is created or changed, and a record that does not exist is empty.
    """
    path = database()
    try:
        if write:
            make_private(path.parent)
            path.touch(PRIVATE_FILE)
        place = path if write or path.exists() else ":memory:"
        with (
            closing(
                sqlite3.connect(place, timeout=20, isolation_level=None, factory=UsedQuestions)
            ) as record,
            record,
        ):
            record.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            check_database(record)
            for table in _TABLES:
                record.execute(table)
            yield record
    except (OSError, sqlite3.Error) as error:
        raise StoreError(
            f"The record of used questions {path} cannot be read or written ({error}); correct that, or name "
            "another folder in RAGC_HOME; if it is damaged or of another version, delete it, and all "
            "questions count as new."
        ) from error


def check_database(rows: sqlite3.Connection) -> None:
    """Raises sqlite3.DatabaseError unless SQLite finds the database whole; changes nothing."""
    (found,) = rows.execute("PRAGMA integrity_check(1)").fetchone()
    if found != "ok":
        raise sqlite3.DatabaseError(" ".join(str(found).split()))


def _set_digest(questions: Iterable[str]) -> str:
    return digest(["ragc.questions", sorted(set(questions))])[:32]
