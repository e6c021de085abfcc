"""Curve of a threshold: outcomes over its values, the best value, and its cross-validated mean outcome.

A gate compares a score with a threshold; the score does not depend on the threshold. Where a question passes
one such gate, its outcome is that of the low end of the range below its score and that of the high end above
it. Two evaluations then give the curve over all thresholds, exactly and without another call
(`exact_curve`). Where it passes several, what comes later depends on what was decided before, and the
outcomes are those of thresholds that were tried (`measured_curve`), which `space_thresholds` chooses between
the scores that were seen.

Only thresholds between neighbouring scores differ, so those are the points of a curve, with the ends of the
range and the present value. Outcomes are signed: more is better.

The mean outcome over the questions that chose a threshold is too good. The cross-validated mean is not: the
questions are dealt into folds by their ids, and each fold is judged at the threshold that the others choose.
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
"""Most thresholds tried for a gate that questions pass several times, the ends of the range left out."""

_SAME = 9  # decimals to which means are compared


@dataclass(frozen=True, slots=True)
class GateOutcome:
    """One question at a gate that it passes once: the score compared, None where it never got there.

    `low`, `high` and `present` are its outcomes with the threshold at either end of its range and as it is.
    """

    id: str
    score: float | None
    low: float
    high: float
    present: float


@dataclass(frozen=True, slots=True)
class Curve:
    """Outcomes over thresholds: `outcomes` has a question's at each of the rising `points`, by its id.

    `edges` are one more than points: where the stretch of each begins and ends. `present` is one of the
    points. With `exact_curve` all thresholds of a stretch have the outcomes of its point, else they are
    taken to.
    """

    points: tuple[float, ...]
    edges: tuple[float, ...]
    outcomes: Mapping[str, tuple[float, ...]]
    present: float
    exact: bool

    def means(self, ids: Sequence[str] | None = None) -> tuple[float, ...]:
        """The mean outcome at each point over the questions `ids`, over all without."""
        rows = [self.outcomes[id] for id in (self.outcomes if ids is None else ids)]
        return tuple(math.fsum(column) / len(rows) for column in zip(*rows, strict=True))

    def best(self, ids: Sequence[str] | None = None) -> int:
        """The place of the point with the greatest mean over the questions `ids`, over all without.

        The present one if it is as good as any. Else the one in whose stretch the middle of the longest run
        of equally good points lies, the first of runs of one length.
        """
        means = [round(mean, _SAME) for mean in self.means(ids)]
        top, now = max(means), self.points.index(self.present)
        if means[now] == top:
            return now
        first, last = max(_runs(means, top), key=lambda run: (self._length(run), -run[0]))
        middle = (self.edges[first] + self.edges[last + 1]) / 2
        return next(at for at in range(first, last + 1) if middle <= self.edges[at + 1])

    def threshold(self, index: int) -> float:
        """The threshold that stands for the run of equally good points around `index`.

        Where the curve is exact that is the middle of the run, else the point itself.
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
    """The curve of a gate that each question passes once at most, over thresholds in [low, high].

    Scores stand on either side of every point but the ends and `present`. At those the outcomes are the
    questions' own, so it does not matter whether a score that is the threshold passes. Raises ValueError
    without questions.
    """
    cuts = sorted({q.score for q in questions if q.score is not None and low < q.score < high})
    between = {middle(one, other) for one, other in pairwise([low, *cuts, high])}
    points = sorted({low, high, present, *between})

    def outcome(question: GateOutcome, point: float) -> float:
        if point == present:
            return question.present
        if point in (low, high):
            return question.low if point == low else question.high
        return question.low if question.score is None or question.score > point else question.high

    rows = {q.id: tuple(outcome(q, point) for point in points) for q in questions}
    edges = [points[0]]
    for one, other in pairwise(points):
        at = bisect_left(cuts, one)
        if at < len(cuts) and cuts[at] <= other:
            edges.append(cuts[at])
        else:  # the ends are no wider than themselves: a score that is one passes there or does not
            edges.append(one if one <= low else other if other >= high else (one + other) / 2)
    return Curve(tuple(points), (*edges, points[-1]), _sort_rows(rows), present, exact=True)


def is_single_gate(questions: Sequence[GateOutcome], low: float, high: float, present: float) -> bool:
    """Whether the outcomes at the ends explain those at the `present` value, as they do at a single gate.

    They need not where a metric counts calls, and the gate itself is only asked in between.
    """
    for q in questions:
        wanted = {q.low, q.high}
        if q.score is not None and low < present < high and q.score != present:
            wanted = {q.low if q.score > present else q.high}
        if q.present not in wanted or (q.score is None and q.low != q.high):
            return False
    return True


def measured_curve(outcomes: Mapping[float, Mapping[str, float]], present: float) -> Curve:
    """The curve of the thresholds that were tried: for each the outcome of every question by its id.

    `present` is one of them. Raises ValueError without questions.
    """
    points = sorted(outcomes)
    rows = {id: tuple(outcomes[point][id] for point in points) for id in outcomes[present]}
    edges = [points[0], *((one + other) / 2 for one, other in pairwise(points)), points[-1]]
    return Curve(tuple(points), tuple(edges), _sort_rows(rows), present, exact=False)


def space_thresholds(
    scores: Sequence[float], low: float, high: float, most: int = POINTS
) -> tuple[float, ...]:
    """At most `most` thresholds between neighbours among `scores`, with as many scores from one to the next.

    A score counts as often as it was seen; those outside [low, high] do not. With `most` 0 there are none.
    """
    seen = sorted(score for score in scores if low <= score <= high)
    between = [middle(one, other) for one, other in pairwise(sorted({low, *seen, high}))]
    if len(between) <= most or most < 1:
        return tuple(between[:most])
    ranks = [bisect_left(seen, point) / len(seen) for point in between]
    wanted = [number / (most + 1) for number in range(1, most + 1)]
    near = {min(range(len(between)), key=lambda at: abs(ranks[at] - share)) for share in wanted}
    return tuple(between[at] for at in sorted(near))


def middle(one: float, other: float) -> float:
    """Half way from `one` to `other`, with few decimals as long as it stays between them."""
    half = (one + other) / 2
    short = round(half, 7)
    return short if one < short < other else half


def _runs(means: Sequence[float], value: float) -> list[tuple[int, int]]:
    """First and last place of each run of `means` that are `value`."""
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
"""Parts that the questions are dealt into; fewer where there are fewer questions."""


@dataclass(frozen=True, slots=True)
class Fit:
    """The threshold that a curve chooses, and its mean outcome beside that of the `present` value.

    `points` and `means` are the curve, `exact_curve` whether it holds between its points. `in_sample` is the
    mean of the `threshold` over the `n` questions that chose it, `validated` the cross-validated mean in
    `folds` folds, `before` the mean of the present value. `reached` is how many questions got to the gate.
    Means are
    signed: more is better. Where the present value is as good as any, it is the threshold.
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
        """Whether it is worth a trial: not the present one, and no worse where others chose."""
        return self.threshold != self.present and self.validated >= self.before

    def to_json(self) -> dict[str, Any]:
        """JSON values only; `of` is the inverse."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return fields | {"points": list(self.points), "means": list(self.means)}

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Fit:
        """The fit that `to_json` described."""
        return cls(**{**value, "points": tuple(value["points"]), "means": tuple(value["means"])})


def fit(curve: Curve, reached: int) -> Fit:
    """What `curve` chooses, where `reached` of its questions got to the gate.

    The order of the questions changes nothing.
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
    """`ids` dealt by their digests into `parts` of nearly one size, none of them empty."""
    order = sorted(ids, key=lambda id: (digest(id), id))
    return [order[at::parts] for at in range(min(parts, len(order)))]


def _cross_validate(curve: Curve, parts: Sequence[Sequence[str]]) -> float:
    """The mean outcome of every part at the point that the other parts choose; the present one for none."""
    outcomes = []
    for part in parts:
        others = [id for other in parts if other is not part for id in other]
        index = curve.best(others) if others else curve.points.index(curve.present)
        outcomes += [curve.outcomes[id][index] for id in part]
    return math.fsum(outcomes) / len(outcomes)
