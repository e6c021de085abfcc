"""Looks at test questions: how often their scores were shown on this machine, by the ledger of uses.

Frequent looks at the same test questions find a gain by chance. A look is counted once for each new program
(or pair of programs) whose scores on test questions are shown. The same programs on the same questions, or on
some of them, are the same look again. Questions are recognised by their marks, whatever their ids and files
are (`ragc.store.uses`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ragc.core.digest import digest
from ragc.store import uses
from ragc.store.question_marks import mark
from ragc.store.uses import QuestionIndex, QuestionSet, UnusableLedger, Use, UseLedger

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

    `seen` counts those that earlier looks showed. `again` says that the same programs were shown on them
    before, so that nothing new was counted. `number` is None if the ledger could not be used. `problem`
    describes a problem with the ledger, "" for none.
    """

    number: int | None
    questions: int
    seen: int = 0
    again: bool = False
    problem: str = ""

    def to_json(self) -> dict[str, Any]:
        """Returns JSON values only."""
        return {
            "number": self.number,
            "questions": self.questions,
            "seen": self.seen,
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
        overlap = f", {self.seen} of which were looked at before" if part else ""
        again = ", the same again" if self.again else ""
        return f"look {self.number} at these questions{overlap}{again}"


@dataclass(frozen=True, slots=True)
class LookLog:
    """All looks in the ledger of uses, and the number of its unreadable lines."""

    looks: tuple[Use, ...]
    damaged: int = 0

    @property
    def count(self) -> int:
        """The number of looks."""
        return len(self.looks)


def read() -> LookLog:
    """Returns all looks on this machine. Raises OSError for a file that cannot be read."""
    return of_ledger(uses.read(uses.ledger_file()))


@dataclass(frozen=True, slots=True)
class ShownProgram:
    """A program whose scores are shown: its digest, and a digest of its `replies`.

    `drawn` says that any of these replies was drawn in this run, so that they may differ from those before.
    """

    program: str
    replies: str = ""
    drawn: bool = False

    @property
    def names(self) -> frozenset[str]:
        """The names under which the ledger lists it: the program, and the program with its replies."""
        return frozenset({self.program, self._with_replies})

    def was_shown(self, use: Use) -> bool:
        """Returns whether the earlier `use`, at all of the questions, showed the same replies.

        Replies that were not drawn in this run are those that were stored, hence those that were shown.
        """
        return (self._with_replies if self.drawn else self.program) in use.programs

    @property
    def _with_replies(self) -> str:
        return digest([self.program, self.replies])[:32]


@dataclass(frozen=True, slots=True)
class Showing:
    """Scores on the questions with these `texts`, of which nothing is counted yet.

    `recipe` and `work` are those of `Use`. A ledger inside the directory `beside`, that of the compiled
    program, is not believed.
    """

    texts: tuple[str, ...] = field(repr=False)
    shown: tuple[ShownProgram, ...]
    recipe: str = ""
    work: str = uses.EVALUATION
    beside: Path | None = None

    def count(self) -> Look:
        """Counts the look. Never raises for a ledger that cannot be used: the look says so."""
        index = QuestionIndex(list({mark(text): text for text in self.texts}.values()))
        n = index.questions.n
        path = uses.ledger_file()
        if self.beside is not None and path.resolve().is_relative_to(self.beside.resolve()):
            return Look(None, n, problem=f"{path} lies in {self.beside}, so it is not believed")
        try:
            with uses.opened() as ledger:
                counted = _count(of_ledger(ledger.content), index, self.shown)
                if not counted.again:
                    programs = frozenset(name for one in self.shown for name in one.names)
                    ledger.append([Use("test", self.work, index.questions, self.recipe, programs)])
        except UnusableLedger as error:
            return Look(None, n, problem=error.reason)
        return counted

    def with_program_of(self, other: Showing) -> Showing | None:
        """Returns both as one look; None where they show other questions."""
        if set(map(mark, self.texts)) != set(map(mark, other.texts)):
            return None
        return replace(self, shown=(*self.shown, *other.shown))


def count_look(texts: Sequence[str], programs: Iterable[str]) -> Look:
    """Counts a look at the questions with these `texts` by `programs`, which are digests; see `Showing`."""
    return Showing(tuple(texts), tuple(map(ShownProgram, programs))).count()


def of_ledger(ledger: UseLedger) -> LookLog:
    """Returns the looks in `ledger`."""
    return LookLog(tuple(use for use in ledger.uses if use.role == "test" and use.programs), ledger.damaged)


def _count(log: LookLog, index: QuestionIndex, shown: Iterable[ShownProgram]) -> Look:
    """Returns the look at the questions of `index` by `shown`."""
    n = index.questions.n
    damage = uses.damage_text(log.damaged)
    problem = f"{damage}, so there may have been more" if damage else ""
    left, number = set(shown), 1
    seen: frozenset[int] = frozenset()
    positions: dict[QuestionSet, frozenset[int]] = {}
    for use in log.looks:
        if use.questions not in positions:
            positions[use.questions] = index.positions_of(use.questions)
        hits = positions[use.questions]
        left = {one for one in left if len(hits) < n or not one.was_shown(use)}
        if not left:
            return Look(number, n, len(seen), again=True, problem=problem)
        number += bool(hits)
        seen |= hits
    return Look(number, n, len(seen), problem=problem)
