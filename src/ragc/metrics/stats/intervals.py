"""Confidence intervals of means, and tests of paired differences.

Scores of questions are bounded, discrete and full of zeros, and there are 20 to 500 of them. There the
percentile and BCa bootstraps fail: with a true share of .97 and 20 questions they cover 46 to 50% instead of
95%, because a sample without a single miss has zero width. `mean_ci` is therefore a Bayesian bootstrap (Rubin
1981, doi:10.1214/aos/1176345338) with one unseen question added at the extreme: at the least possible score
for the lower end, at the greatest for the upper one. That is Gaffke's bound (studied by Learned-Miller and
Thomas 2019, arXiv:1905.06208), which for 0/1 scores is the interval of Clopper and Pearson. Like that
interval it is too wide, so the unseen question counts in every second draw only, as in mid-P. When all scores
are equal this is about the rule of three. `experiments/benchmarks/scoring/significance.py` compares the
alternatives.

`paired` is a sign-flip test, which is exact when the differences are symmetric about 0, as they are if the
two systems are exchangeable. Below 100 questions, systems that differ in kind but not on average (many small
gains, few large losses) are called better too often. `resampling` makes the draws, `multiple` compares more
than two systems, `ratios` covers figures that are not means. Questions in groups, as those about one
document, count as fewer independent ones, and a group is swapped whole (`clusters`). numpy is imported on
first use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal

from ragc.core.display import quantity
from ragc.errors import UsageError
from ragc.metrics.base import Metric
from ragc.metrics.stats.clusters import MIN_GROUPS, Groups, effective_share
from ragc.metrics.stats.resampling import Draws, draws_for, sign_flip

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

Verdict = Literal["better", "not shown to be better", "worse", "cannot tell"]
"""The outcome of a comparison; "cannot tell" from fewer than `MIN_GROUPS` groups of questions."""

Labels = Sequence[str]
"""The label of each question's group, "" for a group of its own."""

SHARE = (0.0, 1.0)

UNSEEN_DISTANCE = 1.5
"""Distance of the unseen question relative to the farthest seen one, for differences and without bounds."""

_EQUAL = 1e-9
"""Differences that vary by less are equal up to rounding."""


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


@dataclass(frozen=True, slots=True)
class Summary:
    """A metric over `of` questions; it applied to `interval.n`, and to none when `interval` is None."""

    id: str
    interval: Interval | None
    of: int


def summarise(
    metric: Metric,
    scores: Sequence[float | None],
    *,
    confidence: float = 0.95,
    seed: int,
    groups: Labels | None = None,
) -> Summary:
    """Returns the mean over the questions that `metric` applies to; scores are None for the others."""
    applicable = [score for score in scores if score is not None]
    labels = labels_where(groups, scores)
    interval = (
        mean_ci(
            applicable, confidence=confidence, seed=seed, bounds=metric.bounds_of(applicable), groups=labels
        )
        if applicable
        else None
    )
    return Summary(metric.id, interval, len(scores))


def mean_ci(
    scores: Sequence[float],
    *,
    confidence: float = 0.95,
    seed: int,
    bounds: tuple[float, float] | None = SHARE,
    groups: Labels | None = None,
) -> Interval:
    """Returns the interval of a mean: the same for the same scores in any order, and never of zero width.

    `bounds` are the least and greatest possible score; None, for counts and prices, means at least 0 and no
    maximum, and `metrics.base.ANY` neither. Without a maximum rare large values cannot be bounded: the unseen
    question is placed `UNSEEN_DISTANCE` times as far from the mean as any seen one, or anywhere up to twice
    the common value when all are equal (free calls stay at 0, the one interval of zero width). `groups` has
    the label of each question's group, "" for one of its own; without them, or with one question a group,
    questions are independent. Raises UsageError for no scores, scores that are not finite, and scores outside
    `bounds`.
    """
    least, greatest = bounds or (0.0, float("inf"))
    values = array(scores, (least, greatest))
    mean = float(values.mean())
    limits = bounds if bounds and isfinite(greatest) else reach(values, least, greatest, when_equal=abs(mean))
    clusters = groups_of(groups, len(values))
    share = effective_share(values, clusters, confidence) if clusters else 1.0
    low, high = ends(draws(values, seed, share), mean, limits, confidence)
    return Interval(mean, low, high, len(values), size_of(clusters))


def groups_of(labels: Labels | None, n: int) -> Groups | None:
    """Returns the groups of `n` questions. Raises UsageError for another number of labels."""
    if labels is not None and len(labels) != n:
        raise UsageError(f"Every question needs the label of its group, but {n} have {len(labels)}.")
    return Groups.of(labels) if labels else None


def size_of(groups: Groups | None) -> int | None:
    """Returns the number of `groups`; None for independent questions."""
    return None if groups is None else len(groups)


def labels_where(groups: Labels | None, scores: Sequence[float | None]) -> list[str] | None:
    """Returns the labels of the questions that have a score."""
    if groups is None:
        return None
    return [label for label, score in zip(groups, scores, strict=True) if score is not None]


def in_groups(groups: int | None) -> str:
    """Returns the suffix of a number of questions, such as "in 12 groups"; "" for independent ones."""
    return "" if groups is None else f" in {groups} group{'' if groups == 1 else 's'}"


def groups_json(groups: int | None) -> dict[str, int]:
    """Returns the entry of the number of groups in JSON; {} for independent questions."""
    return {} if groups is None else {"groups": groups}


def reach(values: Array, least: float, greatest: float, *, when_equal: float) -> tuple[float, float]:
    """Returns the position of the unseen question for the lower and the upper end; see `intervals`."""
    mean = float(values.mean())
    far = UNSEEN_DISTANCE * float(abs(values - mean).max()) if values.min() < values.max() else when_equal
    return max(least, mean - far), min(greatest, mean + far)


def draws(values: Array, seed: int, share: float = 1.0) -> Draws:
    """Returns Bayesian bootstrap draws of one column, the same for the same values in any order.

    `share` is that of independent questions among the values (`clusters.effective_share`).
    """
    import numpy as np

    rng = np.random.default_rng(seed)
    count = draws_for(len(values))
    distinct, counts = np.unique(values, return_counts=True)
    size = max(1, 2_000_000 // len(distinct))
    blocks = [min(size, count - start) for start in range(0, count, size)]
    shapes = counts if share == 1 else counts * share
    total, weighted = np.empty((2, count))
    start = 0
    for block in blocks:
        weights = rng.standard_gamma(shapes, (block, len(counts)))
        total[start : start + block] = weights.sum(axis=1)
        weighted[start : start + block] = weights @ distinct
        start += block
    return Draws(weighted, total, rng.standard_exponential(count))


def ends(drawn: Draws, mean: float, limits: tuple[float, float], confidence: float) -> tuple[float, float]:
    """Returns the ends of the interval around `mean`; the unseen question, at `limits`, is in every second
    draw.
    """
    import numpy as np

    seen_only = drawn.weighted / drawn.total

    def end(extreme: float, level: float) -> float:
        with_unseen = (drawn.weighted + drawn.unseen * extreme) / (drawn.total + drawn.unseen)
        return float(np.quantile(np.concatenate([seen_only, with_unseen]), level))

    tail = (1 - confidence) / 2
    return min(mean, end(limits[0], tail)), max(mean, end(limits[1], 1 - tail))


def paired(
    a: Sequence[float],
    b: Sequence[float],
    *,
    confidence: float = 0.95,
    seed: int,
    bounds: tuple[float, float] | None = SHARE,
    groups: Labels | None = None,
) -> Paired:
    """Compares two systems on the same questions, in the same order; a positive `diff` means b scores more.

    p is that of the sign-flip test: exact with at most `EXACT` differing questions, else from `FLIPS` draws.
    The interval is that of `mean_ci`, with the unseen question `UNSEEN_DISTANCE` times as far from the mean
    difference as any seen one, within `bounds`; when all differences are equal, at the bounds. If that
    interval and p disagree about 0, the end nearer to 0 is the test-based one (Miettinen 1976,
    doi:10.1093/oxfordjournals.aje.a112225). With `groups`, as in `mean_ci`, the questions of a group swap
    sides together. Raises UsageError like `mean_ci`, and for unequal lengths.
    """
    if len(a) != len(b):
        raise UsageError(f"Paired scores must come from the same questions, but got {len(a)} and {len(b)}.")
    differences, far = gaps(a, b, bounds)
    clusters = groups_of(groups, len(differences))
    share = effective_share(differences, clusters, confidence) if clusters else 1.0
    swapped = clusters.sums(differences).round(12) if clusters else differences
    drawn = draws(differences, seed, share)
    return paired_result(
        differences, drawn, far, sign_flip(swapped, seed), confidence, swapped, share, clusters
    )


def gaps(
    a: Sequence[float], b: Sequence[float], bounds: tuple[float, float] | None
) -> tuple[Array, tuple[float, float]]:
    """Returns the differences b - a, and the position of an unseen one for the lower and the upper end."""
    limits = bounds or (-float("inf"), float("inf"))
    first, second = array(a, limits), array(b, limits)
    differences = (second - first).round(12) + 0.0
    span = limits[1] - limits[0]
    far = span if isfinite(span) else float(max(abs(first).max(), abs(second).max()))
    return differences, reach(differences, -span, span, when_equal=far)


def paired_result(
    differences: Array,
    drawn: Draws,
    limits: tuple[float, float],
    p: float,
    confidence: float,
    swapped: Array | None = None,
    share: float = 1.0,
    groups: Groups | None = None,
) -> Paired:
    """Returns the Paired result for `differences`, from the bootstrap `drawn` and the test's `p`.

    `swapped` are what the test flips: the differences, or their sums over `groups`, of which `share` are
    independent.
    """
    diff = float(differences.mean())
    low, high = agree(diff, *ends(drawn, diff, limits, confidence), p, confidence)
    sd = float(differences.std(ddof=1)) if len(differences) > 1 else 0.0
    if groups is not None:
        sd /= sqrt(share)
    steps = differences if swapped is None else swapped
    changed = sorted(abs(steps[steps != 0]).tolist())
    step = changed[len(changed) // 2] if changed else 0.0
    return Paired(diff, low, high, p, len(differences), sd, step, confidence, size_of(groups))


def verdict(result: Paired, alpha: float = 0.05) -> Verdict:
    """Returns better or worse only when `p < alpha`; the interval agrees when `alpha` is 1 - confidence.

    "cannot tell" from fewer than `MIN_GROUPS` groups of questions.
    """
    if too_few(result.groups):
        return "cannot tell"
    if result.p >= alpha:
        return "not shown to be better"
    return "better" if result.diff > 0 else "worse"


def too_few(groups: int | None) -> bool:
    """Returns whether so few groups of questions cannot show any difference."""
    return groups is not None and groups < MIN_GROUPS


def smallest_provable(
    n: int, sd: float, *, step: float = 1.0, power: float = 0.8, alpha: float = 0.05
) -> float:
    """Returns the approximate true difference that `n` questions detect with probability `power`.

    `sd` is that of the paired differences and `step` their usual nonzero size: 1 for exact match. The test
    moves in such steps, so one of them is added to the normal approximation.
    """
    normal = NormalDist()
    return (normal.inv_cdf(1 - alpha / 2) + normal.inv_cdf(power)) * sd / sqrt(n) + step / n


def power_note(result: Paired) -> str:
    """Returns one sentence for reports: the smallest difference that this comparison could have detected."""
    independent = result.n if result.groups is None else result.groups
    questions = f"{quantity(result.n, 'question')}{in_groups(result.groups)}"
    if too_few(result.groups):
        return (
            f"{questions} cannot show a difference: {MIN_GROUPS} groups must all change in one direction for "
            "p < 0.05; add questions of other groups."
        )
    if result.sd < _EQUAL:
        change = (
            "No question's score changed"
            if abs(result.diff) < _EQUAL
            else f"Each score changed by {result.diff:+.3f}"
        )
        return (
            f"{change} ({questions}); up to {1 - 0.05 ** (1 / independent):.1%} of further ones may "
            "behave differently without it having shown."
        )
    provable = smallest_provable(result.n, result.sd, step=result.step)
    counted = "" if result.groups is None else ", groups counted"
    return (
        f"With {questions} and a standard deviation of {result.sd:.3f} in the paired differences{counted}, "
        f"a true difference of {provable:.3f} is shown with about 80% probability."
    )


def array(scores: Sequence[float], limits: tuple[float, float]) -> Array:
    """Returns `scores` as an array; raises UsageError for none, and when one is not finite or not in
    `limits`.
    """
    import numpy as np

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


def agree(diff: float, low: float, high: float, p: float, confidence: float) -> tuple[float, float]:
    """Returns the ends; if they and `p` disagree about 0, the end nearer to 0 is test-based. See `paired`."""
    shown = p < 1 - confidence
    if shown == (low > 0 or high < 0):
        return low, high
    normal = NormalDist()
    from_test = normal.inv_cdf(1 - p / 2) if p < 1 else 0.0
    needed = normal.inv_cdf((1 + confidence) / 2)
    nearer = diff * (1 - needed / from_test) if from_test else 0.0
    return (nearer, high) if diff > 0 else (low, nearer)
