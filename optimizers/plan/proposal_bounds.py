"""How often the teacher is asked for instruction candidates (`ragc.optimizers.instructions.propose`)."""

from __future__ import annotations

from ragc.optimizers.external.teacher import role_of
from ragc.optimizers.instructions.propose import SPARE
from ragc.optimizers.task import Task

VIEWED = 10
"""Train questions that DSPy's summary of a data set reads at a time, and how often it reads at most."""

GROUNDED = 3
"""Typed calls of one proposal: what the program is for, what the call is for, and the instructions."""


def proposal_calls(n: int, predictors: int, questions: int, task: Task) -> tuple[int, int]:
    """Typed calls and requests of the teacher for `n` candidates a predictor, the present one among them.

    `questions` train questions are read. A reply that DSPy's chat adapter cannot read is asked for once more,
    as JSON; its JSON adapter asks once.
    """
    if n < 2 or not questions:
        return 0, 0
    strict = "schema" in task.runtime.target(role_of(task.runtime)).capabilities
    batches = min(VIEWED, -(-questions // VIEWED))
    summary = batches + 1
    grounded = summary + predictors * (n // 2 + SPARE) * GROUNDED
    reflected = predictors * ((n - 1) // 2 + SPARE)
    return grounded + reflected, grounded * (1 if strict else 2) + reflected
