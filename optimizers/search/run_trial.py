"""One trial: its candidate answers the dev questions block by block until it is done or cannot win."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Protocol

from ragc.optimizers.answering import Row, evaluate
from ragc.optimizers.search.builder import ProgramBuilder
from ragc.optimizers.search.racing import FUTILITY, win_probability
from ragc.optimizers.search.trial import TrialResult, result_of
from ragc.optimizers.space import Candidate
from ragc.optimizers.task import Task
from ragc.records import Question

BLOCKS = (0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0)
"""Shares of the dev questions after which a trial may be stopped."""

LEAST = 5
"""No trial is stopped after fewer questions: they say little, and leave most requests in flight unused."""


class Runner(Protocol):
    """Whoever runs trials: this process, or others. `concurrency` is how many may run at a time."""

    @property
    def concurrency(self) -> int: ...  # noqa: D102 - said above

    async def run(self, number: int, candidate: Candidate, rivals: Sequence[TrialResult]) -> TrialResult:
        """Trial `number`, raced against `rivals`, all of them complete."""
        ...


class LocalRunner:
    """Runs trials in this process; `step` is called after every question."""

    def __init__(self, maker: ProgramBuilder, step: Callable[[], None] = lambda: None) -> None:
        self._maker, self._step = maker, step

    @property
    def concurrency(self) -> int:
        """As many as fill the requests in flight: each trial has a prompt prefix of its own, and a model in
        this process holds few of them.
        """
        task = self._maker.task
        return math.ceil(task.in_flight / stopping_points(len(task.dev))[0])

    async def run(self, number: int, candidate: Candidate, rivals: Sequence[TrialResult]) -> TrialResult:
        """As `Runner.run`."""
        task = self._maker.task
        order = shuffle_dev(task)
        program = await self._maker.program(candidate)
        rows: list[Row] = []
        better_rival = None
        for end in stopping_points(len(order)) if rivals else [len(order)]:
            block = order[len(rows) : end]
            rows += await evaluate(program, block, task.scorer, limit=self._maker.limit, done=self._step)
            better_rival = beaten_by(task, rows, rivals) if end < len(order) else None
            if better_rival is not None:
                break
        return result_of(number, candidate, rows, task.objectives, better_rival)


def beaten_by(task: Task, rows: Sequence[Row], rivals: Sequence[TrialResult]) -> TrialResult | None:
    """The first of `rivals` that a trial with `rows` has too little chance to beat; None for none.

    To beat one is to beat it in some objective, and to enter the front is to beat each of its trials so:
    chances in several objectives add up, several rivals do not.
    """
    for rival in rivals:
        chances = [
            1.0
            if objective.best is None
            else win_probability(
                [objective.of(row.scores) for row in rows], rival.series(objective), best=objective.best
            )
            for objective in task.objectives
        ]
        if sum(chances) < FUTILITY:
            return rival
    return None


def stopping_points(questions: int) -> list[int]:
    """The numbers of dev questions after which a trial may be stopped, rising to all of them."""
    ends = {round(questions * share) for share in BLOCKS}
    return sorted({end for end in ends if end >= LEAST} | {questions})


def shuffle_dev(task: Task) -> list[Question]:
    """The dev questions in the one order that every trial of a study sees."""
    order = list(task.dev)
    random.Random(f"dev {task.seed}").shuffle(order)
    return order
