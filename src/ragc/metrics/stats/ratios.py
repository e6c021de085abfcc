"""Intervals and tests of figures made of several means, such as `alce_cite_f1`.

`alce_cite_f1` is the harmonic mean of mean citation recall and mean citation precision. A question is drawn,
and swapped between two systems, with all its columns at once, which preserves their correlation. The draws
are those of `resampling`, with one unseen question at the extreme of every column; so the figure must be
non-decreasing in each mean. With one column it is `mean_ci` or `paired` of that column.

For questions in groups, the independent share is computed from the influences of questions on the figure: by
how much each question moves it, to first order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt
from typing import TYPE_CHECKING

from ragc.errors import UsageError
from ragc.metrics.stats.clusters import Groups, effective_share
from ragc.metrics.stats.intervals import (
    SHARE,
    Interval,
    Labels,
    Paired,
    agree,
    array,
    groups_of,
    reach,
    size_of,
)
from ragc.metrics.stats.resampling import TOLERANCE, joint_draws, share, signs_of

if TYPE_CHECKING:
    from ragc.metrics.stats.resampling import Array

Column = Sequence[float | None]
STEP = 1e-6
"""The change of a mean from which the slope of a figure is taken."""

Combine = Callable[..., float]
"""Combines the mean of each column, in order, into a finite figure; non-decreasing in each mean."""


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

    `columns` hold one score per question, in the same order of questions, None where the column does not
    apply; `n` counts the questions with any score. `bounds` hold in every column, and `groups` are those of
    `mean_ci`. Raises UsageError for no columns, columns of unequal length, a column without scores, and
    scores that are not finite or outside `bounds`.
    """
    values, seen, clusters = _matrices(columns, bounds, groups)
    mean = combine(*(values.sum(axis=0) / seen.sum(axis=0)).tolist())
    width = values.shape[1]
    independent = _independent(values, seen, combine, clusters, confidence)
    unseen = [bounds[0]] * width, [bounds[1]] * width
    low, high, _ = _ends(values, seen, unseen, combine, confidence, seed, independent)
    return Interval(mean, min(mean, low), max(mean, high), len(values), size_of(clusters))


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
    question by question. `sd` is the standard deviation at which a mean of `n` differences would be equally
    uncertain; `step` is 0. With `groups` the questions of a group swap together. Raises UsageError like
    `pooled_ci`, and for unequal shapes.
    """
    if [len(column) for column in a] != [len(column) for column in b]:
        raise UsageError("Both systems need the same columns of the same questions; score them alike.")
    shared = [
        [(x, y) if x is not None and y is not None else (None, None) for x, y in zip(*pair, strict=True)]
        for pair in zip(a, b, strict=True)
    ]
    sides = [[pair[side] for pair in column] for side in (0, 1) for column in shared]
    values, seen, clusters = _matrices(sides, bounds, groups)
    half = len(a)

    def gap(*means: float) -> float:
        return combine(*means[half:]) - combine(*means[:half])

    diff = gap(*(values.sum(axis=0) / seen.sum(axis=0)).tolist())
    p = _swap(values[:, :half], values[:, half:], seen[:, :half], gap, seed, clusters)
    independent = _independent(values, seen, gap, clusters, confidence)
    unseen = _unseen_values(values, seen, half, bounds)
    low, high, spread = _ends(values, seen, unseen, gap, confidence, seed, independent)
    low, high = agree(diff, min(diff, low), max(diff, high), p, confidence)
    n = len(values)
    sd = spread * sqrt(n) if (values[:, :half] != values[:, half:]).any() else 0.0
    return Paired(diff, low, high, p, n, sd, 0.0, confidence, size_of(clusters))


def _matrices(
    columns: Sequence[Column], bounds: tuple[float, float], groups: Labels | None
) -> tuple[Array, Array, Groups | None]:
    """Scores, and a mask of present scores, both questions x columns, for the questions with any score.

    The questions are in the order of their scores; their groups come last.
    """
    import numpy as np

    lengths = {len(column) for column in columns}
    if len(lengths) != 1:
        received = ", ".join(str(n) for n in sorted(lengths)) or "no column"
        raise UsageError(f"Columns must hold the same questions, at least one column, but got {received}.")
    values, seen = np.zeros((2, lengths.pop(), len(columns)))
    for i, column in enumerate(columns):
        rows = [row for row, score in enumerate(column) if score is not None]
        values[rows, i] = array([score for score in column if score is not None], bounds)
        seen[rows, i] = 1.0
    scored_rows = np.flatnonzero(seen.any(axis=1))
    order = scored_rows[np.lexsort(np.hstack([values, seen])[scored_rows].T)]
    groups_of(groups, len(values))  # the number of labels
    clusters = Groups.of([groups[int(row)] for row in order]) if groups else None
    return values[order], seen[order], clusters


def _independent(
    values: Array, seen: Array, combine: Combine, groups: Groups | None, confidence: float
) -> float:
    """Returns the share of independent questions, by their influences on the figure; 1 without `groups`."""
    import numpy as np

    if groups is None:
        return 1.0
    totals = seen.sum(axis=0)
    means = values.sum(axis=0) / totals
    slopes = []
    for column in range(len(means)):
        step = np.zeros(len(means))
        step[column] = STEP
        slopes.append((combine(*(means + step).tolist()) - combine(*(means - step).tolist())) / (2 * STEP))
    influences = ((values - means * seen) * (np.array(slopes) / totals)).sum(axis=1) * len(values)
    return effective_share(influences, groups, confidence)


def _ends(
    values: Array,
    seen: Array,
    unseen: tuple[Sequence[float], Sequence[float]],
    combine: Combine,
    confidence: float,
    seed: int,
    independent: float,
) -> tuple[float, float, float]:
    """Returns both ends, and the standard deviation of the draws without the unseen question."""
    import numpy as np

    weighted, total, weight = joint_draws(values, seen, seed, independent)

    def figures(means: Array) -> Array:
        return np.array([combine(*row) for row in means.tolist()])

    # Few scores in few groups: all weights of a column may be too small for a number. Its mean stands then.
    means = np.broadcast_to(values.sum(axis=0) / seen.sum(axis=0), total.shape).copy()
    seen_only, drawn = figures(np.divide(weighted, total, out=means, where=total > 0)), weight[:, None]

    def end(extreme: Sequence[float], level: float) -> float:
        with_unseen = figures((weighted + drawn * np.array(extreme)) / (total + drawn))
        return float(np.quantile(np.concatenate([seen_only, with_unseen]), level))

    tail = (1 - confidence) / 2
    return end(unseen[0], tail), end(unseen[1], 1 - tail), float(seen_only.std())


def _unseen_values(
    values: Array, seen: Array, half: int, bounds: tuple[float, float]
) -> tuple[list[float], list[float]]:
    """Returns the unseen scores of a and b for the lower and the upper end: as far apart as in `paired`."""
    span, middle = bounds[1] - bounds[0], (bounds[0] + bounds[1]) / 2
    apart = []
    for i in range(half):
        here = seen[:, i] > 0
        differences = (values[here, half + i] - values[here, i]).round(12)
        apart.append(reach(differences, -span, span, when_equal=span))
    low, high = ([gap[side] / 2 for gap in apart] for side in (0, 1))
    return (
        [middle - gap for gap in low] + [middle + gap for gap in low],
        [middle - gap for gap in high] + [middle + gap for gap in high],
    )


def _swap(a: Array, b: Array, seen: Array, gap: Combine, seed: int, groups: Groups | None) -> float:
    """Returns the two-sided p of the gap when every question or group may swap sides with all its columns."""
    import numpy as np

    n = seen.sum(axis=0)
    middle, half = (a + b).sum(axis=0) / 2, (b - a) / 2
    if groups is not None:
        half = groups.sums(half).round(12)
    half = half[(half != 0).any(axis=1)]
    observed = abs(
        gap(*((middle - half.sum(axis=0)) / n).tolist(), *((middle + half.sum(axis=0)) / n).tolist())
    )
    extreme = 0
    for signs in signs_of(len(half), seed):
        shift = signs @ half
        means = np.hstack([(middle - shift) / n, (middle + shift) / n]).tolist()
        extreme += sum(abs(gap(*row)) >= observed - TOLERANCE for row in means)
    return share(extreme, len(half))
