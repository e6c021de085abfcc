"""Tests whether a mean lies above a bound: whether a change loses less than allowed.

Paired differences of two versions of a program are mostly 0. If the questions contain no loss, an ordinary
bootstrap or Student's t excludes one with certainty. The draws here are those of
`ragc.metrics.stats.resample` with the unseen question, at the end of the range of scores, in every draw:
Gaffke's bound, which for scores of 0 and 1 is the exact binomial test. `p` is the share of draws whose mean
is at most the bound.

A drop is shown by the sign-flip test of verdicts, on one side: exact if no question's score depends on which
program answered. Groups of questions count as in verdicts: as many independent questions as they are worth,
signs of whole groups, nothing shown by fewer than `groups.MIN_GROUPS`.

`experiments/benchmarks/gate.py` measures how often both are wrong and right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log, log1p, sqrt

import numpy as np

from ragc.errors import UsageError
from ragc.metrics.stats.groups import (
    Array,
    Groups,
    Labels,
    assumed_questions,
    effective_share,
    size_of,
    too_few,
)
from ragc.metrics.stats.resample import (
    TOLERANCE,
    Z,
    as_array,
    bootstrap,
    differences_of,
    sign_flip,
    swapped,
)

ALPHA = 0.05
"""The probability of each kind of false claim in a run, on one side."""

POWER = 0.8
"""The share of runs of equal programs that the number of questions needed lets end with "no loss"."""


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
    one, for no scores, and for scores outside `bounds`.
    """
    span = bounds[1] - bounds[0]
    if not 0 < allowed < span:
        raise UsageError(f"The allowed loss must lie above 0 and below {span:g}, found {allowed:g}.")
    differences, _ = differences_of(a, b, bounds)
    clusters = Groups.of(groups)
    diff, few = float(differences.mean()), too_few(size_of(clusters))
    share = _share(differences, clusters)
    return Margin(
        diff,
        1.0 if few else _p_above(differences, -allowed, -span, share, seed),
        1.0 if few or diff >= 0 else sign_flip(swapped(differences, clusters), seed) / 2,
        len(differences),
        int((differences < 0).sum()),
        int((differences > 0).sum()),
        share * len(differences),
        size_of(clusters),
    )


def p_mean_above(
    scores: Sequence[float],
    bound: float,
    *,
    bounds: tuple[float, float] = (0.0, 1.0),
    groups: Labels | None = None,
    seed: int = 0,
) -> float:
    """Returns the one-sided p of "the mean of `scores` is at most `bound`"; small where it lies above.

    1 from fewer than `MIN_GROUPS` groups. Raises UsageError for a `bound` that is not inside `bounds`, and
    like `margin`.
    """
    if not bounds[0] < bound < bounds[1]:
        raise UsageError(f"The least mean must lie between {bounds[0]:g} and {bounds[1]:g}, found {bound:g}.")
    values = as_array(scores, bounds)
    clusters = Groups.of(groups)
    if too_few(size_of(clusters)):
        return 1.0
    return _p_above(values, bound, bounds[0], _share(values, clusters), seed)


def _share(values: Array, groups: Groups | None) -> float:
    """Returns the share of independent questions: what `values` show, at most what is assumed beforehand.

    A loss that whole groups share may be in none of 20 groups; nothing then shows that questions are alike.
    """
    if groups is None:
        return 1.0
    assumed = assumed_questions(groups.sizes.astype(int).tolist()) / len(values)
    return min(assumed, effective_share(values, groups))


def _p_above(values: Array, bound: float, low: float, share: float, seed: int) -> float:
    """Returns the p of "the mean is at most `bound`", from `values`, none of which can be below `low`."""
    if values.min() == values.max() > bound:  # the unseen question has a beta-distributed weight
        return float(((bound - low) / (values[0] - low)) ** (share * len(values)))
    weighted, total, unseen = bootstrap(values, None, seed, share)
    below = weighted + unseen * low <= bound * (total + unseen) + TOLERANCE
    return float((below.sum() + 1) / (len(below) + 1))


def questions_needed(differences: Array, allowed: float, span: float = 1.0) -> int:
    """Estimates how many independent questions let `POWER` of runs end with "no loss".

    The programs are assumed to be equal, with questions that change as often and as much as `differences`
    did, in either direction as often. The unseen question costs up to `span` of the allowed sum.
    """
    spread = (Z.inv_cdf(1 - ALPHA) + Z.inv_cdf(POWER)) * sqrt(float((differences**2).mean()))
    root = (spread + sqrt(spread**2 + 4 * allowed * span)) / (2 * allowed)
    without_change = ceil(log(ALPHA) / log1p(-allowed / span))  # exact; the normal distribution says fewer
    return max(without_change, ceil(root**2))


def questions_for_bound(scores: Sequence[float], bound: float, *, groups: Labels | None = None) -> int | None:
    """Estimates how many questions like these let `POWER` of runs show the side of `bound` of the mean.

    None if the observed mean is at the bound. The true mean and spread are assumed to be the observed ones,
    and further questions to be in `groups` as these are.
    """
    values = np.asarray(scores, dtype=np.float64)
    gap = abs(float(values.mean()) - bound)
    if gap < TOLERANCE:
        return None
    reach = Z.inv_cdf(1 - ALPHA) + Z.inv_cdf(POWER)
    share = _share(values, Groups.of(groups))
    return max(len(values) + 1, ceil((reach * float(values.std()) / gap) ** 2 / share))
