"""Metrics from elsewhere: functions of a recipe, `my_metrics:score`, those that DSPy's users write, and those
of other packages (`guard`).

A function of a recipe is in a module beside it and is called as `score(prediction, question)`. The prediction
is the program's, with `answer` (str) and `passages`; the question has `question`, `answers` and the other
fields of its row (`extra`). DSPy's are called as `metric(example, prediction)`.

Both give a number, more being better, or True or False, and may be asynchronous. What else they give, None
and NaN too, and an error that they raise, leaves that question without a score: a failure, which scores 0. A
question without an answer scores 0, and the function is not called for it. While all scores lie from 0 to 1
they are shares; beyond, no statistic takes them to have bounds.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from ragc.core.plugins import REPAIR
from ragc.core.user_code import code_digest, is_reference, load_object, no_exit
from ragc.errors import BudgetExhausted, MetricFailure, RagcError, StoreError, TargetError, UsageError
from ragc.metrics.base import Metric, Outcome, Unit
from ragc.records import Question

TRACE_BY_NAME = 0
"""The form of a call with two places and the trace by its name."""


def own_metric(reference: str, about: str = "the user's own") -> Metric:
    """Returns the metric that `reference` names, which reads the finding of its family; imports nothing."""
    return Metric(
        reference, about, "score", True, lambda outcome: float(outcome.finding(reference)), reads=reference
    )


class MetricFunction:
    """A user's `function`, which `shown` names, called with the two `places` and, of `more`, what it takes.

    It may take a third place or one called `trace`, the trace of a run that may become a demonstration, and
    GEPA's five, of which the last two are None. Raises UsageError if it is no function, or takes others.
    """

    def __init__(self, function: Any, shown: str, places: str, *, more: bool = True) -> None:
        self._function, self._shown = function, shown
        if not callable(function) or inspect.isclass(function):
            raise UsageError(
                f"{shown} is {type(function).__name__}, no function; name a function that takes ({places}) "
                "and returns a number."
            )
        try:
            signature = inspect.signature(function)
        except ValueError:  # written in C, and without a signature
            signature = inspect.signature(lambda first, second: None)
        longer = (3, 5) if more else ()
        try:
            self._plain = _first_that_binds(signature, (2, *longer, TRACE_BY_NAME))
            self._traced = _first_that_binds(signature, (*longer, TRACE_BY_NAME, 2))
        except TypeError as error:
            raise UsageError(f"{shown} is called as ({places}), and {error}; take these two.") from None

    async def score(self, first: Any, second: Any, trace: Sequence[Any] | None = None) -> float:
        """Calls the function, in a thread. Raises MetricFailure where it gives no score."""
        traced, form = (None, self._plain) if trace is None else (list(trace), self._traced)
        places = [first, second, traced, None, None][: form or 2]
        named = {} if form else {"trace": traced}
        with no_exit(self._shown):
            try:
                value = await asyncio.to_thread(self._call, *places, **named)
                return self._number(await value if inspect.isawaitable(value) else value)
            except (BudgetExhausted, MetricFailure, StoreError, TargetError):
                raise
            except Exception as error:
                raise MetricFailure(f"{self._shown} raised {type(error).__name__}: {error}") from error

    def _call(self, *places: Any, **named: Any) -> Any:
        try:
            return self._function(*places, **named)
        except StopIteration as error:  # no future can hold it: who awaits would wait for ever
            raise MetricFailure(f"{self._shown} raised StopIteration: a `next` without default") from error

    def _number(self, value: Any) -> float:
        score: Any = value.get("score") if isinstance(value, Mapping) else getattr(value, "score", value)
        number = _number(score)
        if not math.isfinite(number):
            # an integer beyond all floats may have too many digits to be shown
            shown = math.inf if number == math.inf else value
            raise MetricFailure(f"{self._shown} gave {shown!r:.60}, which is no number; return one.")
        return number


def _number(value: Any) -> float:
    """Returns `value` as a number; NaN for what is none, infinity for an integer beyond all floats."""
    try:
        return math.nan if isinstance(value, str | bytes) else float(value)
    except (TypeError, ValueError):
        return math.nan
    except OverflowError:
        return math.inf


def _first_that_binds(signature: inspect.Signature, forms: Sequence[int]) -> int:
    """Returns the first of `forms`, numbers of places, in which a function may be called."""
    for form in forms:
        with suppress(TypeError):
            signature.bind(*[None] * (form or 2), **({} if form else {"trace": None}))
            return form
    signature.bind(*[None] * 2)
    return forms[0]


class OwnAssessor:
    """Calls the function that `reference` names, from modules in `base` first.

    Raises UsageError if it cannot be imported or is no function of two arguments.
    """

    def __init__(self, reference: str, base: Path) -> None:
        self.family = reference
        function: Callable[..., Any] = load_object(reference, base)
        places = "prediction, question"
        self._metric = MetricFunction(function, f"The metric {reference!r}", places, more=False)
        self.code = code_digest(function)
        self.backend = f"{reference} {self.code}"

    async def assess(self, outcome: Outcome) -> float:
        """Returns the score. Raises MetricFailure where the function gives none."""
        if outcome.prediction is None:
            return 0.0
        import dspy

        question = Question(
            id="",
            question=outcome.question,
            answers=outcome.answers,
            gold_ids=outcome.gold_ids,
            query_time=outcome.query_time,
            extra=outcome.extra,
        )
        plain = dspy.Prediction(answer=outcome.prediction, passages=outcome.passages)
        prediction = plain if outcome.output is None else outcome.output
        return await self._metric.score(prediction, question, outcome.steps)


def assessors(families: tuple[str, ...], base: Path) -> dict[str, OwnAssessor]:
    """Returns an assessor for each of `families` that is a reference. Raises UsageError as `OwnAssessor`."""
    return {family: OwnAssessor(family, base) for family in families if is_reference(family)}


def guard(metric: Metric, subject: str) -> Metric:
    """Returns `metric` with a `score` that raises UsageError, with the question, for anything but a score.

    `subject` begins the sentences of errors. Raises UsageError for a unit that ragc does not know.
    """
    units = get_args(Unit)
    if metric.unit not in units:
        raise UsageError(
            f"{subject} has the unit {metric.unit!r}, and a unit is one of: {', '.join(units)}; {REPAIR}."
        )
    low, high = metric.bounds or (0.0, math.inf)
    limits = f"from {low:g} to {high:g}" if metric.bounds else f"from {low:g}"

    def score(outcome: Outcome) -> float | None:
        question = f"the question {outcome.question[:80]!r}"
        try:
            value: Any = metric.score(outcome)
        except RagcError:
            raise
        except Exception as error:  # whatever the code of another package raises
            raise UsageError(
                f"{subject} raised {type(error).__name__}: {error} for {question}; {REPAIR}."
            ) from error
        if value is None:
            return None
        number = _number(value)
        if not (low <= number <= high and math.isfinite(number)):
            raise UsageError(
                f"{subject} gives a number {limits}, or None where it does not apply, and it gave "
                f"{value!r:.60} for {question}; {REPAIR}."
            )
        return number

    return replace(metric, score=score)
