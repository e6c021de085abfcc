"""Multiple comparisons: adjusted p-values that control the family-wise error, and contrasts of systems.

The probability of any false claim among all comparisons is that of a single test. `max_t` and `holm` control
the family-wise error strongly: for any subset of true differences.

`max_t` is the step-down maximum of Westfall and Young (1993). All comparisons share one random sign per
question, so strongly correlated ones (20 variants of one program, or EM beside F1) cost little power. Each
sum is divided by the root of its sum of squares, which is invariant under flips, so that noisy comparisons do
not mask quiet ones. For two systems and many metrics the flips are exact when the systems are exchangeable.
For more than two systems each single p is exact too, and the joint distribution is right in its variances and
correlations, hence for many questions (Romano and Wolf 2005, doi:10.1111/j.1468-0262.2005.00615.x).

`holm` needs the p-values alone, holds under any dependence, and has less power.

Contrasts are pairs of score columns judged as one family, with questions matched by id. Questions in groups
share the sign of their group, and each comparison has an interval for as many independent questions as its
differences are worth (`clusters`).

Repeated looks at the same questions are a family too: `after_looks` adjusts for those before, by the factor
of `ragc.store.used_questions`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from ragc.core.display import quantity
from ragc.errors import UsageError, nearest
from ragc.metrics.stats.clusters import Groups, effective_share
from ragc.metrics.stats.intervals import (
    Paired,
    Verdict,
    draws,
    gaps,
    groups_json,
    paired_result,
    too_few,
)
from ragc.metrics.stats.resampling import EXACT, TOLERANCE, Draws, joint_draws, share, sign_flip, signs_of

if TYPE_CHECKING:
    from ragc.metrics.stats.resampling import Array


class Family(NamedTuple):
    """A p and an adjusted p per comparison, and the critical value of the largest standardised sum.

    `critical` is at least that of a single comparison, 1.96 for a confidence of .95.
    """

    p: tuple[float, ...]
    adjusted: tuple[float, ...]
    critical: float


def holm(p: Sequence[float]) -> tuple[float, ...]:
    """Returns Holm's adjusted p-values (1979), in the order of `p`; each at least its own p, at most 1."""
    order = sorted(range(len(p)), key=lambda i: (p[i], i))
    adjusted, highest = [1.0] * len(p), 0.0
    for rank, i in enumerate(order):
        highest = max(highest, min(1.0, (len(p) - rank) * p[i]))
        adjusted[i] = highest
    return tuple(adjusted)


def max_t(differences: Array, *, confidence: float, seed: int) -> Family:
    """Adjusts `differences` (questions x comparisons) by the step-down maximum.

    A question missing from a comparison is 0 there. A comparison without any difference has p = 1. One with
    at most `EXACT` differing questions has its exact p. The questions must be in the same order.
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
    """Adjusts the single p-values of `max_t` by Holm; `critical` is that of Bonferroni."""
    p = max_t(differences, confidence=confidence, seed=seed).p
    return Family(p, holm(p), NormalDist().inv_cdf(1 - (1 - confidence) / 2 / len(p)))


Method = Literal["max-t", "holm"]
Bounds = tuple[float, float] | None
Scores = Mapping[str, float | None]

COLUMNS_PER_DRAW = 64
"""Columns drawn at a time; memory grows with it."""


@dataclass(frozen=True, slots=True)
class Matching:
    """The matching of the questions of two systems a and b.

    `both` were scored on both sides and compared. `only_a` and `only_b` were asked on one side only.
    `unscored` were asked on both, but the metric does not apply on one side or on either.
    """

    both: int
    only_a: int
    only_b: int
    unscored: int

    def note(self, a: str, b: str) -> str:
        """Returns the questions left out, as one sentence; empty without any."""
        left = [f"{n} asked only of {name}" for n, name in ((self.only_a, a), (self.only_b, b)) if n] + (
            [f"{self.unscored} without a score on both sides"] if self.unscored else []
        )
        were = "was" if self.both == 1 else "were"
        compared = f"{quantity(self.both, 'question')} {were} compared"
        return f"{compared}; left out: {', '.join(left)}." if left else ""


@dataclass(frozen=True, slots=True)
class Contrast:
    """The scores of systems a and b by question id, None where not scored, and the bounds of the scores."""

    a: Scores
    b: Scores
    bounds: Bounds = (0.0, 1.0)


@dataclass(frozen=True, slots=True)
class ContrastResult:
    """One contrast of a family.

    `result` is that of the contrast alone: its p and interval are unadjusted. `adjusted` is p adjusted for
    the family. `low` and `high` are simultaneous: with approximately the requested confidence, all intervals
    of the family contain their differences. They exclude 0, or end at it, exactly when `adjusted` < 1 -
    confidence.
    """

    result: Paired
    adjusted: float
    low: float
    high: float

    def verdict(self, *, higher_is_better: bool = True) -> Verdict:
        """Returns whether b is better than a, by the adjusted p; "cannot tell" from too few groups."""
        if too_few(self.result.groups):
            return "cannot tell"
        if self.adjusted >= 1 - self.result.confidence:
            return "not shown to be better"
        return "better" if (self.result.diff > 0) == higher_is_better else "worse"

    def after_looks(self, factor: int, bounds: Bounds) -> ContrastResult:
        """Returns the result, also adjusted by the `factor` of a look."""
        alone, span = self.result, _span(bounds)
        ends = (self.low, self.high)
        p, low, high = after_looks(factor, alone.diff, self.adjusted, ends, confidence=alone.confidence)
        return replace(self, adjusted=p, low=max(-span, low), high=min(span, high))

    def to_json(self) -> dict[str, Any]:
        """Returns JSON values; `ci` is simultaneous, `ci_unadjusted` that of the contrast alone."""
        alone = self.result
        return {
            "diff": alone.diff,
            "ci": [self.low, self.high],
            "ci_unadjusted": [alone.low, alone.high],
            "p": alone.p,
            "p_adjusted": self.adjusted,
            "n": alone.n,
            "confidence": alone.confidence,
            **groups_json(alone.groups),
        }


def match(a: Scores, b: Scores) -> tuple[tuple[str, ...], Matching]:
    """Returns the ids scored on both sides, sorted, and the questions left out."""
    common = a.keys() & b.keys()
    scored_ids = tuple(sorted(key for key in common if a[key] is not None and b[key] is not None))
    return scored_ids, Matching(
        len(scored_ids), len(a) - len(common), len(b) - len(common), len(common) - len(scored_ids)
    )


def adjust_family(
    contrasts: Sequence[Contrast],
    *,
    seed: int,
    method: Method = "max-t",
    confidence: float = 0.95,
    groups: Mapping[str, str] | None = None,
) -> tuple[ContrastResult | None, ...]:
    """Returns every contrast, judged as one family, in order; None for one without common questions.

    A contrast without common questions is not counted in the family. Results do not depend on the order of
    questions. The simultaneous interval is that of the contrast alone, widened by the ratio of critical
    values (for Holm, those of Bonferroni). A step-down test is slightly more powerful than these intervals:
    where they disagree, the end nearer to 0 is set to 0. `groups` has the label of the group of a question by
    its id; one without a label is a group of its own. Raises UsageError for an unknown method, a confidence
    outside 0..1, and scores that are not finite or outside their bounds.
    """
    import numpy as np

    if method not in get_args(Method):
        known = ", ".join(get_args(Method))
        raise UsageError(
            f"No adjustment is named {method!r}.{nearest(method, get_args(Method))} Known: {known}."
        )
    if not 0 < confidence < 1:
        raise UsageError(f"A confidence lies between 0 and 1, such as 0.95, but got {confidence:g}.")
    matched = [match(contrast.a, contrast.b)[0] for contrast in contrasts]
    live = [i for i, ids in enumerate(matched) if ids]
    row = {key: i for i, key in enumerate(sorted({key for ids in matched for key in ids}))}
    values, seen = np.zeros((2, len(row), len(live)))
    limits = []
    for column, i in enumerate(live):
        rows = [row[key] for key in matched[i]]
        differences, far = gaps(*_columns(contrasts[i], matched[i]), contrasts[i].bounds)
        values[rows, column], seen[rows, column] = differences, 1.0
        limits.append(far)
    if not live:
        return (None,) * len(contrasts)
    labels = [(groups or {}).get(key, "") for key in row]
    clusters = Groups.of(labels)
    swapped = clusters.sums(values).round(12) if clusters else values
    family = (max_t if method == "max-t" else by_holm)(swapped, confidence=confidence, seed=seed)
    stretch = family.critical / NormalDist().inv_cdf((1 + confidence) / 2)
    out: list[ContrastResult | None] = [None] * len(contrasts)
    for start in range(0, len(live), COLUMNS_PER_DRAW):
        block = slice(start, start + COLUMNS_PER_DRAW)
        drawn = None if clusters else joint_draws(values[:, block], seen[:, block], seed)
        for offset, i in enumerate(live[block]):
            column = start + offset
            scored_rows = np.flatnonzero(seen[:, column] > 0)
            differences, p = values[scored_rows, column], family.p[column]
            if drawn is None:
                own = [labels[at] for at in scored_rows]
                result = _grouped(differences, own, limits[column], p, confidence, seed)
            else:
                one = Draws(drawn.weighted[:, offset], drawn.total[:, offset], drawn.unseen)
                result = paired_result(differences, one, limits[column], p, confidence)
            span = _span(contrasts[i].bounds)
            out[i] = _simultaneous(result, family.adjusted[column], stretch, span)
    return tuple(out)


def _grouped(
    differences: Array,
    labels: Sequence[str],
    limits: tuple[float, float],
    p: float,
    confidence: float,
    seed: int,
) -> Paired:
    """Returns the result of a contrast alone whose questions are in the groups `labels`; its draws are its
    own.
    """
    clusters = Groups.of(labels)
    share = effective_share(differences, clusters, confidence) if clusters else 1.0
    swapped = clusters.sums(differences).round(12) if clusters else differences
    drawn = draws(differences, seed, share)
    return paired_result(differences, drawn, limits, p, confidence, swapped, share, clusters)


def _columns(contrast: Contrast, ids: Sequence[str]) -> tuple[list[float], list[float]]:
    sides = ([side[key] for key in ids] for side in (contrast.a, contrast.b))
    first, second = ([value for value in side if value is not None] for side in sides)
    return first, second


def _span(bounds: Bounds) -> float:
    return bounds[1] - bounds[0] if bounds else float("inf")


def _simultaneous(result: Paired, adjusted: float, stretch: float, span: float) -> ContrastResult:
    low, high = widen(result, adjusted, stretch)
    return ContrastResult(result, adjusted, max(-span, low), min(span, high))


def widen(result: Paired, adjusted: float, stretch: float) -> tuple[float, float]:
    """Returns the interval of `result`, `stretch` times as wide; the end nearer to 0 agrees with the
    `adjusted` p.
    """
    return _stretched(result.diff, (result.low, result.high), adjusted, stretch, result.confidence)


def _stretched(
    diff: float, ends: tuple[float, float], adjusted: float, stretch: float, confidence: float
) -> tuple[float, float]:
    low, high = diff - stretch * (diff - ends[0]), diff + stretch * (ends[1] - diff)
    if adjusted < 1 - confidence:
        return (max(low, 0.0), high) if diff > 0 else (low, min(high, 0.0))
    return min(low, 0.0), max(high, 0.0)


def after_looks(
    factor: int, diff: float, p: float, ends: tuple[float, float], *, confidence: float = 0.95
) -> tuple[float, float, float]:
    """Returns `p` and the `ends` of the interval of `diff`, adjusted by the `factor` of a look; unchanged by
    1.

    The interval is as many times as wide as its critical value is greater, and excludes 0, or ends at it,
    exactly when the adjusted p is below 1 - `confidence`.
    """
    if factor == 1:
        return p, *ends
    adjusted = min(1.0, factor * p)
    normal, tail = NormalDist(), (1 - confidence) / 2
    stretch = normal.inv_cdf(tail / factor) / normal.inv_cdf(tail)
    return adjusted, *_stretched(diff, ends, adjusted, stretch, confidence)
