"""Metrics of other packages: what is wrong with them is said in a sentence that names the package."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, get_args

from ragc.core.plugins import REPAIR
from ragc.errors import RagcError, UsageError
from ragc.metrics.base import Metric, Outcome, Unit


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
        try:
            number = math.nan if isinstance(value, str) else float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not (low <= number <= high and math.isfinite(number)):
            raise UsageError(
                f"{subject} gives a number {limits}, or None where it does not apply, and it gave "
                f"{value!r:.60} for {question}; {REPAIR}."
            )
        return number

    return replace(metric, score=score)
