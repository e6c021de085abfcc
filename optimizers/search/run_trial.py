"""Runs trials: a candidate answers the dev questions, all, some, or block by block until it is stopped."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from ragc.metrics.base import Objective
from ragc.optimizers.candidates.builder import ProgramBuilder
from ragc.optimizers.candidates.dev_order import group_sizes, shuffle_dev
from ragc.optimizers.candidates.space import Candidate
from ragc.optimizers.candidates.trial import TrialResult, result_of
from ragc.optimizers.search.allocation import stopping_points
from ragc.optimizers.search.racing import FUTILITY, win_probability
from ragc.programs.base import RagProgram
from ragc.task.answering import Row, evaluate, failed_searches
from ragc.task.base import Task

if TYPE_CHECKING:
    from ragc.optimizers.ray import Workers

MAX_PROGRAMS = 32
"""The most programs kept for further looks; the one that answered longest ago goes."""


class TrialRunner(Protocol):
    """Runs trials. `concurrency` is the most trials that may run at once."""

    @property
    def concurrency(self) -> int: ...  # noqa: D102 - described above

    async def run(
        self,
        number: int,
        candidate: Candidate,
        rivals: Sequence[TrialResult],
        span: tuple[int, int] | None = None,
    ) -> TrialResult:
        """Runs trial `number`, raced against `rivals`, which are all complete.

        With a `span` (first, end) it answers these of the dev questions and no others, without a race.
        """
        ...


class LocalRunner:
    """Runs trials in this process, or has `workers` answer their questions.

    Calls `step` after every question, `note` for failed searches of the baseline.
    """

    def __init__(
        self,
        builder: ProgramBuilder,
        step: Callable[[], None] = lambda: None,
        note: Callable[[str], None] = lambda text: None,
        workers: Workers | None = None,
    ) -> None:
        self._builder, self._step, self._note, self._workers = builder, step, note, workers
        self._programs: dict[str, RagProgram] = {}

    @property
    def concurrency(self) -> int:
        """Trials to run at once: enough that their first blocks fill the request limit.

        More would evict each other's cached prompt prefixes.
        """
        task = self._builder.task
        return math.ceil(task.in_flight / stopping_points(len(task.dev))[0])

    async def run(
        self,
        number: int,
        candidate: Candidate,
        rivals: Sequence[TrialResult],
        span: tuple[int, int] | None = None,
    ) -> TrialResult:
        """See `TrialRunner.run`."""
        task = self._builder.task
        order = shuffle_dev(task)
        if span:
            order, rivals = order[slice(*span)], ()
        program = await self._program(candidate)
        rows: list[Row] = []
        better_rival = None
        for end in stopping_points(len(order), group_sizes(order)) if rivals else [len(order)]:
            block = order[len(rows) : end]
            if self._workers is not None:
                rows += await self._workers.answer(program, block)
            else:
                limit = self._builder.limit
                rows += await evaluate(program, block, task.scorer, limit=limit, done=self._step)
            better_rival = beaten_by(task, rows, rivals) if end < len(order) else None
            if better_rival is not None:
                break
        if number == 0 and (text := failed_searches(rows)):
            self._note(text)
        return result_of(number, candidate, rows, task.objectives, better_rival)

    async def _program(self, candidate: Candidate) -> RagProgram:
        """Returns the program of `candidate`, with its rendered prompts if it answered questions not long
        ago.
        """
        program = self._programs.pop(candidate.mark, None) or await self._builder.program(candidate)
        self._programs[candidate.mark] = program
        if len(self._programs) > MAX_PROGRAMS:
            del self._programs[next(iter(self._programs))]
        return program


def beaten_by(task: Task, rows: Sequence[Row], rivals: Sequence[TrialResult]) -> TrialResult | None:
    """Returns the first rival that a trial with `rows` is too unlikely to beat; None if there is none.

    A trial beats a rival by beating it in any objective, so the probabilities of the objectives are added. It
    must be able to beat every rival, so the probabilities of several rivals are not.
    """

    def chance(objective: Objective, rival: TrialResult) -> float:
        mine, theirs = [objective.of(row.scores) for row in rows], rival.series(objective)
        best = objective.best_of((*mine, *theirs))
        return 1.0 if best is None else win_probability(mine, theirs, best=best, groups=rival.groups)

    losing = (rival for rival in rivals if sum(chance(o, rival) for o in task.objectives) < FUTILITY)
    return next(losing, None)
