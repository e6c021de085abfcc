"""Looks at test questions: how often their scores were shown on this machine, by the ledger of uses.

Frequent looks at the same test questions find a gain by chance. A look is counted once for each new program
(or pair of programs) whose scores on test questions are shown. The same programs on the same questions, or on
some of them, are the same look again. Questions are recognised by their marks, whatever their ids and files
are (`ragc.store.uses`).

Earlier versions stored looks in the cache:

    CACHE/looks/looks.jsonl    one line a look, with 48 bits of a digest a question

That file is read and no longer written. Of a set of more than `MAX_SKETCH_MARKS` questions it has the
smallest marks, from which overlaps are estimated (bottom-k sketches: Cohen and Kaplan 2007,
doi:10.1145/1281100.1281133).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ragc.core import inputs
from ragc.core.digest import digest, verify_digest
from ragc.core.home import cache_home
from ragc.store import uses
from ragc.store.question_marks import marks_to_store
from ragc.store.uses import QuestionIndex, QuestionSet, UnusableLedger, Use, UseLedger

MAX_SKETCH_MARKS = 4096
"""The most marks of a set in the file of earlier versions; of larger sets the smallest."""

_DIGITS = 12
_REPLY_DIGITS = 8

_FIRST_FACTORS = (1, 2, 5, 5, 5)
_NEXT_FACTOR = 20
_MAX_DOUBLINGS = 60
"""Doublings after which every p is 1 already."""


def look_factor(number: int) -> int:
    """Returns the factor of p at the `number`-th look at the same questions, from 1: 1, 2, 5, 5, 5, 20, 40,
    80 ...

    All looks share one error, as in alpha spending (Lan and DeMets 1983, doi:10.1093/biomet/70.3.659): the
    reciprocals of the factors add up to 2.2 over any number of looks, so that the chance of a false "better",
    half of .05 at one look, stays about .05 over all. Other factors were measured,
    see experiments/LOG.md.
    """
    if number <= len(_FIRST_FACTORS):
        return _FIRST_FACTORS[max(number, 1) - 1]
    return _NEXT_FACTOR << min(number - len(_FIRST_FACTORS) - 1, _MAX_DOUBLINGS)


@dataclass(frozen=True, slots=True)
class Look:
    """A look at `questions` test questions: the `number`-th at these or at some of these on this machine.

    `seen` counts those that earlier looks showed, and is `estimated` for a large set. `again` says that the
    same programs were shown on them before, so that nothing new was counted. `number` is None if the ledger
    could not be used. `problem` describes a problem with the ledger, "" for none.
    """

    number: int | None
    questions: int
    seen: int = 0
    estimated: bool = False
    again: bool = False
    problem: str = ""

    def to_json(self) -> dict[str, Any]:
        """Returns JSON values only."""
        return {
            "number": self.number,
            "questions": self.questions,
            "seen": self.seen,
            "estimated": self.estimated,
            "again": self.again,
            "problem": self.problem,
        }

    @property
    def warning(self) -> str:
        """A sentence on what is wrong with the ledger; "" for nothing."""
        unknown = self.number is None
        what = "Looks are not counted" if unknown else "The ledger of looks is incomplete"
        return f"{what}: {self.problem}." if self.problem else ""

    @property
    def factor(self) -> int:
        """The factor of p for the looks before this one; 1 where their number is unknown."""
        return 1 if self.number is None else look_factor(self.number)

    @property
    def sentence(self) -> str:
        """The look with what it does to a p-value, for reports; "" without a number."""
        if self.number is None:
            return ""
        price = f"; p is multiplied by {self.factor:,} for the looks before" if self.factor > 1 else ""
        return f"{self.text[:1].upper()}{self.text[1:]}{price}."

    @property
    def text(self) -> str:
        """The look in a few words, such as "look 3 at these questions"; "" without a number."""
        if self.number is None:
            return ""
        part = self.number > 1 and self.seen < self.questions
        about = "about " if self.estimated else ""
        overlap = f", {about}{self.seen} of which were looked at before" if part else ""
        again = ", the same again" if self.again else ""
        return f"look {self.number} at these questions{overlap}{again}"


@dataclass(frozen=True, slots=True)
class OldLook:
    """A look that an earlier version counted: the set's digest, size and marks, and the programs.

    With fewer marks than questions these are the smallest ones, or none if none were to be kept.
    """

    digest: str
    n: int
    marks: tuple[str, ...] = field(repr=False)
    programs: frozenset[str]


@dataclass(frozen=True, slots=True)
class LookLog:
    """All looks: those of earlier versions, those in the ledger of uses, and unreadable lines of both."""

    old: tuple[OldLook, ...]
    new: tuple[Use, ...]
    damaged: int = 0

    @property
    def count(self) -> int:
        """The number of looks."""
        return len(self.old) + len(self.new)

    @property
    def sets(self) -> list[tuple[int, int]]:
        """The number of questions and of looks of each set, the most looked at first."""
        counted: dict[str, tuple[int, int]] = {}
        every = [(one.digest, one.n) for one in self.old]
        every += [(use.questions.digest, use.questions.n) for use in self.new]
        for key, n in every:
            counted[key] = (n, counted.get(key, (0, 0))[1] + 1)
        return sorted(counted.values(), key=lambda pair: (-pair[1], -pair[0]))


def old_file() -> Path:
    """Returns the file in which earlier versions kept looks."""
    return cache_home() / "looks" / "looks.jsonl"


def read() -> LookLog:
    """Returns all looks on this machine. Raises OSError for a file that cannot be read."""
    return _log(uses.read(uses.ledger_file()))


@dataclass(frozen=True, slots=True)
class ShownProgram:
    """A program whose scores are shown: its digest, and its `replies` as `reply_marks` gives them.

    `drawn` says that any of these replies was drawn in this run, so that they may differ from those before.
    """

    program: str
    replies: str = ""
    drawn: bool = False


@dataclass(frozen=True, slots=True)
class Showing:
    """Scores on the questions with these `texts`, of which nothing is counted yet.

    `older` normalises a text as earlier versions did. `recipe` and `work` are those of `Use`. With `keep`
    False no mark of a single question is stored. A ledger inside the directory `beside`, that of the compiled
    program, is not believed.
    """

    texts: tuple[str, ...] = field(repr=False)
    shown: tuple[ShownProgram, ...]
    older: Callable[[str], str]
    recipe: str = ""
    work: str = uses.EVALUATION
    keep: bool = True
    beside: Path | None = None

    def count(self) -> Look:
        """Counts the look. Never raises for a ledger that cannot be used: the look says so."""
        texts = list({marks_to_store(text)[0]: text for text in self.texts}.values())
        index = QuestionIndex(texts)
        n = index.questions.n
        path = uses.ledger_file()
        if self.beside is not None and path.resolve().is_relative_to(self.beside.resolve()):
            return Look(None, n, problem=f"{path} lies in {self.beside}, so it is not believed")
        old = _OldIndex([self.older(text) for text in texts])
        programs = frozenset(one.program for one in self.shown)
        replies = {
            one.program: one.replies if self.keep else digest_of_all(one.replies)
            for one in self.shown
            if one.replies
        }
        try:
            with uses.opened() as ledger:
                counted = _count(_log(ledger.content), index, old, self.shown)
                if not counted.again:
                    stored = index.questions if self.keep else index.questions.unmarked
                    ledger.append([Use("test", self.work, stored, self.recipe, programs, replies)])
        except UnusableLedger as error:
            return Look(None, n, problem=error.reason)
        return counted

    def with_program_of(self, other: Showing) -> Showing | None:
        """Returns both as one look; None where they show other questions."""
        if {marks_to_store(text)[0] for text in self.texts} != {
            marks_to_store(text)[0] for text in other.texts
        }:
            return None
        return replace(self, shown=(*self.shown, *other.shown))


def count_look(
    texts: Sequence[str], programs: Iterable[str], *, older: Callable[[str], str], keep: bool = True
) -> Look:
    """Counts a look at the questions with these `texts` by `programs`, which are digests; see `Showing`."""
    return Showing(tuple(texts), tuple(map(ShownProgram, programs)), older, keep=keep).count()


def _log(ledger: UseLedger) -> LookLog:
    looks = tuple(use for use in ledger.uses if use.role == "test" and use.programs)
    old, damaged = _read_old(old_file())
    return LookLog(old, looks, ledger.damaged + damaged)


class _OldIndex:
    """Finds questions, given by their texts as earlier versions normalised them, in the looks of these."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._marks = [_old_mark(text) for text in texts]
        whole = sorted(set(self._marks))
        self._digest = digest(["ragc.questions", whole])[:32]

    def positions_of(self, look: OldLook) -> tuple[frozenset[int], float | None]:
        """Returns the positions of the texts that are known to be in `look`.

        If it stores a part of its marks, also the share of the texts that is estimated to be in it.
        """
        if look.digest == self._digest:
            return frozenset(range(len(self._marks))), None
        known = set(look.marks)
        hits = frozenset(position for position, mark in enumerate(self._marks) if mark in known)
        if not known or len(known) == look.n:
            return hits, None
        sample = sum(mark <= look.marks[-1] for mark in self._marks)
        return hits, len(hits) / sample if sample else 0.0


def _count(log: LookLog, index: QuestionIndex, old: _OldIndex, shown: Iterable[ShownProgram]) -> Look:
    """Returns the look at the questions of `index` by `shown`; `old` finds them in the looks of earlier
    versions.
    """
    n = index.questions.n
    damage = uses.damage_text(log.damaged)
    problem = f"{damage}, so there may have been more" if damage else ""
    left, number, share = set(shown), 1, 0.0
    seen: frozenset[int] = frozenset()
    for hits, estimate, use in _hits(log, index, old):
        covered = len(hits) if estimate is None else round(estimate * n)
        left = {one for one in left if covered < n or not _was_shown(one, use)}
        if not left:
            known = max(len(seen), round(share * n))
            return Look(number, n, known, bool(share), again=True, problem=problem)
        number += bool(covered)
        seen |= hits
        share = max(share, estimate or 0.0)
    return Look(number, n, max(len(seen), round(share * n)), bool(share), problem=problem)


def _was_shown(one: ShownProgram, use: Use | OldLook) -> bool:
    """Returns whether the earlier `use`, at all of the questions, showed the same replies.

    Replies that were not drawn in this run are those that were kept, hence those that were shown.
    """
    if one.program not in use.programs:
        return False
    if not one.drawn:
        return True
    earlier = "" if isinstance(use, OldLook) else use.replies.get(one.program, "")
    if earlier == digest_of_all(one.replies):  # of a set without marks
        return bool(one.replies)
    return bool(one.replies) and set(_replies_in(one.replies)) <= set(_replies_in(earlier))


def reply_marks(replies: Iterable[tuple[str, Any]]) -> str:
    """Returns the digests of pairs of a question's text and a JSON value of the reply, in ascending order,
    joined.
    """
    every = {digest([marks_to_store(text)[0], reply])[:_REPLY_DIGITS] for text, reply in replies}
    return "".join(sorted(every))


def digest_of_all(replies: str) -> str:
    """Returns one digest of all `replies`, for a ledger that keeps nothing of single questions."""
    return digest(["ragc.replies", replies])[:32]


def _replies_in(joined: str) -> Iterator[str]:
    return (joined[at : at + _REPLY_DIGITS] for at in range(0, len(joined), _REPLY_DIGITS))


def _hits(
    log: LookLog, index: QuestionIndex, old: _OldIndex
) -> Iterator[tuple[frozenset[int], float | None, Use | OldLook]]:
    """For each look the positions of the questions that it showed, an estimated share, and the look."""
    for look in log.old:
        yield *old.positions_of(look), look
    known: dict[QuestionSet, frozenset[int]] = {}
    for use in log.new:
        if use.questions not in known:
            known[use.questions] = index.positions_of(use.questions)
        yield known[use.questions], None, use


def _read_old(path: Path) -> tuple[tuple[OldLook, ...], int]:
    """Returns the looks of earlier versions in the file `path`, and the number of unreadable lines."""
    try:
        lines = [line for line in inputs.read_bytes(path).splitlines() if line.strip()]
    except FileNotFoundError:
        return (), 0
    parsed = [_parse_old(line) for line in lines]
    looks = [look for look in parsed if look is not None]
    marks = {look.digest: look.marks for look in looks if look.marks}
    whole = tuple(replace(look, marks=marks.get(look.digest, ())) for look in looks)
    return whole, len(parsed) - len(looks)


def _parse_old(line: bytes) -> OldLook | None:
    """Returns the look in a line of an earlier version; None if it is damaged."""
    try:
        row = verify_digest(json.loads(line))
        if row is None:
            return None
        text, n, programs = str(row["marks"]), row["n"], row["programs"]
        marks = tuple(text[at : at + _DIGITS] for at in range(0, len(text), _DIGITS))
        return OldLook(str(row["questions"]), int(n), marks, frozenset(map(str, programs)))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _old_mark(text: str) -> str:
    content = f"ragc.question\n{text}".encode("utf-8", "surrogatepass")
    return hashlib.sha256(content).hexdigest()[:_DIGITS]
