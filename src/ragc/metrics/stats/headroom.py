"""Estimates from the scores of a few settings on the same questions whether a search has anything to choose.

A matrix has a row a setting, the baseline first, and a column a question. Scores are modelled as the sum of
an effect of the setting, one of the question, and a rest (the two together, and the model's noise): an
analysis of variance with two ways (Searle, Casella and McCulloch 1992, Variance Components). What settings
gain over the baseline is a family of comparisons (`ragc.metrics.stats.resample`), so the best of many is not
taken for better than it is shown to be. Questions in groups count as fewer independent ones
(`ragc.metrics.stats.groups`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import inf

import numpy as np

from ragc.metrics.stats.groups import Groups, Labels, effective_share
from ragc.metrics.stats.power import Changes
from ragc.metrics.stats.resample import Bounds, Contrast, Interval, adjust_family, mean_ci

Matrix = Sequence[Sequence[float]]

MIN_SETTINGS, MIN_QUESTIONS = 3, 5
"""The fewest settings, the baseline counted, and questions that say anything of the variance between."""


@dataclass(frozen=True, slots=True)
class Solved:
    """Shares of questions, with intervals over questions.

    `never` is the share that no setting solved, `always` the one that every setting solved. `unseen` is an
    estimate of the share that only further settings would solve, a part of `never` (Chao 1987,
    doi:10.2307/2531532: from those that one or two settings solved).
    """

    never: Interval
    always: Interval
    unseen: float


@dataclass(frozen=True, slots=True)
class Noise:
    """The same program twice: how far its scores differ without any change.

    `changed` is the share of `n` questions whose score differs, `size` the mean absolute difference, and `sd`
    the standard deviation of a question's difference.
    """

    changed: float
    size: float
    sd: float
    n: int

    def of_mean(self, questions: int) -> float:
        """Returns the standard deviation of the difference between two means over `questions` questions."""
        return self.sd / questions**0.5 if questions else 0.0


@dataclass(frozen=True, slots=True)
class Spread:
    """How much settings differ: the standard deviation `sd` between their true means, and the p of the test
    that all score alike, the baseline included.
    """

    sd: float
    p: float


@dataclass(frozen=True, slots=True)
class Gain:
    """The lead over the baseline of the best setting tried.

    No setting tried leads by more than `high`, and one leads by at least `low`, with 95% confidence.
    """

    value: float
    low: float
    high: float

    @property
    def shown(self) -> bool:
        """Whether a setting is shown to be better than the baseline."""
        return self.low > 0


def solved(scores: Matrix, full: float, groups: Labels | None = None) -> Solved:
    """Returns the shares of questions that are solved: whose score is at least half of `full`, the greatest.

    `groups` has the label of each question's group, as in `resample.mean_ci`.
    """
    values = np.asarray(scores, dtype=np.float64) >= full / 2 - 1e-9
    settings, times = len(values), values.sum(axis=0)
    once, twice = int((times == 1).sum()), int((times == 2).sum())
    further = (settings - 1) / settings * once * (once - 1) / (2 * (twice + 1))
    never, always = (
        mean_ci((times == number).astype(float).tolist(), seed=0, groups=groups) for number in (0, settings)
    )
    return Solved(never, always, min(further / len(times), never.mean))


def noise(first: Sequence[float], second: Sequence[float], groups: Labels | None = None) -> Noise:
    """Returns the noise in two runs of one program over the same questions, in the same order.

    With `groups`, `sd` is that at which as many independent differences would make the mean as uncertain.
    """
    differences = np.asarray(second, dtype=np.float64) - np.asarray(first, dtype=np.float64)
    n = len(differences)
    sd = float(differences.std(ddof=1)) if n > 1 else 0.0
    sd /= effective_share(differences, Groups.of(groups)) ** 0.5
    return Noise(float((abs(differences) > 1e-9).mean()), float(abs(differences).mean()), sd, n)


def changes(scores: Matrix) -> Changes | None:
    """Returns how any two of the settings differ question by question; None if none do.

    Each pair counts in the direction in which its mean rises.
    """
    pairs = np.array([(b - a).round(12) for a, b in combinations(np.asarray(scores, dtype=np.float64), 2)])
    moved = float(np.abs(pairs).mean(axis=1).sum()) if len(pairs) else 0.0
    if not moved:
        return None
    size = float((pairs**2).mean(axis=1).sum()) / moved
    return Changes((moved - float(np.abs(pairs.mean(axis=1)).sum())) / len(pairs) / size / 2, size)


def independent_share(scores: Matrix, groups: Labels | None) -> float:
    """Returns the share of independent questions, by the differences between settings; 1 without groups."""
    clusters = Groups.of(groups)
    shares = [
        effective_share(b - a, clusters) for a, b in combinations(np.asarray(scores, dtype=np.float64), 2)
    ]
    return sum(shares) / len(shares) if shares else 1.0


def spread(scores: Matrix, groups: Labels | None = None) -> Spread:
    """Returns how much the settings in `scores` differ: `MIN_SETTINGS` or more, on `MIN_QUESTIONS` or more.

    Of questions in `groups` the group sums count.
    """
    from scipy.special import fdtrc

    values = np.asarray(scores, dtype=np.float64)
    settings, questions = values.shape
    clusters = Groups.of(groups)
    table = values if clusters is None else clusters.sums(values.T).T
    n = table.shape[1]
    rows, columns = table.mean(axis=1, keepdims=True), table.mean(axis=0, keepdims=True)
    freedom = settings - 1, (settings - 1) * (n - 1)
    between = n * float(((rows - table.mean()) ** 2).sum()) / freedom[0]
    within = float(((table - rows - columns + table.mean()) ** 2).sum()) / freedom[1]
    ratio = between / within if within > 1e-12 * between else inf
    variance = max(0.0, between - within) / n * (n / questions) ** 2
    return Spread(variance**0.5, float(fdtrc(*freedom, ratio)) if between else 1.0)


def gain(scores: Matrix, *, bounds: Bounds, seed: int, groups: Labels | None = None) -> Gain:
    """Returns the lead over the baseline, the first row, of the best of the others; `bounds` are those of
    the scores. Higher scores are better.
    """
    values = [
        {f"{index:09d}": float(score) for index, score in enumerate(row)}
        for row in np.asarray(scores, dtype=np.float64)
    ]
    labels = dict(zip(values[0], groups or (), strict=False))
    leads = adjust_family([Contrast(values[0], row, bounds) for row in values[1:]], seed=seed, groups=labels)
    shown = [lead for lead in leads if lead is not None]
    return Gain(
        max(lead.result.diff for lead in shown),
        max(lead.low for lead in shown),
        max(lead.high for lead in shown),
    )
