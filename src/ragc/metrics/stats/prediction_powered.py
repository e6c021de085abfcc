"""The difference of two systems by a judge, corrected by a person's labels: prediction-powered inference.

A judge scores every answer of both systems a and b, and a person labels some answers of each, drawn at random
and blind to the system. The judge may favour one of them. The estimate takes the judge's difference over all
questions and corrects it, for each system, by the mean error of the judge where there are labels
(Angelopoulos, Bates, Fannjiang, Jordan and Zrnic 2023, doi:10.1126/science.adi6000):

    w * mean(b - a) + mean of (label - w * score) over labels of b - the same over labels of a

The weight w lies between 0, the labels alone, and 1; it is the one with the smallest variance (Angelopoulos,
Duchi and Zrnic 2023, arXiv:2311.01453), so that a useless judge does no harm. The variance is that of the sum
of what each question contributes, so that questions with labels of both systems are paired, and questions of
one group count together. Coverage and errors were measured, see experiments/LOG.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any

from ragc.metrics.stats.clusters import MIN_GROUPS, Groups

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Corrected:
    """The corrected difference b - a, its interval and two-sided p.

    `judged` is the judge's own difference over the same `n` questions and `weight` its part in the estimate,
    0 to 1. `labels` has the number of labels of a and b, and `error_a` and `error_b` the mean of score -
    label: how much too much the judge gives to each.
    """

    diff: float
    low: float
    high: float
    p: float
    judged: float
    weight: float
    n: int
    labels: tuple[int, int]
    error_a: float
    error_b: float
    confidence: float = 0.95

    def to_json(self) -> dict[str, Any]:
        """Returns JSON values only."""
        return {
            "diff": self.diff,
            "ci": [self.low, self.high],
            "p": self.p,
            "judged": self.judged,
            "weight": self.weight,
            "n": self.n,
            "labels": {"a": self.labels[0], "b": self.labels[1]},
            "error": {"a": self.error_a, "b": self.error_b},
            "confidence": self.confidence,
        }


def correct(
    a: Sequence[float],
    b: Sequence[float],
    labels_a: Mapping[int, float],
    labels_b: Mapping[int, float],
    *,
    bounds: tuple[float, float] = (0.0, 1.0),
    groups: Sequence[str] | None = None,
    confidence: float = 0.95,
) -> Corrected:
    """Corrects the judge's scores `a` and `b` of the same questions by labels of some, given by position.

    `bounds` are the least and the greatest score and label. `groups` has the label of each question's group,
    "" for one of its own. There must be at least two labels of each system. Where the judge erred alike
    on all labels of a system, the variance is that with one further error among them. From fewer than
    `MIN_GROUPS` groups p is 1, and the interval holds 0.
    """
    import numpy as np
    from scipy import stats

    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    sides = [_Side.of(first, labels_a), _Side.of(second, labels_b)]
    n = len(first)
    gap = second - first
    u = sides[1].centred(sides[1].labels) - sides[0].centred(sides[0].labels)
    scores = sides[1].centred(sides[1].scores) - sides[0].centred(sides[0].scores)
    v = gap - gap.mean() - scores
    clusters = Groups.of(groups)
    if clusters is not None:
        u, v = clusters.sums(u), clusters.sums(v)
    spread = float(v @ v)
    weight = float(np.clip(-(u @ v) / spread, 0.0, 1.0)) if spread > 0 else 0.0
    residuals = [side.labels - weight * side.scores for side in sides]
    estimate = weight * float(gap.mean()) + float(residuals[1].mean() - residuals[0].mean())
    contributions = u + weight * v
    fewest = min(len(side.labels) for side in sides)
    variance = float(contributions @ contributions) / n**2 * fewest / (fewest - 1)
    span = bounds[1] - bounds[0]
    for held, side in zip(residuals, sides, strict=True):
        if min(float(np.ptp(held)), float(np.ptp(side.labels - side.scores))) < 1e-9:
            variance += (span / len(held)) ** 2
    freedom = fewest - 1 if clusters is None else min(fewest, max(2, len(u))) - 1
    error_a, error_b = (float((side.scores - side.labels).mean()) for side in sides)
    error = sqrt(variance)
    t = float(stats.t.ppf((1 + confidence) / 2, freedom))
    p = float(2 * stats.t.sf(abs(estimate) / error, freedom)) if error > 0 else 1.0
    low, high = max(-span, estimate - t * error), min(span, estimate + t * error)
    if clusters is not None and len(u) < MIN_GROUPS:
        p, low, high = 1.0, min(low, 0.0), max(high, 0.0)
    labelled = len(sides[0].labels), len(sides[1].labels)
    return Corrected(
        estimate, low, high, p, float(gap.mean()), weight, n, labelled, error_a, error_b, confidence
    )


@dataclass(frozen=True, slots=True)
class _Side:
    """The labelled answers of one system: their positions among `n` questions, labels and scores."""

    n: int
    positions: NDArray[np.int64]
    labels: Array
    scores: Array

    @classmethod
    def of(cls, scores: Array, labels: Mapping[int, float]) -> _Side:
        import numpy as np

        positions = np.array(sorted(labels), dtype=np.int64)
        values = np.array([labels[int(at)] for at in positions], dtype=np.float64)
        return cls(len(scores), positions, values, scores[positions])

    def centred(self, values: Array) -> Array:
        """What each question contributes to `n` times the mean of `values` over labels, less that mean."""
        import numpy as np

        out = np.zeros(self.n)
        out[self.positions] = (values - values.mean()) * self.n / len(values)
        return out
