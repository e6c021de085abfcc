"""What labels of people say of a judge: Cohen's kappa, the area under the ROC curve, corrected differences.

    kappa([True, False, True], [True, False, False], seed=0)
    separation([0.9, 0.2, 0.6], [True, False, False], seed=0)

`correct` is prediction-powered inference. A judge scores every answer of both systems a and b, and a person
labels some answers of each, drawn at random and blind to the system. The judge may favour one of them. The
estimate takes the judge's difference over all questions and corrects it, for each system, by the mean error
of the judge where there are labels (Angelopoulos, Bates, Fannjiang, Jordan and Zrnic 2023,
doi:10.1126/science.adi6000):

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
from typing import Any

import numpy as np

from ragc.metrics.stats.groups import Array, Groups, Labels, size_of, too_few
from ragc.metrics.stats.resample import Interval, mean_ci

DRAWS = 4_000
"""Bootstrap draws of an area."""


def kappa(
    human: Sequence[bool], judge: Sequence[bool], *, seed: int, groups: Labels | None = None
) -> Interval | None:
    """Returns Cohen's kappa, -1..1, of two verdicts on each answer; without `groups` the same in any order.

    None when both sides called all answers the same and chance alone explains that. The interval is that of
    the share of equal verdicts with the agreement by chance held fixed, as in Cohen's own standard error
    (1960, doi:10.1177/001316446002000104): in simulations with 30 to 100 answers and kappa of .1 to .9 it
    held the true one in .947 or more of 300 runs. Raises UsageError without answers.
    """
    equal = [float(mine == theirs) for mine, theirs in zip(judge, human, strict=True)]
    accuracy = mean_ci(equal, seed=seed, groups=groups)
    by_judge, by_human = sum(judge) / len(equal), sum(human) / len(equal)
    chance = by_judge * by_human + (1 - by_judge) * (1 - by_human)
    if chance == 1:
        return None
    ends = (accuracy.mean, accuracy.low, accuracy.high)
    mean, low, high = (max(-1.0, (end - chance) / (1 - chance)) for end in ends)
    return Interval(mean, low, high, accuracy.n, accuracy.groups)


def separation(scores: Sequence[float], positive: Sequence[bool], *, seed: int) -> Interval:
    """Returns the area under the ROC curve, 0 to 1, with its 95% interval.

    It is the share of pairs of a positive and a negative case in which the positive one has the higher score,
    equal scores counting half: .5 is chance. The interval is a Bayesian bootstrap over cases: in every second
    draw an unseen case is added, in turn a positive and a negative one, at the worst place for the lower end
    and at the best for the upper one, so that no interval has zero width. In simulations with 25 to 200
    normal scores 96 to 99% of the intervals held the true area. There must be cases of both kinds.
    """
    values, kinds = np.asarray(scores, float), np.asarray(positive, bool)
    ups, downs = values[kinds][:, None], values[~kinds]
    wins = (ups > downs) + 0.5 * (ups == downs)
    rng = np.random.default_rng(seed)
    weights = rng.standard_exponential((DRAWS, len(values)))
    up, down = weights[:, kinds], weights[:, ~kinds]
    ordered, reverse = (((up @ share) * down).sum(axis=1) for share in (wins, 1 - wins))
    turns = np.arange(DRAWS) % 4
    unseen = rng.standard_exponential((2, DRAWS)) * (turns == 0, turns == 2)
    possible = (up.sum(axis=1) + unseen[0]) * (down.sum(axis=1) + unseen[1])
    low = float(np.quantile(ordered / possible, 0.025))
    high = float(np.quantile(1 - reverse / possible, 0.975))
    mean = float(wins.mean())
    return Interval(mean, min(low, mean), max(high, mean), len(values))


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
    groups: Labels | None = None,
    confidence: float = 0.95,
) -> Corrected:
    """Corrects the judge's scores `a` and `b` of the same questions by labels of some, given by position.

    `bounds` are the least and the greatest score and label. `groups` has the label of each question's group,
    "" for one of its own. There must be at least two labels of each system. Where the judge erred alike
    on all labels of a system, the variance is that with one further error among them. From fewer than
    `MIN_GROUPS` groups p is 1, and the interval holds 0.
    """
    from scipy.special import stdtr, stdtrit

    n, span = len(a), bounds[1] - bounds[0]
    judge = [np.asarray(column, dtype=np.float64) for column in (a, b)]
    sides = labels_a, labels_b
    places = [sorted(labelled) for labelled in sides]
    labels = [np.array([labelled[i] for i in sorted(labelled)], dtype=np.float64) for labelled in sides]
    scores = [column[positions] for column, positions in zip(judge, places, strict=True)]
    gap = judge[1] - judge[0]

    def contributed(values: Sequence[Array]) -> Array:
        """Returns what `values` of each question add to `n` times the difference of their means."""
        out = np.zeros(n)
        for sign, positions, column in zip((-1, 1), places, values, strict=True):
            out[positions] += sign * (column - column.mean()) * n / len(column)
        return out

    by_labels, by_judge = contributed(labels), gap - gap.mean() - contributed(scores)
    clusters = Groups.of(groups)
    if clusters is not None:
        by_labels, by_judge = clusters.sums(by_labels), clusters.sums(by_judge)
    judged = float(by_judge @ by_judge)
    weight = float(np.clip(-(by_labels @ by_judge) / judged, 0.0, 1.0)) if judged > 0 else 0.0
    residuals = [labelled - weight * column for labelled, column in zip(labels, scores, strict=True)]
    errors = [column - labelled for labelled, column in zip(labels, scores, strict=True)]
    estimate = weight * float(gap.mean()) + float(residuals[1].mean() - residuals[0].mean())
    fewest = min(map(len, labels))
    variance = float(((by_labels + weight * by_judge) ** 2).sum()) / n**2 * fewest / (fewest - 1)
    for residual, error in zip(residuals, errors, strict=True):
        if min(float(np.ptp(residual)), float(np.ptp(error))) < 1e-9:
            variance += (span / len(error)) ** 2
    freedom = fewest - 1 if clusters is None else min(fewest, max(2, len(clusters))) - 1
    half = float(stdtrit(freedom, (1 + confidence) / 2)) * sqrt(variance)
    p = float(2 * stdtr(freedom, -abs(estimate) / sqrt(variance))) if variance > 0 else 1.0
    low, high = max(-span, estimate - half), min(span, estimate + half)
    if too_few(size_of(clusters)):
        p, low, high = 1.0, min(low, 0.0), max(high, 0.0)
    error_a, error_b = (float(error.mean()) for error in errors)
    return Corrected(
        diff=estimate,
        low=low,
        high=high,
        p=p,
        judged=float(gap.mean()),
        weight=weight,
        n=n,
        labels=(len(labels_a), len(labels_b)),
        error_a=error_a,
        error_b=error_b,
        confidence=confidence,
    )
