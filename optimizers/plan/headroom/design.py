"""Plans a budget of LM calls: which settings answer how many dev questions.

All numbers are estimates by rehearsals, computed before anything is sent: retries for unreadable replies and
fallbacks are not counted. The budget is the bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ragc.core.digest import digest
from ragc.errors import UsageError
from ragc.metrics.stats import headroom as estimates
from ragc.optimizers.candidates.space import Candidate, SearchSpace, search_space
from ragc.optimizers.plan.average import (
    average,
    candidate_calls,
    candidate_fit,
    judge_calls,
    pool_setting,
)
from ragc.optimizers.plan.headroom.settings import differing_settings
from ragc.recipe.values import CROSS
from ragc.task.base import Task
from ragc.task.rehearsal import learns

SETTINGS, MAX_SETTINGS = 8, 24
"""Settings that the budget is shared among, and the most that are tried if calls are left."""

GREEDY_REPEATS = 10
"""Questions of the second run if nothing is sampled: they should score the same."""


@dataclass(frozen=True, slots=True)
class Design:
    """The plan of a budget of `calls` LM calls.

    `questions` dev questions are answered by the first of `candidates`, the baseline, then by the others in
    turn until calls run out; about `settings` of them fit. `repeats` of the questions are answered by the
    baseline twice. `left_out` says what part of the search space is not tried. `pool` are about the calls to
    collect demonstrations, 0 without. `learns` says that a setting learns from train questions.
    """

    calls: int
    questions: int
    repeats: int
    candidates: tuple[Candidate, ...]
    settings: int
    left_out: str = ""
    pool: int = 0
    learns: bool = False
    needs: Needs | None = field(default=None, compare=False)


def make_design(task: Task, calls: int) -> Design:
    """Plans how a budget of `calls` is spent. Raises UsageError if it is too small to show anything."""
    limit = task.budget.limits.lm_calls
    calls = calls if limit is None else limit
    space = search_space(task.recipe, task.runtime)
    needs = Needs(task, space)
    pool = needs.pool(space.first.baseline_with_demos()) if space.demos else 0
    demos = bool(pool) and 4 * pool <= calls
    candidates = differing_settings(space, task.seed, MAX_SETTINGS, demos=demos, usable=needs.builds)
    if len(candidates) < 2:
        raise UsageError(
            "The recipe searches nothing that can be tried: there is one setting"
            + ("" if demos or not pool else f" beside demonstrations, which take about {pool} calls")
            + "; widen [search], or raise --calls."
        )
    drawn = average(task, space)
    each = max(1.0, drawn.calls if drawn else 1.0) + needs.judging
    left = calls - (pool if demos else 0)
    size = questions_for(left, each, len(task.dev))
    least = estimates.MIN_SETTINGS * estimates.MIN_QUESTIONS
    if least > calls:
        known = task.recipe.budget.lm_calls
        where = "--calls and budget.lm_calls" if known and known < least else "--calls"
        raise UsageError(
            f"{calls} LM calls are too few: {estimates.MIN_SETTINGS} settings on "
            f"{estimates.MIN_QUESTIONS} dev questions take {least} at least; raise {where}."
        )
    repeats = min(size, size if needs.sampled else GREEDY_REPEATS)
    fitting, total, pools = 0, needs.most(candidates[0], repeats), set[str]()
    for candidate in candidates:
        total += needs.most(candidate, size) + needs.new_pool(candidate, pools)
        fitting += total <= calls
    notes = []
    if pool and not demos:
        notes.append(f"demonstrations, which take about {pool} calls")
    if task.recipe.search.instructions:
        notes.append("instructions, which are proposed during the study")
    return Design(
        calls,
        size,
        repeats,
        tuple(candidates),
        max(1, fitting),
        " and ".join(notes),
        pool if demos else 0,
        any(map(needs.learns, candidates)),
        needs,
    )


def questions_for(calls: float, each: float, dev: int) -> int:
    """Returns the dev questions of a probe of SETTINGS settings with `calls` LM calls, `each` a question."""
    return max(estimates.MIN_QUESTIONS, min(dev, int(calls / each) // (SETTINGS + 2)))


class Needs:
    """About how many LM calls settings take; each setting is rehearsed once."""

    def __init__(self, task: Task, space: SearchSpace) -> None:
        self._task, self._space = task, space
        self._known: dict[str, tuple[int, int]] = {}
        judged = [judge_calls(task, [question]) for question in task.dev]
        self.judging = max((calls for calls in judged if math.isfinite(calls)), default=0.0)

    def _calls(self, candidate: Candidate) -> tuple[int, int]:
        """Returns the calls of a question, and those for learning from one."""
        if candidate.mark not in self._known:
            calls = candidate_calls(self._task, candidate)
            self._known[candidate.mark] = calls, candidate_fit(self._task, candidate)
        return self._known[candidate.mark]

    def builds(self, candidate: Candidate) -> bool:
        """Returns whether the program of `candidate` can be built."""
        try:
            self._calls(candidate)
        except UsageError:
            return False
        return True

    def learns(self, candidate: Candidate) -> bool:
        """Returns whether `candidate` has demonstrations, or is fitted to train questions."""
        return bool(candidate.demos) or learns(self._task.method_of(candidate.program))

    @property
    def sampled(self) -> bool:
        """Whether any call of the baseline draws its reply at a temperature above 0."""
        first, task = self._space.baseline(), self._task
        program = task.method_of(first.program).build(task.runtime.with_targets(first.targets), first.knobs)
        return any(call.sampling.temperature > 0 for _, call in program.named_calls())

    def most(self, candidate: Candidate, questions: int) -> int:
        """Returns the calls of `candidate` on so many dev questions, without its demonstrations."""
        calls, fit = self._calls(candidate)
        learning = fit * len(self._task.train) * (1 + self.judging)
        return math.ceil(questions * (calls + self.judging) + learning)

    def pool(self, candidate: Candidate) -> int:
        """Returns the calls to collect the demonstrations of `candidate`."""
        task = self._task
        calls, fit = self._calls(pool_setting(task, self._space, candidate))
        train = task.other.questions if candidate.demo_kind == CROSS and task.other else task.train
        return math.ceil((calls + fit + self.judging) * len(train))

    def new_pool(self, candidate: Candidate, known: set[str]) -> int:
        """Returns the calls to collect demonstrations that are not `known` yet; they are known afterwards."""
        if not candidate.demos:
            return 0
        collecting = pool_setting(self._task, self._space, candidate)
        name = digest([collecting.program, collecting.knobs, candidate.demo_kind == CROSS])
        if name in known:
            return 0
        known.add(name)
        return self.pool(candidate)
