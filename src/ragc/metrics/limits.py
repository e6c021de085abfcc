"""Limits of what a program may cost: the table `[search.limits]` of a recipe.

A search keeps to them on its dev questions by what it measured so far. Whether a program is within a limit on
new questions is said of its test questions alone, by a bound that is wrong in at most 5% of studies.

Costs such as tokens and seconds are skewed to the right, where the upper bound of a t interval is too low.
The upper bound of the mean is therefore the greater of two: that of t, and that of the studentized bootstrap
(Efron and Tibshirani 1993, 12.5). The bound of a quantile is an order statistic, which holds for any
distribution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ragc.metrics import cost
from ragc.metrics.base import UNMEASURED, Metric, Objective, Scores
from ragc.metrics.stats.groups import Groups

Standing = Literal["within", "over", "unclear"]

RESAMPLES = 4_000
"""Bootstrap samples of an upper bound."""

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
        if self.quantile is None:
            low, high = mean_bounds(values, alpha)
            shown = high <= self.most and len(values) >= LEAST_QUESTIONS
        else:
            low, high = quantile_bounds(values, self.quantile, alpha)
            low, shown = 0.0 if clusters else low, high <= self.most
        if observed <= self.most:
            return "within" if shown else "unclear"
        return "over" if low > self.most else "unclear"

    def _values(self, scores: Sequence[Scores]) -> list[float]:
        """Returns the cost of each question in the unit of the limit; infinity if it was not measured."""
        costs = (-self.objective.of(row) for row in scores)
        return [math.inf if value >= UNMEASURED else value * self.factor for value in costs]


def mean_bounds(values: Sequence[float], alpha: float = 0.05, *, seed: int = 0) -> tuple[float, float]:
    """Returns bounds of the true mean of costs, each wrong with a probability of about `alpha`.

    0 and infinity where it is unknown: of fewer than two values, and of values that are not finite. Equal
    values are their own bounds. The lower one, by t, is careful. `alpha` lies between 0 and 0.5.
    """
    from scipy.special import stdtrit

    array = np.asarray(values, dtype=float)
    n = len(array)
    if n < 2 or not np.isfinite(array).all():
        return 0.0, math.inf
    mean, error = float(array.mean()), float(array.std(ddof=1)) / math.sqrt(n)
    if error <= 1e-12 * abs(mean):
        return mean, mean
    generator, ratios = np.random.default_rng(seed), []
    size = max(1, 1_000_000 // n)
    for start in range(0, RESAMPLES, size):
        samples = array[generator.integers(n, size=(min(size, RESAMPLES - start), n))]
        errors = samples.std(axis=1, ddof=1) / math.sqrt(n)
        varied = errors > 1e-12 * abs(mean)
        ratios.append((samples.mean(axis=1)[varied] - mean) / errors[varied])
    t = float(stdtrit(n - 1, alpha))
    return max(0.0, mean + t * error), mean - min(
        t, float(np.quantile(np.concatenate(ratios), alpha))
    ) * error


def quantile_bounds(values: Sequence[float], level: float, alpha: float = 0.05) -> tuple[float, float]:
    """Returns bounds of the true quantile of costs, each wrong with a probability of at most `alpha`.

    They are the tightest order statistics with that guarantee; 0 and infinity if there is none. For the upper
    one that takes 59 values, for level .95 and alpha .05.
    """
    from scipy.special import bdtr

    ordered, n = sorted(values), len(values)
    # the chance that at most k of n values lie under the quantile
    under = bdtr(np.arange(n), n, level)
    low, high = int((under <= alpha).sum()), int((under < 1 - alpha).sum())
    return ordered[low - 1] if low else 0.0, ordered[high] if high < n else math.inf
