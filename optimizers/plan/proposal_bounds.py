"""Upper bounds on the calls for instruction candidates (`ragc.optimizers.candidates.instructions`)."""

from __future__ import annotations

from ragc.optimizers.candidates.instructions.propose import SPARE_PROPOSALS
from ragc.optimizers.harness.teacher import role_of
from ragc.task.base import Task

QUESTIONS_PER_VIEW = 10
"""Train questions that DSPy's data set summary reads at a time, and the most times it reads."""

CALLS_PER_PROPOSAL = 3
"""Typed calls of one proposal: the purpose of the program, the purpose of the call, the instructions."""


def proposal_calls(n: int, predictors: int, questions: int, task: Task) -> tuple[int, int]:
    """Returns typed calls and requests of the teacher for `n` candidates a predictor, with the present one.

    `questions` is the number of train questions read. DSPy's chat adapter retries an unreadable reply once,
    as JSON; its JSON adapter does not.
    """
    if n < 2 or not questions:
        return 0, 0
    strict = "schema" in task.runtime.target(role_of(task.runtime)).capabilities
    batches = min(QUESTIONS_PER_VIEW, -(-questions // QUESTIONS_PER_VIEW))
    summary = batches + 1
    grounded = summary + predictors * (n // 2 + SPARE_PROPOSALS) * CALLS_PER_PROPOSAL
    reflected = predictors * ((n - 1) // 2 + SPARE_PROPOSALS)
    return grounded + reflected, grounded * (1 if strict else 2) + reflected


def round_bounds(task: Task, children: int) -> tuple[int, int]:
    """Returns train questions answered, and requests of the teacher, for `children` of all rounds."""
    from ragc.optimizers.candidates.instructions.rounds import ANSWERS_PER_REFLECTION, DRAWS, STEPS

    return children * STEPS * min(len(task.train), ANSWERS_PER_REFLECTION), children * STEPS * DRAWS
