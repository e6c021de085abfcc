"""Tests whether a mean lies above a bound: whether a change loses less than allowed.

Paired differences of two versions of a program are mostly 0. If the questions contain no loss, a bootstrap or
Student's t excludes one with certainty. So the test begins at the bound. Of all distributions whose mean is
the bound, over the range of scores, the most likely one given the scores is taken (empirical likelihood, Owen
2001; if no score is low enough, some weight lies at the end of the range). `p` is the probability that as
many questions drawn from it have a mean at least as high as the observed one, by convolution, without random
draws. For scores of 0 and 1 the distribution is that of the score test for paired proportions (Tango 1998),
and `p` the E p-value of Lloyd (2008).

A drop is shown by the sign-flip test of verdicts, on one side: exact if no question's score depends on which
program answered. Groups of questions count as in verdicts: as many independent questions as they are worth,
signs of whole groups, nothing shown by fewer than `clusters.MIN_GROUPS`.

`experiments/benchmarks/gate.py` measures how often both are wrong and right. numpy and scipy are imported on
first use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log, log1p, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal

from ragc.errors import UsageError
from ragc.metrics.stats.clusters import assumed_questions, effective_share
from ragc.metrics.stats.intervals import Labels, array, gaps, groups_of, size_of, too_few
from ragc.metrics.stats.resampling import sign_flip

if TYPE_CHECKING:
    from ragc.metrics.stats.clusters import Codes, Groups
    from ragc.metrics.stats.resampling import Array

Outcome = Literal["no loss", "drop", "cannot tell"]
"""What a gate says: a loss below the allowed one, a drop, or neither is shown."""

ALPHA = 0.05
"""The probability of each kind of false claim in a run, on one side."""

POWER = 0.8
"""The share of runs of equal programs that the number of questions needed lets end with "no loss"."""

STEPS = 200
"""Steps a unit of the grid on which scores that are no whole numbers are added up."""

BEYOND = 2_000
"""Independent questions beyond which the normal distribution replaces the convolution."""

TOLERANCE = 1e-9
"""Sums that differ by less are equal."""


@dataclass(frozen=True, slots=True)
class Margin:
    """The mean difference `diff` over `n` questions, and its tests.

    `p_loss` is the p of "the loss is at least the allowed one", `p_drop` that of "there is no drop", both on
    one side. `worse` and `better` count questions. `effective` is the number of independent questions that
    `n` are worth, `groups` that of their groups, None without any.
    """

    diff: float
    p_loss: float
    p_drop: float
    n: int
    worse: int
    better: int
    effective: float
    groups: int | None = None

    @property
    def changed(self) -> float:
        """The share of questions whose score changed, 0..1."""
        return (self.worse + self.better) / self.n

    def small_loss(self) -> bool:
        """Returns whether the loss is shown to be less than the allowed one."""
        return self.p_loss <= ALPHA

    def drop(self, alpha: float = ALPHA) -> bool:
        """Returns whether a drop is shown."""
        return self.p_drop <= alpha


def margin(
    a: Sequence[float],
    b: Sequence[float],
    allowed: float,
    *,
    seed: int,
    bounds: tuple[float, float] = (0.0, 1.0),
    groups: Labels | None = None,
) -> Margin:
    """Compares scores `b` with scores `a` of the same questions in the same order; higher is better.

    `allowed` is the loss in the mean, above 0 and below the width of `bounds`. Raises UsageError for another
    one, for no scores, unequal lengths, and scores outside `bounds`.
    """
    span = bounds[1] - bounds[0]
    if not 0 < allowed < span:
        raise UsageError(f"The allowed loss must lie above 0 and below {span:g}, found {allowed:g}.")
    if len(a) != len(b):
        raise UsageError(f"Paired scores must come from the same questions, but got {len(a)} and {len(b)}.")
    differences, _ = gaps(a, b, bounds)
    clusters = groups_of(groups, len(differences))
    share = _share(differences, clusters)
    diff = float(differences.mean())
    few = too_few(size_of(clusters))
    swapped = clusters.sums(differences).round(12) if clusters else differences
    return Margin(
        diff,
        1.0 if few else p_above(differences, -allowed, -span, share * len(differences)),
        1.0 if few or diff >= 0 else sign_flip(swapped, seed) / 2,
        len(differences),
        int((differences < 0).sum()),
        int((differences > 0).sum()),
        share * len(differences),
        size_of(clusters),
    )


def _share(values: Array, groups: Groups | None) -> float:
    """Returns the share of independent questions that `values` count as: what they show of their groups, at
    most what is assumed before anything is measured.

    A loss that whole groups share may be in none of 20 groups; nothing then shows that questions are alike.
    """
    if groups is None:
        return 1.0
    assumed = assumed_questions([int(size) for size in groups.sizes]) / len(values)
    return min(assumed, effective_share(values, groups))


def p_mean_above(
    scores: Sequence[float],
    bound: float,
    *,
    bounds: tuple[float, float] = (0.0, 1.0),
    groups: Labels | None = None,
) -> float:
    """Returns the one-sided p of "the mean of `scores` is at most `bound`"; small where the mean lies above
    it.

    1 from fewer than `MIN_GROUPS` groups. Raises UsageError for a `bound` that is not inside `bounds`, and
    like `margin`.
    """
    if not bounds[0] < bound < bounds[1]:
        raise UsageError(f"The least mean must lie between {bounds[0]:g} and {bounds[1]:g}, found {bound:g}.")
    values = array(scores, bounds)
    clusters = groups_of(groups, len(values))
    if too_few(size_of(clusters)):
        return 1.0
    return p_above(values, bound, bounds[0], _share(values, clusters) * len(values))


def p_above(values: Array, bound: float, low: float, effective: float) -> float:
    """Returns the p of "the mean is at most `bound`", from `values`, none of which can be below `low`.

    They count as `effective` independent ones. 1 if their mean is not above `bound`.
    """
    import numpy as np

    whole = bool((np.abs(values - np.round(values)) < TOLERANCE).all()) and float(low).is_integer()
    grid = 1.0 if whole else 1 / STEPS
    steps, counts = np.unique(np.round(values / grid), return_counts=True)
    return _p_of(steps * grid, counts / len(values), bound, low, effective, grid)


def _p_of(points: Array, shares: Array, bound: float, low: float, effective: float, grid: float) -> float:
    """Returns `p_above` for `points` that are multiples of `grid`, with their observed `shares`."""
    import numpy as np

    mean = float(shares @ points)
    if mean <= bound + TOLERANCE:
        return 1.0
    weights, at_end = _weights_under(points, shares, bound, low)
    points, weights = np.append(points, low), np.append(weights, at_end)
    draws = max(1, int(effective + TOLERANCE))
    if draws > BEYOND:
        spread = sqrt(float(weights @ (points - bound) ** 2))
        return 1 - NormalDist().cdf((mean - bound) * sqrt(effective) / spread)
    return _tail(np.round(points / grid).astype(np.intp), weights, draws, mean / grid)


def _weights_under(points: Array, shares: Array, bound: float, low: float) -> tuple[Array, float]:
    """Returns the most likely weights of `points` when the mean is `bound`, and that of the end `low` of the
    range.

    `shares` are the observed ones, with a mean above `bound`.
    """
    gaps_to = points - bound
    reach = bound - low

    def excess(tilt: float) -> float:
        return float((shares * gaps_to / (1 + tilt * gaps_to)).sum())

    least, most = 0.0, (1 - 1e-12) / reach
    if excess(most) > 0:
        tilt = 1 / reach
        denominators = 1 + tilt * gaps_to
        weights = shares / denominators.clip(1e-12)
        return weights, max(0.0, 1 - float(weights.sum()))
    for _ in range(60):
        tilt = (least + most) / 2
        least, most = (tilt, most) if excess(tilt) > 0 else (least, tilt)
    weights = shares / (1 + least * gaps_to)
    return weights / weights.sum(), 0.0


def _tail(steps: Codes, weights: Array, draws: int, mean: float) -> float:
    """Returns the probability that the mean of `draws` of `steps`, whole numbers drawn by `weights`, is >=
    `mean`.
    """
    import numpy as np

    first = int(steps.min())
    size = draws * int(steps.max() - first) + 1
    length = 1 << max(1, size - 1).bit_length()
    single = np.zeros(length)
    np.add.at(single, steps - first, weights)
    sums = np.fft.irfft(np.fft.rfft(single) ** draws, length)
    start = ceil(draws * (mean - first) - 1e-6)
    return float(min(1.0, max(0.0, sums[max(0, start) : size].sum())))


def questions_needed(differences: Array, allowed: float, span: float = 1.0) -> int:
    """Estimates how many independent questions let `POWER` of runs end with "no loss".

    The programs are assumed to be equal, with questions that change as often and as much as `differences`
    did, in either direction as often.
    """
    import numpy as np

    points, counts = np.unique(np.concatenate([differences, -differences]), return_counts=True)
    shares = counts / counts.sum()
    weights, at_end = _weights_under(points, shares, -allowed, -span)
    at_bound = float(weights @ (points + allowed) ** 2) + at_end * (span - allowed) ** 2
    when_equal = float(shares @ points**2)
    normal = NormalDist()
    reach = normal.inv_cdf(1 - ALPHA) * sqrt(at_bound) + normal.inv_cdf(POWER) * sqrt(when_equal)
    without_change = ceil(log(ALPHA) / log1p(-allowed / span))  # exact; the normal distribution says fewer
    return max(without_change, ceil((reach / allowed) ** 2))


def questions_for_bound(scores: Sequence[float], bound: float, *, groups: Labels | None = None) -> int | None:
    """Estimates how many questions like these let `POWER` of runs show the side of `bound` of the mean.

    None if the observed mean is at the bound. The true mean and spread are assumed to be the observed ones,
    and further questions to be in `groups` as these are.
    """
    import numpy as np

    values = np.asarray(scores, dtype=np.float64)
    gap = abs(float(values.mean()) - bound)
    if gap < TOLERANCE:
        return None
    normal = NormalDist()
    reach = normal.inv_cdf(1 - ALPHA) + normal.inv_cdf(POWER)
    share = _share(values, groups_of(groups, len(values)))
    return max(len(values) + 1, ceil((reach * float(values.std()) / gap) ** 2 / share))
