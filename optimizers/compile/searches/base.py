"""What a search on the dev questions is, and its results.

`ragc.optimizers.compile` calls the methods `baseline`, `search` and `select` of a search, in this order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from ragc.errors import NothingAnswered
from ragc.metrics.base import Scores
from ragc.metrics.failures import Failures
from ragc.optimizers.candidates.trial import TrialResult
from ragc.programs.base import RagProgram
from ragc.task.base import Task

if TYPE_CHECKING:
    from ragc.optimizers.compile.front import FrontMember
    from ragc.optimizers.external.optimize import ExternalResult


@dataclass(frozen=True, slots=True)
class Baseline:
    """The recipe's program, scored on the dev questions in the order of the search.

    These are all dev questions, or as many as the budget allows (`allocation.affordable_questions`).
    `lm_calls` is the mean number of LM calls a question, replayed calls included. `held` are those that the
    budget holds back for what comes after the search.
    """

    scores: Sequence[Scores]
    failures: Failures
    lm_calls: float
    held: int = 0

    def calls_on(self, questions: int, programs: int = 2) -> int:
        """Returns the expected LM calls of as many such `programs` on `questions` questions."""
        return round(programs * self.lm_calls * questions)


@dataclass(frozen=True, slots=True)
class Searched:
    """The result of a search. `budget` is the message of the budget that ended it, "" for none.

    `trials` are the trials of ragc's own study, the baseline first. `external` is the result of an external
    optimizer.
    """

    trials: tuple[TrialResult, ...] = ()
    budget: str = ""
    external: ExternalResult | None = None


@dataclass(frozen=True, slots=True)
class Selected:
    """The baseline program and the program that is compiled.

    `dev` has the scores of both on the dev questions that they answered and `failures` their unanswered
    questions, by "baseline" and "winner". `facts` are the search facts for provenance, `costs` the counters
    of each part of the search, and `trials` all trials as JSON values. `led` is a clause about a trial with a
    higher mean on dev than the baseline, if the baseline is chosen nevertheless; "" if there is none.
    `front` are the programs that are tested beside the winner, itself among them; () without a front.
    """

    baseline: RagProgram
    best: RagProgram
    dev: Mapping[str, Sequence[Scores]]
    facts: Mapping[str, Any]
    costs: Sequence[Mapping[str, float]]
    trials: Sequence[Mapping[str, Any]] = field(default_factory=tuple)
    failures: Mapping[str, Failures] = field(default_factory=dict)
    leader_note: str = ""
    front: Sequence[FrontMember] = ()


class DevSearch(Protocol):
    """A search on the dev questions of `task`. Its methods are called once each, in this order."""

    task: Task

    async def baseline(self) -> Baseline:
        """Answers the dev questions with the recipe's program. Raises BudgetExhausted."""
        ...

    async def search(self, reserved: int) -> Searched:
        """Tries candidates until the trials or the budget are spent.

        `reserved` LM calls of the budget are held back for the test questions.
        """
        ...

    async def select(self, searched: Searched) -> Selected:
        """Selects the program to compile. Raises NothingAnswered if no program answered any dev question."""
        ...


def no_answer_error(failures: Failures, programs: int, task: Task) -> NothingAnswered:
    """Returns the error of a search in which none of `programs` programs answered a question.

    `failures` are those of one program; `programs` is 0 where the search stopped at the baseline.
    """
    tried = {0: "the baseline", 1: "the one program tried"}
    which = tried.get(programs, f"each of the {programs} programs tried")
    stopped = "" if programs else " Nothing else was tried, so that nothing more is spent."
    replies, way_out = _replies_and_way_out(task)
    return NothingAnswered(
        f"Nothing was compiled, because no dev question was answered by {which}: "
        f"{failures.text}.{stopped} {replies}; see with `ragc ask RECIPE QUESTION --trace` what is asked, "
        f"mend that, then compile again{way_out}"
    )


def _replies_and_way_out(task: Task) -> tuple[str, str]:
    """Returns what becomes of the replies of a search of `task` in the next one, and how they are asked for
    anew.
    """
    gateway, targets = task.runtime.gateway, task.runtime.targets.values()
    targets_used = gateway.targets_used or {(target.name, gateway.forgets(target)) for target in targets}
    forgetful = sorted(name for name, forgets in targets_used if forgets)
    if forgetful and len(forgetful) == len(targets_used):
        return (
            "No reply is kept for another study, as cache=False says",
            ", which asks all anew unless it resumes this study.",
        )
    way_out = ". Where the model was at fault, --again (in Python again=True) asks it anew."
    if gateway.cached and not gateway.sent:
        return "Every reply was replayed from an earlier run", way_out
    if forgetful:
        names = " and ".join(forgetful)
        return f"Every reply is kept and would be replayed, except those of {names} (cache=False)", way_out
    return "Every reply is kept and would be replayed", way_out
