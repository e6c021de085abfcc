"""Reflection: a teacher rewrites the instruction of one typed call after reading how train questions fared.

The prompt is that of GEPA's proposer in DSPy (Agrawal et al. 2025, arXiv:2507.19457), with the feedback of
`ragc.optimizers.candidates.instructions.feedback` on each question.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

import dspy
from dspy.teleprompt.gepa import InstructionProposer
from dspy.utils.exceptions import AdapterParseError

from ragc.errors import OF_ONE_QUESTION
from ragc.optimizers.candidates.instructions.feedback import feedback
from ragc.optimizers.candidates.instructions.filters import MAX_CHARACTERS
from ragc.optimizers.harness.base import Harness
from ragc.optimizers.harness.monitor import SearchMonitor
from ragc.programs.trace import Call
from ragc.targets.dspy_lm import cause
from ragc.task.answering import Row

Example = Mapping[str, Any]
"""A train question in GEPA's form: the inputs and outputs of one call, and feedback."""

_UNREADABLE = (AdapterParseError, ValueError)
"""DSPy's errors for an unreadable reply of the teacher."""

GENERAL = (
    "Write general guidance that also helps with other questions. Do not quote answers or questions from the "
    f"examples. At most {MAX_CHARACTERS} characters."
)


async def run_in_harness(bench: Harness, work: Callable[[], Any]) -> Any:
    """Returns the result of `work`, run as an external optimizer is. Raises the error of ragc that
    ended it.
    """
    watch = SearchMonitor((), done=lambda: None, on_evaluated=lambda evaluated: None)
    try:
        result = await bench.run(work, watch)
    except Exception as error:
        raise cause(error) or error from error
    if watch.error is not None:
        raise watch.error
    return result


def proposal_of(propose: Callable[[], Any]) -> str:
    """Returns the proposal of `propose`; "" where the teacher's reply is unreadable, or its request failed.

    Errors that end a search are a `StopSearch`.
    """
    try:
        return str(propose())
    except Exception as error:
        if not isinstance(error, _UNREADABLE) and not has_failed(error):
            raise
        return ""


def has_failed(error: Exception) -> bool:
    """Returns whether `error` is that of a request of the teacher, so that its proposals are skipped."""
    return isinstance(cause(error), OF_ONE_QUESTION)


def run_parallel(jobs: Sequence[Callable[[], str]], most: int) -> list[str]:
    """Returns the results of `jobs` in order, `most` at a time; each job runs in a copy of this context."""
    with ThreadPoolExecutor(max_workers=max(1, min(most, len(jobs)))) as pool:
        running = [pool.submit(copy_context().run, job) for job in jobs]
        return [job.result() for job in running]


def rewrite(
    bench: Harness, name: str, text: str, examples: Sequence[Example], draw: int, more: str = ""
) -> str:
    """Returns the instruction `text` of predictor `name` after reflection on `examples`.

    "" if there is none (`proposal_of`). Each `draw` (>= 0) is another reply to the same prompt. `more` is
    added to the teacher's guidance.
    """
    proposer: Any = InstructionProposer(additional_instructions=GENERAL + more)
    with dspy.context(lm=bench.teacher.copy(rollout_id=draw + 1)):
        return proposal_of(lambda: proposer({name: text}, {name: list(examples)}, [name])[name])


def example_of(bench: Harness, row: Row, name: str) -> Example | None:
    """Returns one reflective example in GEPA's form: the first call of `name` in `row`; None if there is
    none.
    """
    call = next((event for event in row.trace if isinstance(event, Call) and event.name == name), None)
    if call is None:
        return None
    comment = feedback(
        row.question,
        row.prediction,
        row.passages,
        score=bench.value(row),
        best=bench.best,
        metric=bench.objective.metric.id,
        events=row.trace,
        call=name,
        failure=row.failure,
    )
    return {"Inputs": dict(call.inputs), "Generated Outputs": dict(call.outputs), "Feedback": comment}
