"""The ledger of looks at test questions: how often their scores were shown on this machine.

    CACHE/looks/looks.jsonl    one line a look, with its own digest; appended under a lock

Whoever looks at the same test questions often enough finds a gain by chance. A look is counted once for each
new program (or pair of programs) whose scores on test questions are shown. The same programs on the same
questions, or on some of them, are the same look again.

Questions are recognised by their text, whatever their ids and files are. The ledger holds no text: each
question of a set is a mark, 48 bits of a digest. Of a set of more than `SKETCH` questions the smallest marks
are stored, from which overlaps are estimated (bottom-k sketches: Cohen and Kaplan 2007,
doi:10.1145/1281100.1281133). Where nothing is to be kept, a set is stored as one digest without marks, so
that only the whole set is recognised.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ragc.core import inputs
from ragc.core.digest import add_digest, digest, verify_digest
from ragc.core.home.private import FILE, make_private, narrow, open_private
from ragc.core.paths import cache_home

SKETCH = 4096
"""The most marks of a set that are stored; of larger sets the smallest."""

_DIGITS = 12
_WAIT = 20.0
"""Seconds to wait for another process that writes to the ledger."""


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """A set of `n` different questions: its digest, and the marks of its questions in ascending order.

    With fewer marks than questions these are the smallest ones, or none if none were to be kept.
    """

    digest: str
    n: int
    marks: tuple[str, ...]

    @classmethod
    def of(cls, texts: Iterable[str]) -> QuestionSet:
        """The set of the questions with these `texts`; equal texts are one question."""
        whole = sorted({_mark(text) for text in texts})
        return cls(digest(["ragc.questions", whole])[:32], len(whole), tuple(whole[:SKETCH]))

    @property
    def end(self) -> str:
        """The greatest mark that this set surely has, if it occurs in it."""
        return self.marks[-1] if self.marks and len(self.marks) < self.n else "g"


@dataclass(frozen=True, slots=True)
class Look:
    """A look at `questions` test questions: the `number`-th at these or at some of these on this machine.

    `seen` counts those that earlier looks showed, and is `estimated` where a set is large. `again` says that
    the same programs were shown on them before, so that nothing new was counted. `number` is None where the
    ledger could not be used. `problem` says what is wrong with the ledger, "" for nothing.
    """

    number: int | None
    questions: int
    seen: int = 0
    estimated: bool = False
    again: bool = False
    problem: str = ""

    def to_json(self) -> dict[str, Any]:
        """JSON values only."""
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
    def sentence(self) -> str:
        """The look with what it means for a p-value, for reports; "" without a number.

        Where fewer than half of the questions were seen before, the earlier looks say little about this one.
        """
        if self.number is None:
            return ""
        price = (
            f"; multiply p by {self.number}" if self.number > 1 and 2 * self.seen >= self.questions else ""
        )
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
class _Entry:
    """A line of the ledger: the set and the digests of the programs that were shown on it."""

    questions: QuestionSet
    programs: frozenset[str]


@dataclass(frozen=True, slots=True)
class Ledger:
    """The content of the ledger: the looks in order, and the number of lines that cannot be read."""

    entries: tuple[_Entry, ...] = ()
    damaged: int = 0

    @property
    def sets(self) -> list[tuple[int, int]]:
        """The number of questions and of looks of each set, the most looked at first."""
        counted: dict[str, tuple[int, int]] = {}
        for entry in self.entries:
            _, looks = counted.get(entry.questions.digest, (0, 0))
            counted[entry.questions.digest] = (entry.questions.n, looks + 1)
        return sorted(counted.values(), key=lambda pair: (-pair[1], -pair[0]))


def ledger_file() -> Path:
    """The file of the ledger. Not created here."""
    return cache_home() / "looks" / "looks.jsonl"


def count_look(
    texts: Iterable[str], programs: Iterable[str], *, keep: bool = True, beside: Path | None = None
) -> Look:
    """Counts a look at the questions with these `texts` by `programs`, which are digests.

    With `keep` False no mark of a single question is stored. A ledger inside the directory `beside`, that of
    the compiled program, is not believed. Never raises for a ledger that cannot be used: the look says so.
    """
    from filelock import FileLock, Timeout

    current, shown = QuestionSet.of(texts), frozenset(programs)
    counted = Look(None, current.n)
    path = ledger_file()
    try:
        if beside is not None and path.resolve().is_relative_to(beside.resolve()):
            return replace(counted, problem=f"it lies in {beside}, so it is not believed")
        make_private(path.parent)
        narrow(path)
        with FileLock(path.with_suffix(".lock"), timeout=_WAIT, mode=FILE):
            ledger = read(path)
            counted, known = _count(ledger, current, shown)
            if not counted.again:
                stored = current if keep else QuestionSet(current.digest, current.n, ())
                _append(path, stored, shown, marks=not known)
    except Timeout:
        return replace(counted, problem="another process holds it")
    except OSError as error:
        return replace(counted, problem=f"{error.strerror or error}: {error.filename or path}")
    return counted


def read(path: Path) -> Ledger:
    """The ledger in the file `path`, empty if there is none. Raises OSError if it cannot be read."""
    if not path.exists():
        return Ledger()
    entries: list[_Entry] = []
    marks: dict[str, tuple[str, ...]] = {}
    damaged = 0
    for line in inputs.read_bytes(path).splitlines():
        if not line.strip():
            continue
        entry = _parse(line)
        if entry is None:
            damaged += 1
            continue
        if entry.questions.marks:
            marks[entry.questions.digest] = entry.questions.marks
        entries.append(entry)
    return Ledger(tuple(_with_marks(entry, marks) for entry in entries), damaged)


def _with_marks(entry: _Entry, marks: Mapping[str, tuple[str, ...]]) -> _Entry:
    """`entry` with the marks of its set, which one line of the ledger holds."""
    return replace(entry, questions=replace(entry.questions, marks=marks.get(entry.questions.digest, ())))


def _count(ledger: Ledger, current: QuestionSet, shown: frozenset[str]) -> tuple[Look, bool]:
    """The look at `current` by `shown`, and whether the ledger has the marks of that set."""
    known = any(
        entry.questions.digest == current.digest and entry.questions.marks for entry in ledger.entries
    )
    lines = f"{ledger.damaged} line{'s' * (ledger.damaged > 1)} of it cannot be read"
    problem = f"{lines}, so there may have been more" if ledger.damaged else ""
    earlier: list[QuestionSet] = []
    left, again = set(shown), False
    for entry in ledger.entries:
        seen, _ = _overlap([entry.questions], current)
        left -= entry.programs if seen == current.n else frozenset()
        again = not left
        if again:
            break
        earlier += [entry.questions] if seen else []
    seen, estimated = _overlap(earlier, current)
    return Look(len(earlier) + 1, current.n, seen, estimated, again, problem), known


def _overlap(earlier: Sequence[QuestionSet], current: QuestionSet) -> tuple[int, bool]:
    """How many questions of `current` are in any of the `earlier` sets, and whether that is an estimate."""
    if any(one.digest == current.digest for one in earlier):
        return current.n, False
    marked = [one for one in earlier if one.marks]
    end = min((current.end, *(one.end for one in marked)))
    sample = [mark for mark in current.marks if mark <= end]
    union = {mark for one in marked for mark in one.marks}
    hits = sum(mark in union for mark in sample)
    return (round(current.n * hits / len(sample)) if sample else 0), len(sample) < current.n


def _append(path: Path, current: QuestionSet, shown: frozenset[str], *, marks: bool) -> None:
    row = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "questions": current.digest,
        "n": current.n,
        "marks": "".join(current.marks) if marks else "",
        "programs": sorted(shown),
    }
    line = json.dumps(add_digest(row)).encode() + b"\n"
    with open(path, "ab+", buffering=0, opener=open_private) as out:
        if out.seek(0, os.SEEK_END):
            out.seek(-1, os.SEEK_END)
            line = line if out.read(1) == b"\n" else b"\n" + line  # the line before was cut off by a kill
        if out.write(line) != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(out.fileno())


def _parse(line: bytes) -> _Entry | None:
    """The entry in a line; None if it is damaged."""
    try:
        row = verify_digest(json.loads(line))
        if row is None:
            return None
        text, n, programs = str(row["marks"]), row["n"], row["programs"]
        marks = tuple(text[at : at + _DIGITS] for at in range(0, len(text), _DIGITS))
        return _Entry(QuestionSet(str(row["questions"]), int(n), marks), frozenset(map(str, programs)))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _mark(text: str) -> str:
    content = f"ragc.question\n{text}".encode("utf-8", "surrogatepass")
    return hashlib.sha256(content).hexdigest()[:_DIGITS]
