"""What a program learns from train questions beside demonstrations, such as labels of its neighbours."""

from __future__ import annotations

from ragc.optimizers.task import Task
from ragc.programs.base import RagProgram


async def fit(program: RagProgram, task: Task) -> None:
    """Let `program` learn from the train questions of `task`, scored as demonstrations are.

    Nothing happens without train questions. The same program sends nothing the second time: its calls
    are replayed from the store.
    """
    if task.train:
        await program.fit(task.train, task.scorer.only([task.demo_metric]))
