"""p values of many comparisons at once, so that one false claim among all of them stays as rare as one.

`max_t` is the step-down maximum of Westfall and Young (1993): all comparisons are flipped by the same sign
a question, so strongly correlated ones (20 variants of one program, or EM beside F1) cost little. Each sum is
divided by the root of its sum of squares, which no flip changes, so that noisy comparisons do not drown
quiet ones. For two systems and many metrics the flips are exact when the systems are exchangeable. For more
than two systems each single p is, and the joint distribution is right in its variances and correlations,
hence for many questions (Romano and Wolf 2005, doi:10.1111/j.1468-0262.2005.00615.x).

`holm` needs the p values alone, holds under any dependence, and shows less. Both control the family-wise
error strongly: whichever of the differences are real.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

from ragc.metrics.resampling import EXACT, TOLERANCE, share, sign_flip, signs_of

if TYPE_CHECKING:
    from ragc.metrics.resampling import Array


class Family(NamedTuple):
    """A p and an adjusted p a comparison, and the critical value of the greatest standardised sum.

    `critical` is at least that of a single comparison, 1.96 for a confidence of .95.
    """

    p: tuple[float, ...]
    adjusted: tuple[float, ...]
    critical: float


def holm(p: Sequence[float]) -> tuple[float, ...]:
    """Holm's adjusted p values (1979), in the order of `p`; each at least its own p, at most 1."""
    order = sorted(range(len(p)), key=lambda i: (p[i], i))
    adjusted, highest = [1.0] * len(p), 0.0
    for rank, i in enumerate(order):
        highest = max(highest, min(1.0, (len(p) - rank) * p[i]))
        adjusted[i] = highest
    return tuple(adjusted)


def max_t(differences: Array, *, confidence: float, seed: int) -> Family:
    """The family of `differences` (questions x comparisons), adjusted by the step-down maximum.

    A question that a comparison lacks is 0 there. A comparison without any difference has p = 1. One with
    at most `EXACT` differing questions has its exact p. The same questions must come in the same order.
    """
    import numpy as np

    flipped = differences[(differences != 0).any(axis=1)]
    roots = np.sqrt((flipped**2).sum(axis=0))
    scaled = flipped / np.where(roots > 0, roots, 1.0)
    observed = np.abs(scaled.sum(axis=0)) - TOLERANCE * np.abs(scaled).sum(axis=0)
    order = np.argsort(-observed, kind="stable")
    alone, beyond = np.zeros((2, len(order)), dtype=np.int64)
    greatest = []
    for signs in signs_of(len(flipped), seed, columns=len(order)):
        sums = np.abs(signs @ scaled)
        alone += (sums >= observed).sum(axis=0)
        rest = np.maximum.accumulate(sums[:, order[::-1]], axis=1)[:, ::-1]
        beyond += (rest >= observed[order]).sum(axis=0)
        greatest.append(rest[:, 0])
    p = np.array([share(int(count), len(flipped)) for count in alone])
    for column in np.flatnonzero((differences != 0).sum(axis=0) <= EXACT):
        p[column] = sign_flip(differences[:, column], seed)
    adjusted = np.empty_like(p)
    adjusted[order] = [share(int(count), len(flipped)) for count in beyond]
    adjusted[order] = np.maximum.accumulate(np.maximum(adjusted, p)[order])
    least = NormalDist().inv_cdf((1 + confidence) / 2)
    critical = max(least, float(np.quantile(np.concatenate(greatest), confidence)))
    return Family(tuple(p.tolist()), tuple(adjusted.tolist()), critical)


def by_holm(differences: Array, *, confidence: float, seed: int) -> Family:
    """As `max_t`, with the same single p values, adjusted by Holm; `critical` is that of Bonferroni."""
    p = max_t(differences, confidence=confidence, seed=seed).p
    return Family(p, holm(p), NormalDist().inv_cdf(1 - (1 - confidence) / 2 / len(p)))
