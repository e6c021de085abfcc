"""Variance components of replicates: how much of the variance of scores is between questions, how much not.

Every question is answered several times by the same program. The variance within questions is the model's
own (it draws its replies), and the rest is between questions: a one-way random effects model by the analysis
of variance (Searle, Casella and McCulloch 1992, Variance Components). The interval is a bootstrap over
questions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ragc.core.display import quantity

DRAWS = 2000
"""Bootstrap draws of an interval."""


@dataclass(frozen=True, slots=True)
class VarianceShares:
    """The variance of scores over `n` questions, each answered `replicates` times.

    `between` is the variance between questions, `within` that of answers to one question, `share` the share
    of `within` in both with its 95% interval; None where all scores are equal. `error` is the standard error
    of the mean of one run that is due to the model alone.
    """

    between: float
    within: float
    share: float | None
    low: float
    high: float
    n: int
    replicates: int

    @property
    def error(self) -> float:
        """The standard deviation of a run's mean over these same questions."""
        return math.sqrt(self.within / self.n)

    @property
    def text(self) -> str:
        """A sentence for people."""
        times = f"{quantity(self.n, 'question')} answered {self.replicates} times"
        if self.share is None:
            return f"{times} all scored the same, so there is no variance to share out."
        return (
            f"{self.share:.0%} [{self.low:.0%}, {self.high:.0%}] of the variance is the model's own; the "
            f"rest is between questions ({times}); by it the mean varies by {self.error:.3f}."
        )

    def to_json(self) -> dict[str, Any]:
        """Returns JSON values only."""
        return {
            "between": self.between, "within": self.within, "share": self.share,
            "ci": None if self.share is None else [self.low, self.high],
            "sd_of_mean": self.error, "n": self.n,
        }  # fmt: skip


def variance_shares(scores: Sequence[Sequence[float]], *, seed: int) -> VarianceShares | None:
    """Returns the variance components of `scores`, a row a question and a column a replicate.

    None with fewer than two questions or replicates.
    """
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 2 or min(values.shape) < 2:
        return None
    n, replicates = values.shape
    drawn = np.random.default_rng(seed).integers(0, n, (DRAWS, n))
    rows = np.vstack([np.arange(n), drawn])  # the questions as they are, then the draws
    within = values.var(axis=1, ddof=1)[rows].mean(axis=1)
    between = np.maximum(0.0, values.mean(axis=1)[rows].var(axis=1, ddof=1) - within / replicates)
    total = between + within
    if total[0] <= 1e-12:
        return VarianceShares(0.0, 0.0, None, 0.0, 0.0, n, replicates)
    shares = (within[total > 1e-12] / total[total > 1e-12]).tolist()
    low, high = np.quantile(shares[1:], [0.025, 0.975]).tolist()
    share = shares[0]
    return VarianceShares(
        float(between[0]), float(within[0]), share, min(low, share), max(high, share), n, replicates
    )
