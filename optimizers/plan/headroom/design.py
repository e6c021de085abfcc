"""Plans a budget of LM calls: which settings answer how many dev questions.

All numbers are bounds or expectations, computed before anything is sent: retries for unreadable replies,
fallbacks, judges and demonstrations are counted at their maximum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ragc.core.digest import digest
from ragc.errors import UsageError
from ragc.metrics.stats import headroom as estimates
from ragc.optimizers.candidates.space import Candidate, SearchSpace, search_space
from ragc.optimizers.plan.average import average
from ragc.optimizers.plan.call_bounds import REQUESTS, PartBound, judge_calls, longest_chain, part_bound
from ragc.optimizers.plan.headroom.settings import differing_settings
from ragc.programs.base import RagProgram
from ragc.recipe.values import CROSS
from ragc.task.base import Task

SETTINGS, MAX_SETTINGS = 8, 24
"""Settings that the budget is shared among, and the most that are tried if calls are left."""

GREEDY_REPEATS = 10
"""Questions of the second run if nothing is sampled: they should score the same."""


@dataclass(frozen=True, slots=True)
class Design:
    """The plan of a budget of `calls` LM calls.

    `questions` dev questions are answered by the first of `candidates`, the baseline, then by the others in
    turn until calls run out; `settings` of them fit even if each sends the most that it may. `repeats` of the
    questions are answered by the baseline twice. `left_out` says what part of the search space is not tried.
    The numbers assume settings with the average number of calls; `pool` are the most calls to collect
    demonstrations, 0 without. `learns` says that a setting learns from train questions.
    """

    calls: int
    questions: int
    repeats: int
    candidates: tuple[Candidate, ...]
    settings: int
    left_out: str = ""
    pool: int = 0
    learns: bool = False


def make_design(task: Task, calls: int) -> Design:
    """Plans how a budget of `calls` is spent. Raises UsageError if it is too small to show anything."""
    limit = task.budget.limits.lm_calls
    calls = calls if limit is None else limit
    space = search_space(task.recipe, task.runtime)
    needs = Needs(task, space)
    pool = needs.pool(space.first.baseline_with_demos()) if space.demos else 0
    demos = bool(pool) and 2 * REQUESTS * pool <= calls
    candidates = differing_settings(space, task.seed, MAX_SETTINGS, demos=demos, usable=needs.builds)
    if len(candidates) < 2:
        raise UsageError(
            "The recipe searches nothing that can be tried: there is one setting"
            + ("" if demos or not pool else f" beside demonstrations, which may take {REQUESTS * pool} calls")
            + "; widen [search], or raise --calls."
        )
    drawn = average(task, space, MAX_SETTINGS)
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
        notes.append(f"demonstrations, which may take {REQUESTS * pool} calls")
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
    )


def questions_for(calls: float, each: float, dev: int) -> int:
    """Returns the dev questions of a probe of SETTINGS settings with `calls` LM calls, `each` a question."""
    return max(estimates.MIN_QUESTIONS, min(dev, int(calls / each) // (SETTINGS + 2)))


class Needs:
    """The most LM calls that settings may take, retries for unreadable replies and fallbacks counted."""

    def __init__(self, task: Task, space: SearchSpace) -> None:
        self._task, self._space = task, space
        self._bounds: dict[str, PartBound] = {}
        self._programs: dict[str, RagProgram | None] = {}
        self._chain = REQUESTS * longest_chain(task)
        judged = [judge_calls(task, [question]) for question in task.dev]
        self.judging = max((calls for calls in judged if math.isfinite(calls)), default=0.0)

    def program(self, candidate: Candidate) -> RagProgram | None:
        """Returns the program of `candidate` without demonstrations; None if it cannot be built."""
        if candidate.mark not in self._programs:
            runtime = self._task.runtime.with_targets(candidate.targets)
            try:
                built = self._task.method_of(candidate.program).build(runtime, dict(candidate.knobs))
            except UsageError:
                built = None
            self._programs[candidate.mark] = built
        return self._programs[candidate.mark]

    def builds(self, candidate: Candidate) -> bool:
        """Returns whether the program of `candidate` can be built."""
        return self.program(candidate) is not None

    def learns(self, candidate: Candidate) -> bool:
        """Returns whether `candidate` has demonstrations, or is fitted to train questions."""
        program = self.program(candidate)
        return bool(candidate.demos or (program is not None and program.fit_calls))

    @property
    def sampled(self) -> bool:
        """Whether any call of the baseline draws its reply at a temperature above 0."""
        program = self.program(self._space.baseline())
        return program is not None and any(call.sampling.temperature > 0 for _, call in program.named_calls())

    def most(self, candidate: Candidate, questions: int) -> int:
        """Returns the most requests of `candidate` on so many dev questions, without its demonstrations."""
        program, train = self.program(candidate), len(self._task.train)
        if program is None:
            return 0
        fit = program.fit_calls * train * (1 + self.judging)
        return math.ceil(self._chain * (questions * (program.most_calls_in_all() + self.judging) + fit))

    def pool(self, candidate: Candidate) -> int:
        """Returns the most calls to collect the demonstrations of `candidate`, if every reply can be read."""
        task = self._task
        if candidate.program not in self._bounds:
            self._bounds[candidate.program] = part_bound(task, self._space.part(candidate))
        bound = self._bounds[candidate.program]
        train = task.other.questions if candidate.demo_kind == CROSS and task.other else task.train
        calls = (bound.pools[0] if bound.pools else 0) * (1 + bound.taught) + bound.fit + self.judging
        return math.ceil(calls * len(train))

    def new_pool(self, candidate: Candidate, known: set[str]) -> int:
        """Returns the most requests to collect demonstrations that are not `known` yet; they are known
        afterwards.
        """
        if not candidate.demos:
            return 0
        task = self._task
        part = self._space.part(candidate)
        setting = task.method_of(candidate.program).demo_setting(part.baseline().knobs, candidate.knobs)
        name = digest([candidate.program, setting, candidate.demo_kind == CROSS])
        if name in known:
            return 0
        known.add(name)
        return self._chain * self.pool(candidate)
