"""Intervals, tests and verdicts by resampling: of means, of figures made of several means, of families.

Scores of questions are bounded, discrete and full of zeros, and there are 20 to 500 of them. There the
percentile and BCa bootstraps fail: with a true share of .97 and 20 questions they cover 46 to 50% instead of
95%, because a sample without a single miss has zero width. Intervals are therefore Bayesian bootstraps (Rubin
1981, doi:10.1214/aos/1176345338) with one unseen question added at the extreme: at the least possible score
for the lower end, at the greatest for the upper one. That is Gaffke's bound (studied by Learned-Miller and
Thomas 2019, arXiv:1905.06208), which for 0/1 scores is the interval of Clopper and Pearson. Like that
interval it is too wide, so the unseen question counts in every second draw only, as in mid-P. When all scores
are equal this is about the rule of three.

Tests flip signs: two systems that are exchangeable may swap sides question by question. Below 100 questions,
systems that differ in kind but not on average (many small gains, few large losses) are called better too
often. Comparisons of a family share one sign a question and are adjusted by the step-down maximum of Westfall
and Young (1993), which controls the family-wise error: each sum is divided by the root of its sum of squares,
which flips do not change, so that noisy comparisons do not mask quiet ones, and strongly correlated ones (20
variants of one program, or EM beside F1) cost little power.

Questions in groups, as those about one document, count as fewer independent ones, and a group is swapped as a
unit (`ragc.metrics.stats.groups`). `experiments/benchmarks/scoring/significance.py` compares alternatives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite, sqrt
from statistics import NormalDist
from typing import Any, Literal, NamedTuple

import numpy as np

from ragc.core.display import quantity
from ragc.errors import UsageError
from ragc.metrics.stats.groups import (
    MIN_GROUPS,
    Array,
    Groups,
    Labels,
    effective_share,
    groups_json,
    in_groups,
    size_of,
    too_few,
)

Verdict = Literal["better", "not shown to be better", "worse", "cannot tell"]
"""The outcome of a comparison; "cannot tell" from fewer than `MIN_GROUPS` groups of questions."""

Bounds = tuple[float, float] | None
"""The least and greatest possible score; None for at least 0 and no maximum."""

Column = Sequence[float | None]
"""A score a question, None where the column does not apply."""

Combine = Callable[..., float]
"""Combines the mean of each column, in order, into a finite figure; non-decreasing in each mean."""

Scores = Mapping[str, float | None]
"""Scores by question id, None where not scored."""

SHARE = (0.0, 1.0)
EXACT = 14
"""With at most this many differing questions every sign pattern is enumerated."""
FLIPS, FLIPS_OF_MANY = 9_999, 999
"""Number of random sign patterns otherwise, and beyond `FEWER_BEYOND` questions; p is at least 1/so many."""
DRAWS, DRAWS_OF_MANY = 10_000, 1_000
"""Number of bootstrap draws of an interval; ends vary by about 2% of the width, or 5% with fewer draws."""
FEWER_BEYOND = 10_000
"""Number of questions beyond which fewer are drawn, because a draw costs time by question."""
UNSEEN_DISTANCE = 1.5
"""Distance of the unseen question relative to the farthest seen one, for differences and without bounds."""
TOLERANCE = 1e-9
"""Sums and spreads that differ by less, relative to their size, are equal up to rounding."""
Z = NormalDist()


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over `n` questions; `low <= mean <= high`.

    `groups` is the number of their groups, None if the questions are independent.
    """

    mean: float
    low: float
    high: float
    n: int
    groups: int | None = None

    @property
    def questions(self) -> str:
        """The number of questions, and of their groups: "60 questions in 12 groups"."""
        return f"{quantity(self.n, 'question')}{in_groups(self.groups)}"

    @property
    def n_text(self) -> str:
        """As `questions`, without the word."""
        return f"{self.n}{in_groups(self.groups)}"

    def to_json(self) -> dict[str, Any]:
        """Returns JSON values; `groups` only where questions are in groups."""
        return {"mean": self.mean, "ci": [self.low, self.high], "n": self.n} | groups_json(self.groups)


@dataclass(frozen=True, slots=True)
class Paired:
    """The mean difference b - a over `n` common questions, its interval and its two-sided p.

    The interval excludes 0 exactly when `p < 1 - confidence`. `sd` is the standard deviation of the
    differences, `step` the median absolute value of the nonzero ones. Of questions in groups, `groups` is the
    number of groups, `sd` the standard deviation at which `n` independent differences would be as uncertain,
    and `step` is of the sums over groups.
    """

    diff: float
    low: float
    high: float
    p: float
    n: int
    sd: float
    step: float
    confidence: float = 0.95
    groups: int | None = None


class Draws(NamedTuple):
    """Reweighted sums, draws x columns: of scores times weights, and of weights; and the unseen question's
    weight, draws x 1.
    """

    weighted: Array
    total: Array
    unseen: Array


def bootstrap(values: Array, seen: Array | None, seed: int, share: float = 1.0) -> Draws:
    """Draws Bayesian bootstraps of `values` (questions x columns), with one weight a question.

    `seen` is 1 where a question counts in a column, otherwise 0; there `values` must be 0 too. Without `seen`
    there is one column, `values` is one-dimensional, and the draws do not depend on the order of questions.
    `share` is that of independent questions among them (`groups.effective_share`).
    """
    n, counts = len(values), np.ones(len(values))
    if seen is None:
        distinct, repeated = np.unique(values, return_counts=True)
        values, seen, counts = distinct[:, None], np.ones((len(distinct), 1)), repeated.astype(np.float64)
    rng = np.random.default_rng(seed)
    number = DRAWS if n <= FEWER_BEYOND else DRAWS_OF_MANY
    size = max(1, 2_000_000 // len(values))
    weighted, total = np.empty((2, number, values.shape[1]))
    for start in range(0, number, size):
        block = slice(start, min(start + size, number))
        weights = rng.standard_gamma(counts * share, (block.stop - start, len(values)))
        weighted[block], total[block] = weights @ values, weights @ seen
    return Draws(weighted, total, rng.standard_exponential((number, 1)))


def signs_of(n: int, seed: int, columns: int = 1) -> Iterator[Array]:
    """Yields sign patterns of `n` questions in blocks of rows: all 2**n up to `EXACT`, else random ones.

    Blocks are smaller for more `columns`, to bound the memory of what is computed from them.
    """
    if n <= EXACT:
        bits = np.arange(2**n)[:, None] >> np.arange(n) & 1
        yield 2 * bits.astype(np.float64) - 1
        return
    rng = np.random.default_rng(seed)
    size, number = max(1, 4_000_000 // max(n, columns)), _flips(n)
    for start in range(0, number, size):
        bits = rng.integers(0, 2, (min(size, number - start), n), dtype=np.int8)
        yield 2 * bits.astype(np.float64) - 1


def p_of(extreme: int, n: int) -> float:
    """Returns the p-value when `extreme` patterns of `signs_of(n)` reach the observed sum."""
    return extreme / 2**n if n <= EXACT else (extreme + 1) / (_flips(n) + 1)


def _flips(n: int) -> int:
    return FLIPS if n <= FEWER_BEYOND else FLIPS_OF_MANY


def sign_flip(differences: Array, seed: int) -> float:
    """Returns the two-sided p of the sum of `differences` under random signs, the same in any order.

    This is `scipy.stats.permutation_test` of one sample with `permutation_type="samples"`: equal to it when
    enumerated, and several times as fast when drawn.
    """
    sizes = np.sort(np.abs(differences[differences != 0]))
    observed = abs(float(differences.sum())) - TOLERANCE * float(sizes.sum())
    extreme = sum(int((np.abs(signs @ sizes) >= observed).sum()) for signs in signs_of(len(sizes), seed))
    return p_of(extreme, len(sizes))


def mean_ci(
    scores: Sequence[float],
    *,
    confidence: float = 0.95,
    seed: int,
    bounds: Bounds = SHARE,
    groups: Labels | None = None,
) -> Interval:
    """Returns the interval of a mean: the same for the same scores in any order, and never of zero width.

        mean_ci([1, 0, 1, 1], seed=0).low

    `bounds` are the least and greatest possible score; None, for counts and prices, means at least 0 and no
    maximum, and `metrics.base.ANY` neither. Without a maximum rare large values cannot be bounded: the unseen
    question is placed `UNSEEN_DISTANCE` times as far from the mean as any seen one, or anywhere up to twice
    the common value when all are equal (free calls stay at 0, the one interval of zero width). `groups` has
    the label of each question's group, "" for one of its own; without them, or with one question a group,
    questions are independent. Raises UsageError for no scores, scores that are not finite, and scores outside
    `bounds`.
    """
    least, greatest = bounds or (0.0, inf)
    values = as_array(scores, (least, greatest))
    mean, clusters = float(values.mean()), Groups.of(groups)
    unseen = (least, greatest) if isfinite(greatest) else _unseen(values, (least, greatest), abs(mean))
    drawn = bootstrap(values, None, seed, effective_share(values, clusters))
    low, high, _ = _ends(drawn, _first, values.mean(keepdims=True), unseen, confidence)
    return Interval(mean, low, high, len(values), size_of(clusters))


def pooled_ci(
    columns: Sequence[Column],
    combine: Combine,
    *,
    confidence: float = 0.95,
    seed: int,
    bounds: tuple[float, float] = SHARE,
    groups: Labels | None = None,
) -> Interval:
    """Returns the figure `combine(mean of each column)` and its interval, the same in any order of questions.

    A question is drawn with all its columns, which preserves their correlation. `columns` hold one score per
    question, in the same order of questions; `n` counts the questions with any score. `bounds` hold in every
    column, and `groups` are those of `mean_ci`. Raises UsageError for a column without scores, and for scores
    that are not finite or outside `bounds`.
    """
    values, seen, clusters = _matrices(columns, bounds, groups)
    figure = _figure(combine)
    drawn = bootstrap(values, seen, seed, _share_of_figure(values, seen, figure, clusters))
    low, high, _ = _ends(drawn, figure, means := values.sum(axis=0) / seen.sum(axis=0), bounds, confidence)
    return Interval(float(figure(means[None])[0]), low, high, len(values), size_of(clusters))


def paired(
    a: Sequence[float],
    b: Sequence[float],
    *,
    confidence: float = 0.95,
    seed: int,
    bounds: Bounds = SHARE,
    groups: Labels | None = None,
) -> Paired:
    """Compares two systems on the same questions in the same order; a positive `diff` means b is higher.

    The interval is that of `mean_ci`, with the unseen question `UNSEEN_DISTANCE` times as far from the mean
    difference as any seen one, within `bounds`; when all differences are equal, at the bounds. If that
    interval and p disagree about 0, the end nearer to 0 is the test-based one (Miettinen 1976,
    doi:10.1093/oxfordjournals.aje.a112225). With `groups`, as in `mean_ci`, the questions of a group swap
    sides together. Raises UsageError like `mean_ci`.
    """
    differences, unseen = differences_of(a, b, bounds)
    return _paired(differences, unseen, Groups.of(groups), confidence, seed)


def differences_of(
    a: Sequence[float], b: Sequence[float], bounds: Bounds
) -> tuple[Array, tuple[float, float]]:
    """Returns the differences b - a, and the position of an unseen one for the lower and the upper end.

    Raises UsageError for no scores, and for scores outside `bounds`.
    """
    if len(a) != len(b):
        raise UsageError(f"Paired scores must come from the same questions, but got {len(a)} and {len(b)}.")
    limits = bounds or (-inf, inf)
    first, second = as_array(a, limits), as_array(b, limits)
    differences = (second - first).round(12) + 0.0
    span = limits[1] - limits[0]
    far = span if isfinite(span) else float(max(abs(first).max(), abs(second).max()))
    return differences, _unseen(differences, (-span, span), far)


def _paired(
    differences: Array,
    unseen: tuple[float, float],
    clusters: Groups | None,
    confidence: float,
    seed: int,
    p: float | None = None,
    drawn: Draws | None = None,
) -> Paired:
    """Returns the comparison of one column of `differences`; `p` and `drawn` are given in a family."""
    share = effective_share(differences, clusters)
    flipped = swapped(differences, clusters)
    p = sign_flip(flipped, seed) if p is None else p
    drawn = drawn or bootstrap(differences, None, seed, share)
    diff = float(differences.mean())
    ends = _ends(drawn, _first, differences.mean(keepdims=True), unseen, confidence)
    sd = float(differences.std(ddof=1)) / sqrt(share) if len(differences) > 1 else 0.0
    changed = sorted(abs(flipped[flipped != 0]).tolist())
    step = changed[len(changed) // 2] if changed else 0.0
    low, high = _agree(diff, ends[0], ends[1], p, confidence)
    return Paired(diff, low, high, p, len(differences), sd, step, confidence, size_of(clusters))


def pooled_paired(
    a: Sequence[Column],
    b: Sequence[Column],
    combine: Combine,
    *,
    confidence: float = 0.95,
    seed: int,
    bounds: tuple[float, float] = SHARE,
    groups: Labels | None = None,
) -> Paired:
    """Compares the figures of two systems on the same questions; a positive `diff` means b's is greater.

    In each column a question counts when it is scored on both sides. p is that of swapping the systems,
    question by question, or group by group. `sd` is the standard deviation at which a mean of `n` differences
    would be equally uncertain; `step` is 0. Raises UsageError like `pooled_ci`.
    """
    shared = [
        [(x, y) if x is not None and y is not None else (None, None) for x, y in zip(*pair, strict=True)]
        for pair in zip(a, b, strict=True)
    ]
    sides = [[pair[side] for pair in column] for side in (0, 1) for column in shared]
    values, seen, clusters = _matrices(sides, bounds, groups)
    half, figure = len(a), _figure(combine)

    def gap(means: Array) -> Array:
        return figure(means[:, half:]) - figure(means[:, :half])

    before, after, counts = values[:, :half], values[:, half:], seen[:, :half].sum(axis=0)
    middle, moved = (before + after).sum(axis=0) / 2, swapped((after - before) / 2, clusters)
    moved = moved[(moved != 0).any(axis=1)]

    def swapped_gap(shift: Array) -> Array:
        return np.abs(gap(np.hstack([(middle - shift) / counts, (middle + shift) / counts])))

    observed = float(swapped_gap(moved.sum(axis=0, keepdims=True))[0]) - TOLERANCE
    patterns = signs_of(len(moved), seed)
    p = p_of(sum(int((swapped_gap(signs @ moved) >= observed).sum()) for signs in patterns), len(moved))
    span, centre = bounds[1] - bounds[0], sum(bounds) / 2
    gaps = [(after - before)[seen[:, i] > 0, i].round(12) for i in range(half)]
    apart = np.array([_unseen(column, (-span, span), span) for column in gaps]).T / 2
    unseen = [np.concatenate([centre - distance, centre + distance]) for distance in apart]
    drawn = bootstrap(values, seen, seed, _share_of_figure(values, seen, gap, clusters))
    means = values.sum(axis=0) / seen.sum(axis=0)
    low, high, spread = _ends(drawn, gap, means, (unseen[0], unseen[1]), confidence)
    n, diff = len(values), float(gap(means[None])[0])
    low, high = _agree(diff, low, high, p, confidence)
    sd = spread * sqrt(n) if len(moved) else 0.0
    return Paired(diff, low, high, p, n, sd, 0.0, confidence, size_of(clusters))


def _first(means: Array) -> Array:
    return means[:, 0]


def _figure(combine: Combine) -> Callable[[Array], Array]:
    """Returns the function of rows of means that applies `combine` to each."""
    return lambda means: np.array([combine(*row) for row in means.tolist()], dtype=np.float64)


def _ends(
    drawn: Draws,
    figure: Callable[[Array], Array],
    means: Array,
    unseen: tuple[float | Array, float | Array],
    confidence: float,
) -> tuple[float, float, float]:
    """Returns both ends around the figure of `means`, and the standard deviation of the draws as they are.

    The unseen question has the scores `unseen` for the lower and the upper end, and is in every second draw.
    """
    weighted, total, weight = drawn
    # Few scores in few groups: all weights of a column may be too small for a number. Its mean stands then.
    filled = np.broadcast_to(means, total.shape).copy()
    alone = figure(np.divide(weighted, total, out=filled, where=total > 0))

    def end(extreme: float | Array, level: float) -> float:
        with_unseen = figure((weighted + weight * extreme) / (total + weight))
        return float(np.quantile(np.concatenate([alone, with_unseen]), level))

    value, tail = float(figure(means[None])[0]), (1 - confidence) / 2
    low, high = end(unseen[0], tail), end(unseen[1], 1 - tail)
    return min(value, low), max(value, high), float(alone.std())


def _unseen(values: Array, limits: tuple[float, float], when_equal: float) -> tuple[float, float]:
    """Returns the position of the unseen question for the lower and the upper end, within `limits`."""
    mean = float(values.mean())
    far = UNSEEN_DISTANCE * float(abs(values - mean).max()) if values.min() < values.max() else when_equal
    return max(limits[0], mean - far), min(limits[1], mean + far)


def swapped(values: Array, clusters: Groups | None) -> Array:
    """Returns what a test flips: `values`, or their sums over groups."""
    return values if clusters is None else clusters.sums(values).round(12)


def _matrices(
    columns: Sequence[Column], bounds: tuple[float, float], groups: Labels | None
) -> tuple[Array, Array, Groups | None]:
    """Scores, and a mask of present scores, both questions x columns, for the questions with any score.

    The questions are in the order of their scores; their groups come last.
    """
    values, seen = np.zeros((2, len(columns[0]), len(columns)))
    for i, column in enumerate(columns):
        rows = [row for row, score in enumerate(column) if score is not None]
        values[rows, i] = as_array([score for score in column if score is not None], bounds)
        seen[rows, i] = 1.0
    scored_rows = np.flatnonzero(seen.any(axis=1))
    order = scored_rows[np.lexsort(np.hstack([values, seen])[scored_rows].T)]
    clusters = Groups.of([groups[int(row)] for row in order]) if groups else None
    return values[order], seen[order], clusters


def _share_of_figure(
    values: Array, seen: Array, figure: Callable[[Array], Array], clusters: Groups | None
) -> float:
    """Returns the share of independent questions, by how much each moves the figure, to first order."""
    totals = seen.sum(axis=0)
    means = values.sum(axis=0) / totals
    steps = 1e-6 * np.eye(len(means))
    slopes = (figure(means + steps) - figure(means - steps)) / 2e-6
    return effective_share(((values - means * seen) * (slopes / totals)).sum(axis=1) * len(values), clusters)


def as_array(scores: Sequence[float], limits: tuple[float, float]) -> Array:
    """Returns `scores` as an array.

    Raises UsageError for none, and when one is not finite or not in `limits`.
    """
    values = np.asarray(scores, dtype=np.float64)
    if not len(values):
        raise UsageError("There are no scores to take a mean of. Count the applicable questions first.")
    if not np.isfinite(values).all():
        raise UsageError("Scores must be finite numbers. Leave out questions that were not scored.")
    if values.min() < limits[0] - 1e-9 or values.max() > limits[1] + 1e-9:
        received = f"{values.min():g} to {values.max():g}"
        raise UsageError(
            f"Scores must lie in {limits[0]:g}..{limits[1]:g}, but got {received}. Pass their bounds."
        )
    return values


def _agree(diff: float, low: float, high: float, p: float, confidence: float) -> tuple[float, float]:
    """Returns the ends; if they and `p` disagree about 0, the end nearer to 0 is test-based. See `paired`."""
    if (p < 1 - confidence) == (low > 0 or high < 0):
        return low, high
    from_test = Z.inv_cdf(1 - p / 2) if p < 1 else 0.0
    nearer = diff * (1 - Z.inv_cdf((1 + confidence) / 2) / from_test) if from_test else 0.0
    return (nearer, high) if diff > 0 else (low, nearer)


def verdict(
    result: Paired, alpha: float = 0.05, *, p: float | None = None, higher_is_better: bool = True
) -> Verdict:
    """Returns better or worse only when `p`, by default that of `result`, is below `alpha`.

    The interval agrees when `alpha` is 1 - confidence. "cannot tell" from fewer than `MIN_GROUPS` groups of
    questions.
    """
    if too_few(result.groups):
        return "cannot tell"
    if (result.p if p is None else p) >= alpha:
        return "not shown to be better"
    return "better" if (result.diff > 0) == higher_is_better else "worse"


def power_note(result: Paired) -> str:
    """Returns one sentence for reports: the smallest difference that this comparison could have detected."""
    questions = f"{quantity(result.n, 'question')}{in_groups(result.groups)}"
    if too_few(result.groups):
        return (
            f"{questions} cannot show a difference: {MIN_GROUPS} groups must all change in one direction for "
            "p < 0.05; add questions of other groups."
        )
    if result.sd < TOLERANCE:
        change = (
            "No question's score changed"
            if abs(result.diff) < TOLERANCE
            else f"Each score changed by {result.diff:+.3f}"
        )
        return (
            f"{change} ({questions}); up to {1 - 0.05 ** (1 / (result.groups or result.n)):.1%} of further "
            "ones may behave differently without it having shown."
        )
    # The test moves in steps, so one of them is added to the normal approximation.
    provable = (Z.inv_cdf(0.975) + Z.inv_cdf(0.8)) * result.sd / sqrt(result.n) + result.step / result.n
    counted = "" if result.groups is None else ", groups counted"
    return (
        f"With {questions} and a standard deviation of {result.sd:.3f} in the paired differences{counted}, "
        f"a true difference of {provable:.3f} is shown with about 80% probability."
    )


def max_t(differences: Array, *, confidence: float, seed: int) -> tuple[list[float], list[float], float]:
    """Adjusts `differences` (questions x comparisons) by the step-down maximum.

    Returns a p and an adjusted p per comparison, and the critical value of the largest standardised sum: at
    least that of a single comparison, 1.96 for a confidence of .95.

    A question missing from a comparison is 0 there. A comparison without any difference has p = 1. One with
    at most `EXACT` differing questions has its exact p. The questions must be in the same order.
    """
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
    p = np.array([p_of(int(count), len(flipped)) for count in alone])
    for column in np.flatnonzero((differences != 0).sum(axis=0) <= EXACT):
        p[column] = sign_flip(differences[:, column], seed)
    adjusted = np.empty_like(p)
    adjusted[order] = [p_of(int(count), len(flipped)) for count in beyond]
    adjusted[order] = np.maximum.accumulate(np.maximum(adjusted, p)[order])
    critical = float(np.quantile(np.concatenate(greatest), confidence))
    return p.tolist(), adjusted.tolist(), max(Z.inv_cdf((1 + confidence) / 2), critical)


def holm(p: Sequence[float]) -> tuple[float, ...]:
    """Returns Holm's adjusted p-values (1979), in the order of `p`; each at least its own p, at most 1.

    It needs the p-values alone and holds under any dependence; `max_t` has more power.
    """
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate((len(p) - np.arange(len(p))) * np.asarray(p)[order])
    return tuple(np.minimum(1.0, steps)[np.argsort(order)].tolist())


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


def match(a: Scores, b: Scores) -> tuple[tuple[str, ...], Matching]:
    """Returns the ids scored on both sides, sorted, and the questions left out."""
    common = a.keys() & b.keys()
    scored_ids = tuple(sorted(key for key in common if a[key] is not None and b[key] is not None))
    return scored_ids, Matching(
        len(scored_ids), len(a) - len(common), len(b) - len(common), len(common) - len(scored_ids)
    )


@dataclass(frozen=True, slots=True)
class Contrast:
    """The scores of systems a and b by question id, None where not scored, and the bounds of the scores."""

    a: Scores
    b: Scores
    bounds: Bounds = SHARE

    @property
    def span(self) -> float:
        """The greatest possible difference."""
        return self.bounds[1] - self.bounds[0] if self.bounds else inf


@dataclass(frozen=True, slots=True)
class ContrastResult:
    """One contrast of a family.

    `result` is that of the contrast alone: its p and interval are unadjusted. `adjusted` is p adjusted for
    the family. `low` and `high` are simultaneous: with approximately the requested confidence, all intervals
    of the family contain their differences. They exclude 0, or end at it, exactly when `adjusted` < 1 -
    confidence. No end is farther from 0 than `span`.
    """

    result: Paired
    adjusted: float
    low: float
    high: float
    span: float = inf

    def verdict(self, *, higher_is_better: bool = True) -> Verdict:
        """Returns whether b is better than a, by the adjusted p; "cannot tell" from too few groups."""
        alpha = 1 - self.result.confidence
        return verdict(self.result, alpha, p=self.adjusted, higher_is_better=higher_is_better)

    def after_looks(self, factor: int) -> ContrastResult:
        """Returns the result, also adjusted by the `factor` of a look."""
        ends = self.low, self.high
        p, low, high = after_looks(
            factor, self.result.diff, self.adjusted, ends, confidence=self.result.confidence
        )
        return replace(self, adjusted=p, low=max(-self.span, low), high=min(self.span, high))

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


def adjust_family(
    contrasts: Sequence[Contrast],
    *,
    seed: int,
    confidence: float = 0.95,
    groups: Mapping[str, str] | None = None,
) -> tuple[ContrastResult | None, ...]:
    """Returns every contrast, judged as one family, in order; None for one without common questions.

    Questions are matched by id. A contrast without common questions is not counted in the family. Results do
    not depend on the order of questions. The simultaneous interval is that of the contrast alone, widened by
    the ratio of critical values. A step-down test is slightly more powerful than these intervals: where they
    disagree, the end nearer to 0 is set to 0. `groups` has the label of the group of a question by its id;
    one without a label is a group of its own. Raises UsageError for scores that are not
    finite or outside their bounds.
    """
    matched = [match(contrast.a, contrast.b)[0] for contrast in contrasts]
    live = [i for i, ids in enumerate(matched) if ids]
    out: list[ContrastResult | None] = [None] * len(contrasts)
    if not live:
        return tuple(out)
    row = {key: i for i, key in enumerate(sorted({key for ids in matched for key in ids}))}
    values, seen = np.zeros((2, len(row), len(live)))
    unseen = []
    for column, i in enumerate(live):
        rows = [row[key] for key in matched[i]]
        a, b = ([side[key] or 0.0 for key in matched[i]] for side in (contrasts[i].a, contrasts[i].b))
        differences, far = differences_of(a, b, contrasts[i].bounds)
        values[rows, column], seen[rows, column] = differences, 1.0
        unseen.append(far)
    labels = [(groups or {}).get(key, "") for key in row]
    clusters = Groups.of(labels)
    p, adjusted, critical = max_t(swapped(values, clusters), confidence=confidence, seed=seed)
    stretch = critical / Z.inv_cdf((1 + confidence) / 2)
    joint = None if clusters else bootstrap(values, seen, seed)
    for column, i in enumerate(live):
        scored_rows = np.flatnonzero(seen[:, column] > 0)
        drawn = joint and Draws(joint.weighted[:, [column]], joint.total[:, [column]], joint.unseen)
        within = Groups.of([labels[index] for index in scored_rows])
        alone = _paired(
            values[scored_rows, column], unseen[column], within, confidence, seed, p[column], drawn
        )
        span = contrasts[i].span
        low, high = widen(alone, adjusted[column], stretch)
        out[i] = ContrastResult(alone, adjusted[column], max(-span, low), min(span, high), span)
    return tuple(out)


def widen(result: Paired, adjusted: float, stretch: float) -> tuple[float, float]:
    """Returns the interval of `result`, `stretch` times as wide.

    The end nearer to 0 agrees with the `adjusted` p.
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
    """Returns `p` and the `ends` of the interval of `diff`, adjusted by the `factor` of a look at test
    questions (`ragc.store.used_questions`); unchanged by 1.

    The interval is as many times as wide as its critical value is greater, and excludes 0, or ends at it,
    exactly when the adjusted p is below 1 - `confidence`.
    """
    if factor == 1:
        return p, *ends
    adjusted, tail = min(1.0, factor * p), (1 - confidence) / 2
    stretch = Z.inv_cdf(tail / factor) / Z.inv_cdf(tail)
    return adjusted, *_stretched(diff, ends, adjusted, stretch, confidence)
