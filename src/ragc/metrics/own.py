"""The user's own metrics, named in a recipe as `my_metrics:score`: a function in a module beside it.

The function is called as `score(prediction, question)`. The prediction has `answer` (str) and `passages`, the
question `question`, `answers` and the other fields of its row (`extra`). It returns a number from 0 to 1,
higher is better, or True or False. It may be a coroutine function. A question without an answer scores 0, and
the function is not called for it.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ragc.core.user_code import code_digest, is_reference, load_object, no_exit
from ragc.errors import RagcError, UsageError
from ragc.metrics.base import Metric, Outcome
from ragc.records import Question


def own_metric(reference: str, about: str = "the user's own") -> Metric:
    """Returns the metric that `reference` names, which reads the finding of its family; imports nothing."""

    def score(outcome: Outcome) -> float:
        return float(outcome.finding(reference))

    return Metric(reference, about, "share", True, score, reads=reference)


class OwnAssessor:
    """Calls the function that `reference` names, from modules in `base` first.

    Raises UsageError if it cannot be imported or is no function of two arguments.
    """

    def __init__(self, reference: str, base: Path) -> None:
        self.family = reference
        self._function: Callable[..., Any] = load_object(reference, base)
        if not callable(self._function) or inspect.isclass(self._function):
            raise UsageError(
                f"The metric {reference!r} is {type(self._function).__name__}, no function; name a function "
                "that takes (prediction, question) and returns a number."
            )
        try:
            inspect.signature(self._function).bind(None, None)
        except TypeError as error:
            raise UsageError(
                f"The metric {reference!r} is called as (prediction, question), and {error}; take these two."
            ) from None
        except ValueError:
            pass  # written in C, and without a signature
        self.code = code_digest(self._function)
        self.backend = f"{reference} {self.code}"

    async def assess(self, outcome: Outcome) -> float:
        """Calls the function with `outcome`. Raises UsageError, with the question, if it gives no score."""
        if outcome.prediction is None:
            return 0.0
        import dspy

        prediction = dspy.Prediction(answer=outcome.prediction, passages=outcome.passages)
        question = Question(
            id="",
            question=outcome.question,
            answers=outcome.answers,
            gold_ids=outcome.gold_ids,
            query_time=outcome.query_time,
            extra=outcome.extra,
        )
        try:
            with no_exit(f"The metric {self.family!r}"):
                if inspect.iscoroutinefunction(self._function):
                    value = await self._function(prediction, question)
                else:
                    value = await asyncio.to_thread(self._function, prediction, question)
        except RagcError:
            raise
        except Exception as error:
            raise UsageError(
                f"The metric {self.family!r} raised {type(error).__name__}: {error} for the question "
                f"{outcome.question[:80]!r}; mend it."
            ) from error
        return self._number(value, outcome)

    def _number(self, value: Any, outcome: Outcome) -> float:
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        except OverflowError:  # such an integer may have too many digits to be shown
            number = value = math.inf
        if isinstance(value, str) or not 0 <= number <= 1:
            raise UsageError(
                f"The metric {self.family!r} gives a number from 0 to 1, and it gave {value!r:.60} for the "
                f"question {outcome.question[:80]!r}; scale it."
            )
        return number


def assessors(families: tuple[str, ...], base: Path) -> dict[str, OwnAssessor]:
    """Returns an assessor for each of `families` that is a reference. Raises UsageError as `OwnAssessor`."""
    return {family: OwnAssessor(family, base) for family in families if is_reference(family)}
