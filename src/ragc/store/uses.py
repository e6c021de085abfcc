"""The ledger of uses: which questions were used on this machine, and for what.

    STATE/uses/uses.jsonl    one line a use of a set of questions, with its own digest; appended under a lock

A use has a role: a search learned from train questions, chose by dev questions, or scores on test questions
were shown. The ledger holds no text: each question is a mark (`ragc.store.question_marks`).

The ledger is no cache, because it cannot be recomputed: it is in `ragc.core.files.state_home`, readable by
this user alone. Damaged lines are counted, and every reader reports them.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, cast, get_args

from ragc.core.digest import add_digest, digest, verify_digest
from ragc.core.display import quantity
from ragc.core.files import make_private, narrow, read_bytes, state_home
from ragc.errors import StoreError
from ragc.store.question_marks import DIGITS, mark

Role = Literal["train", "dev", "test"]

EVALUATION = "eval"
"""The work that scores a program and chooses nothing. All other work is a search."""

_MAX_BYTES = 4 * 2**30
"""The most bytes that are read: over two hundred million marks."""

_WAIT_S = 20.0
"""Seconds to wait for another process that writes to the ledger."""


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """A set of `n` different questions: its digest, and all their marks in ascending order, joined.

    A line of the ledger has no marks ("") where an earlier one has those of its set.
    """

    digest: str
    n: int
    marks: str = field(repr=False)

    @classmethod
    def of(cls, texts: Iterable[str]) -> QuestionSet:
        """Returns the set of the questions with these `texts`; questions with the same mark are one."""
        marks = sorted(set(map(mark, texts)))
        return cls(digest(["ragc.questions", marks])[:32], len(marks), "".join(marks))


def split_marks(joined: str) -> Iterator[str]:
    """Returns the marks in the text `joined`, in order."""
    return (joined[at : at + DIGITS] for at in range(0, len(joined), DIGITS))


def are_marks(joined: object) -> bool:
    """Returns whether `joined` is a text of whole marks."""
    return (
        isinstance(joined, str)
        and len(joined) % DIGITS == 0
        and joined.isascii()
        and not joined.strip("0123456789abcdef")
    )


@dataclass(frozen=True, slots=True)
class Use:
    """A use of `questions`: their role, and the work that used them, such as "compile" or "eval".

    `recipe` is the digest of its recipe, and `programs` those of the programs whose scores were shown.
    """

    role: Role
    work: str
    questions: QuestionSet
    recipe: str = ""
    programs: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class UseLedger:
    """The content of the ledger: uses in order, and the number of lines that cannot be read."""

    uses: tuple[Use, ...] = ()
    damaged: int = 0

    @property
    def searched(self) -> Iterator[Use]:
        """The uses as train or dev by searches."""
        return (use for use in self.uses if use.role != "test" and use.work != EVALUATION)


class QuestionIndex:
    """Finds questions, given by their texts, in sets of marks."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.questions = QuestionSet.of(texts)
        self._positions: dict[str, list[int]] = {}
        for position, text in enumerate(texts):
            self._positions.setdefault(mark(text), []).append(position)
        self._all = frozenset(range(len(texts)))

    def positions_in(self, marks: Iterable[str]) -> frozenset[int]:
        """Returns the positions of the texts that have any of `marks`."""
        return frozenset(position for one in marks for position in self._positions.get(one, ()))

    def positions_of(self, questions: QuestionSet) -> frozenset[int]:
        """Returns the positions of the texts that are in the set `questions`."""
        if questions.digest == self.questions.digest:
            return self._all
        return self.positions_in(split_marks(questions.marks))


class OpenLedger:
    """The ledger while its lock is held: the content read, and `append`."""

    def __init__(self, path: Path, content: UseLedger) -> None:
        self._path, self.content = path, content

    def append(self, uses: Iterable[Use]) -> None:
        """Records `uses` that are not recorded yet. Raises OSError."""
        known = {_key(use) for use in self.content.uses}
        marked = {use.questions.digest for use in self.content.uses if use.questions.marks}
        lines = []
        for use in uses:
            if use.questions.n and _key(use) not in known:
                lines.append(_line(use, marks=use.questions.digest not in marked))
                known.add(_key(use))
                marked.add(use.questions.digest)
        if lines:
            _append(self._path, b"".join(lines))


def ledger_file() -> Path:
    """Returns the file of the ledger. Not created here."""
    return state_home() / "uses" / "uses.jsonl"


@contextmanager
def opened() -> Iterator[OpenLedger]:
    """Holds the ledger's lock and yields its content. Raises UnusableLedger if it cannot.

    A ledger that does not exist is empty. Errors of writing inside the block are raised as UnusableLedger
    too.
    """
    from filelock import FileLock, Timeout

    path = ledger_file()
    try:
        make_private(path.parent)
        narrow(path)
        with FileLock(path.with_suffix(".lock"), timeout=_WAIT_S, mode=0o600):
            yield OpenLedger(path, read(path))
    except Timeout:
        raise UnusableLedger(path, "another process holds it") from None
    except (OSError, NotImplementedError) as error:
        raise UnusableLedger(path, error) from error


class UnusableLedger(StoreError):
    """The ledger `path` cannot be read or written; `reason` says why in a few words."""

    def __init__(self, path: Path, error: BaseException | str) -> None:
        self.reason = str(error) or type(error).__name__
        if isinstance(error, OSError):
            self.reason = f"{error.strerror or error}: {error.filename or path}"
        super().__init__(
            f"The ledger of uses {path} cannot be read or written ({self.reason}), and without it nothing "
            "says which questions an earlier search used; mend that, or name a folder that can be written "
            "in RAGC_HOME or XDG_STATE_HOME."
        )


def read(path: Path) -> UseLedger:
    """Returns the ledger in the file `path`, empty if there is none. Raises OSError if it cannot be read."""
    try:
        content = read_bytes(path, _MAX_BYTES)
    except FileNotFoundError:
        return UseLedger()
    uses: list[Use] = []
    marks: dict[str, str] = {}
    damaged = 0
    for line in content.splitlines():
        if not line.strip():
            continue
        parsed = _parse(line)
        if parsed is None:
            damaged += 1
            continue
        if parsed.questions.marks:
            marks[parsed.questions.digest] = parsed.questions.marks
        elif parsed.questions.digest not in marks:  # the line that held its marks is damaged
            damaged += 1
        uses.append(parsed)
    return UseLedger(tuple(_with_marks(use, marks) for use in uses), damaged)


def _with_marks(use: Use, marks: Mapping[str, str]) -> Use:
    """Returns `use` with the marks of its set, which one line of the ledger holds."""
    known = marks.get(use.questions.digest, "")
    return (
        use if use.questions.marks == known else replace(use, questions=replace(use.questions, marks=known))
    )


def _key(use: Use) -> tuple[object, ...]:
    return use.role, use.work, use.recipe, use.questions.digest, use.programs


def _line(use: Use, *, marks: bool) -> bytes:
    questions = use.questions
    row = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "role": use.role,
        "work": use.work,
        "recipe": use.recipe,
        "programs": sorted(use.programs),
        "questions": questions.digest,
        "n": questions.n,
        "marks": questions.marks if marks else "",
    }
    return json.dumps(add_digest(row)).encode() + b"\n"


def _append(path: Path, lines: bytes) -> None:
    """Appends `lines` to the file `path`, which this user alone may read, and waits for the disk."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "ab+", buffering=0) as out:
        with suppress(OSError):
            os.fchmod(out.fileno(), 0o600)
        if out.seek(0, os.SEEK_END):
            out.seek(-1, os.SEEK_END)
            lines = lines if out.read(1) == b"\n" else b"\n" + lines  # the line before was cut off by a kill
        if out.write(lines) != len(lines):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(out.fileno())


def _parse(line: bytes) -> Use | None:
    """Returns the use in a line; None if damaged."""
    try:
        row = verify_digest(json.loads(line))
        if row is None or row["role"] not in get_args(Role) or not are_marks(row["marks"]):
            return None
        questions = QuestionSet(str(row["questions"]), int(row["n"]), str(row["marks"]))
        programs = frozenset(map(str, row["programs"]))
        role = cast(Role, row["role"])
        return Use(role, str(row["work"]), questions, str(row["recipe"]), programs)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def damage_text(damaged: int) -> str:
    """Returns in a few words that `damaged` lines cannot be read; "" for none."""
    return f"{quantity(damaged, 'line')} of it cannot be read" if damaged else ""
