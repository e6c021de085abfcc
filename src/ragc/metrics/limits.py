"""Limits of what a program may cost: the table `[search.limits]` of a recipe.

A search keeps to them on its dev questions by what it measured so far. Whether a program is within a limit on
new questions is said of its test questions alone, by a bound that is wrong in at most 5% of studies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ragc.metrics import cost
from ragc.metrics.base import UNMEASURED, Metric, Objective, Scores
from ragc.metrics.stats.bounds import (
    mean_lower_bound,
    mean_upper_bound,
    quantile_lower_bound,
    quantile_upper_bound,
)
from ragc.metrics.stats.groups import Groups

Standing = Literal["within", "over", "unclear"]

LEAST_QUESTIONS = 30
"""Questions below which nothing is called within a limit of a mean: a tenth of them may cost far more, and
none of it be seen.
"""

_FORMS: dict[str, tuple[str, float, float | None]] = {
    "tokens": ("tokens", 1, None),
    "lm_calls": ("lm_calls", 1, None),
    "searches": ("searches", 1, None),
    "latency": ("latency", 1, None),
    "latency_p95": ("latency", 1, 0.95),
    "usd_per_1000": ("usd", 1000, None),
}
"""By the key of a limit: the metric, its factor, and the quantile that is limited; None for the mean."""


@dataclass(frozen=True, slots=True)
class CostLimit:
    """The limit `name`: at most `most` of the mean or a quantile of a cost over questions."""

    name: str
    most: float

    @property
    def metric(self) -> Metric:
        """The metric of the cost."""
        return next(metric for metric in cost.METRICS if metric.id == _FORMS[self.name][0])

    @property
    def objective(self) -> Objective:
        """The cost as an objective: less is better."""
        return Objective(self.metric, -1)

    @property
    def factor(self) -> float:
        """What a score is multiplied by to be in the unit of the limit."""
        return _FORMS[self.name][1]

    @property
    def quantile(self) -> float | None:
        """The quantile that is limited; None for the mean."""
        return _FORMS[self.name][2]

    def amount(self, scores: Sequence[Scores]) -> float:
        """Returns what questions with `scores` cost, in the unit of the limit; infinity where one was not
        measured, and for no questions.
        """
        values = self._values(scores)
        if not values or math.inf in values:
            return math.inf
        if self.quantile is None:
            return math.fsum(values) / len(values)
        return sorted(values)[math.ceil(self.quantile * len(values)) - 1]

    def excess(self, scores: Sequence[Scores]) -> float:
        """Returns by what share of the limit questions with `scores` exceed it; at most 0 within it."""
        return self.amount(scores) / self.most - 1

    def standing(
        self, scores: Sequence[Scores], alpha: float, groups: Sequence[str] | None = None
    ) -> Standing:
        """Returns how a program stands to the limit on new questions, by the `scores` of some.

        "within" and "over" are each said wrongly with a probability of at most `alpha`. Of questions in
        `groups`, groups are independent: their means count, or of a quantile their greatest costs. Where
        large groups cost so much more or less than small ones that the questions themselves are on the other
        side of the limit, the standing is "unclear".
        """
        values, observed = self._values(scores), self.amount(scores)
        if observed == math.inf:
            return "unclear"
        clusters = Groups.of(groups)
        if clusters is not None:
            costs = np.asarray(values)
            at_most = np.full(len(clusters), -np.inf)
            np.maximum.at(at_most, clusters.codes, costs)
            means = clusters.sums(costs) / clusters.sizes
            values = (means if self.quantile is None else at_most).tolist()
        if self.quantile is not None:
            low = 0.0 if clusters else quantile_lower_bound(values, self.quantile, alpha)
            high = quantile_upper_bound(values, self.quantile, alpha)
        else:
            low = mean_lower_bound(values, alpha)
            high = mean_upper_bound(values, alpha) if len(values) >= LEAST_QUESTIONS else math.inf
        if observed <= self.most:
            return "within" if high <= self.most else "unclear"
        return "over" if low > self.most else "unclear"

    def _values(self, scores: Sequence[Scores]) -> list[float]:
        """Returns the cost of each question in the unit of the limit; infinity if it was not measured."""
        costs = (-self.objective.of(row) for row in scores)
        return [math.inf if value >= UNMEASURED else value * self.factor for value in costs]
