"""The curve of a threshold: outcomes over its values, the best value, and its cross-validated mean outcome.

A gate compares a score with a threshold; the score does not depend on the threshold. If a question passes a
gate once, its outcome is that of the range's low end for thresholds below its score and that of the high end
above. Two evaluations then give the exact curve over all thresholds without another call (`exact_curve`). If
a question passes a gate several times, later scores depend on earlier decisions. The outcomes are then
measured at a few thresholds (`measured_curve`), which `space_thresholds` places between the recorded scores.

All thresholds between two neighbouring scores have the same outcomes. The points of a curve are therefore one
threshold between each two neighbours, the ends of the range and the present value. Outcomes are signed: more
is better.

The mean outcome over the questions that chose a threshold is biased upwards. The cross-validated mean is not:
the questions are dealt into folds by their ids, and each fold is scored at the threshold chosen by the
others.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ragc.core.digest import digest

POINTS = 8
"""The most thresholds tried for a gate that questions pass several times, without the ends of the range."""

_SAME = 9  # decimals to which means are compared


@dataclass(frozen=True, slots=True)
class GateOutcome:
    """One question at a gate that it passes at most once.

    `score` is the compared score, None if the question did not reach the gate. `low`, `high` and `present`
    are its outcomes with the threshold at the ends of its range and at its present value.
    """

    id: str
    score: float | None
    low: float
    high: float
    present: float


@dataclass(frozen=True, slots=True)
class Curve:
    """Outcomes over thresholds: `outcomes` has, by question id, the outcome at each of the ascending
    `points`.

    Each point stands for an interval of thresholds. `edges` are the bounds of these intervals, one more than
    points. `present` is one of the points. With `exact` all thresholds of an interval have the outcomes of
    its point; otherwise this is an approximation.
    """

    points: tuple[float, ...]
    edges: tuple[float, ...]
    outcomes: Mapping[str, tuple[float, ...]]
    present: float
    exact: bool

    def means(self, ids: Sequence[str] | None = None) -> tuple[float, ...]:
        """Returns the mean outcome at each point over the questions `ids`, by default over all."""
        rows = [self.outcomes[id] for id in (self.outcomes if ids is None else ids)]
        return tuple(math.fsum(column) / len(rows) for column in zip(*rows, strict=True))

    def best(self, ids: Sequence[str] | None = None) -> int:
        """Returns the index of the point with the greatest mean over the questions `ids`, by default over
        all.

        The present point wins ties. Otherwise it is the point whose interval contains the middle of the
        longest run of best points, the first of equally long runs.
        """
        means = [round(mean, _SAME) for mean in self.means(ids)]
        top, now = max(means), self.points.index(self.present)
        if means[now] == top:
            return now
        first, last = max(_runs(means, top), key=lambda run: (self._length(run), -run[0]))
        middle = (self.edges[first] + self.edges[last + 1]) / 2
        return next(at for at in range(first, last + 1) if middle <= self.edges[at + 1])

    def threshold(self, index: int) -> float:
        """Returns the threshold for the run of equally good points around `index`.

        On an exact curve it is the middle of the run, otherwise the point itself.
        """
        point = self.points[index]
        if not self.exact or point == self.present:
            return point
        means = [round(mean, _SAME) for mean in self.means()]
        first, last = next(run for run in _runs(means, means[index]) if run[0] <= index <= run[1])
        half = middle(self.edges[first], self.edges[last + 1])
        return half if self.edges[index] < half < self.edges[index + 1] else point

    def _length(self, run: tuple[int, int]) -> float:
        return self.edges[run[1] + 1] - self.edges[run[0]]


def exact_curve(questions: Sequence[GateOutcome], low: float, high: float, present: float) -> Curve:
    """Returns the curve of a gate that each question passes at most once, over thresholds in [low, high].

    No score equals a point other than the ends and `present`. There the outcomes are measured, so it does not
    matter whether a score equal to the threshold passes. Raises ValueError without questions.
    """
    cuts = sorted({q.score for q in questions if q.score is not None and low < q.score < high})
    between = {middle(first, other) for first, other in pairwise([low, *cuts, high])}
    points = sorted({low, high, present, *between})

    def outcome(question: GateOutcome, point: float) -> float:
        if point == present:
            return question.present
        if point in (low, high):
            return question.low if point == low else question.high
        return question.low if question.score is None or question.score > point else question.high

    rows = {q.id: tuple(outcome(q, point) for point in points) for q in questions}
    edges = [points[0]]
    for first, other in pairwise(points):
        at = bisect_left(cuts, first)
        if at < len(cuts) and cuts[at] <= other:
            edges.append(cuts[at])
        else:  # an end is an interval of width 0, because a score equal to it may pass or not
            edges.append(first if first <= low else other if other >= high else (first + other) / 2)
    return Curve(tuple(points), (*edges, points[-1]), _sort_rows(rows), present, exact=True)


def is_single_gate(questions: Sequence[GateOutcome], low: float, high: float, present: float) -> bool:
    """Returns whether the outcomes at the ends explain those at the `present` value, as they do at a single
    gate.

    They may not, for example if a metric counts calls and the gate is only called between the ends.
    """
    for q in questions:
        values = {q.low, q.high}
        if q.score is not None and low < present < high and q.score != present:
            values = {q.low if q.score > present else q.high}
        if q.present not in values or (q.score is None and q.low != q.high):
            return False
    return True


def measured_curve(outcomes: Mapping[float, Mapping[str, float]], present: float) -> Curve:
    """Returns the curve of measured thresholds: `outcomes` has the outcome of every question by id, by
    threshold.

    `present` is one of the thresholds. Raises ValueError without questions.
    """
    points = sorted(outcomes)
    rows = {id: tuple(outcomes[point][id] for point in points) for id in outcomes[present]}
    edges = [points[0], *((first + other) / 2 for first, other in pairwise(points)), points[-1]]
    return Curve(tuple(points), tuple(edges), _sort_rows(rows), present, exact=False)


def space_thresholds(
    scores: Sequence[float], low: float, high: float, most: int = POINTS
) -> tuple[float, ...]:
    """Returns at most `most` thresholds between neighbouring scores, at evenly spaced quantiles of `scores`.

    Repeated scores count repeatedly; scores outside [low, high] are ignored. Empty if `most` is 0.
    """
    seen = sorted(score for score in scores if low <= score <= high)
    between = [middle(first, other) for first, other in pairwise(sorted({low, *seen, high}))]
    if len(between) <= most or most < 1:
        return tuple(between[:most])
    ranks = [bisect_left(seen, point) / len(seen) for point in between]
    shares = [number / (most + 1) for number in range(1, most + 1)]
    near = {min(range(len(between)), key=lambda at: abs(ranks[at] - share)) for share in shares}
    return tuple(between[at] for at in sorted(near))


def middle(first: float, other: float) -> float:
    """Returns the midpoint of `first` and `other`, rounded to 7 decimals if it still lies between them."""
    half = (first + other) / 2
    short = round(half, 7)
    return short if first < short < other else half


def _runs(means: Sequence[float], value: float) -> list[tuple[int, int]]:
    """Returns the first and last index of each run of `means` equal to `value`."""
    runs: list[tuple[int, int]] = []
    for at, mean in enumerate(means):
        if mean != value:
            continue
        if runs and runs[-1][1] == at - 1:
            runs[-1] = (runs[-1][0], at)
        else:
            runs.append((at, at))
    return runs


def _sort_rows(rows: Mapping[str, tuple[float, ...]]) -> dict[str, tuple[float, ...]]:
    if not rows:
        raise ValueError("A curve needs at least one question.")
    return {id: rows[id] for id in sorted(rows)}


FOLDS = 5
"""The number of folds for cross-validation; fewer if there are fewer questions."""


@dataclass(frozen=True, slots=True)
class Fit:
    """The threshold chosen by a curve, with its mean outcome and that of the `present` value.

    `points` and `means` are the curve; `exact` says whether it holds between its points. `in_sample` is the
    mean outcome of `threshold` over the `n` questions that chose it, `validated` the cross-validated mean in
    `folds` folds, and `before` the mean of the present value. `reached` is the number of questions that
    reached the gate. Means are signed: more is better. If the present value is as good as any, it is the
    threshold.
    """

    points: tuple[float, ...]
    means: tuple[float, ...]
    exact: bool
    present: float
    threshold: float
    before: float
    in_sample: float
    validated: float
    n: int
    folds: int
    reached: int

    @property
    def worth_a_trial(self) -> bool:
        """Whether the threshold differs from the present one and its cross-validated mean is no worse."""
        return self.threshold != self.present and self.validated >= self.before

    def to_json(self) -> dict[str, Any]:
        """JSON values only; `of` is the inverse."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return fields | {"points": list(self.points), "means": list(self.means)}

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Fit:
        """Returns the inverse of `to_json`."""
        return cls(**{**value, "points": tuple(value["points"]), "means": tuple(value["means"])})


def fit(curve: Curve, reached: int) -> Fit:
    """Fits a threshold to `curve`. `reached` is the number of its questions that reached the gate.

    The order of the questions does not matter.
    """
    means, index = curve.means(), curve.best()
    parts = deal_folds(list(curve.outcomes), FOLDS)
    return Fit(
        points=curve.points,
        means=tuple(round(mean, 9) for mean in means),
        exact=curve.exact,
        present=curve.present,
        threshold=curve.threshold(index),
        before=round(means[curve.points.index(curve.present)], 9),
        in_sample=round(means[index], 9),
        validated=round(_cross_validate(curve, parts), 9),
        n=len(curve.outcomes),
        folds=len(parts),
        reached=reached,
    )


def deal_folds(ids: Sequence[str], parts: int) -> list[list[str]]:
    """Returns `ids` dealt by digest into at most `parts` folds of nearly equal size, none empty."""
    order = sorted(ids, key=lambda id: (digest(id), id))
    return [order[at::parts] for at in range(min(parts, len(order)))]


def _cross_validate(curve: Curve, parts: Sequence[Sequence[str]]) -> float:
    """Returns the mean outcome of each fold at the point that the other folds choose; a single fold uses the
    present one.
    """
    outcomes = []
    for part in parts:
        others = [id for other in parts if other is not part for id in other]
        index = curve.best(others) if others else curve.points.index(curve.present)
        outcomes += [curve.outcomes[id][index] for id in part]
    return math.fsum(outcomes) / len(outcomes)
