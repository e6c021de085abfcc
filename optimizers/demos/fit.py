"""Fits a program to train questions beyond demonstrations, such as the labels of nearest neighbours."""

from __future__ import annotations

from ragc.optimizers.task import Task
from ragc.programs.base import RagProgram


async def fit(program: RagProgram, task: Task) -> None:
    """Fits `program` to the train questions of `task`, scored with the metric for demonstrations.

    Does nothing without train questions. Repeating it sends nothing: the calls are replayed from the store.
    """
    if task.train:
        await program.fit(task.train, task.scorer.only([task.demo_metric]))
