"""A few settings of a search space that differ as much as possible.

They are taken from the screening candidates and from random draws, one after another: each is the one
farthest from all before it, the baseline first. The distance is Gower's (1971, doi:10.2307/2528823): the mean
over all parameters of 0 or 1 for a choice, and of the difference in shares of the drawn range for a number. A
parameter that only one of two settings has counts as 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from ragc.optimizers.candidates.space import Candidate, SearchSpace
from ragc.optimizers.plan.average import random_candidates
from ragc.optimizers.search.parameters import to_parameters
from ragc.recipe.values import FILLED

SCREENED, DRAWN = 16, 48
"""Screening candidates and random draws to choose from."""


def differing_settings(
    space: SearchSpace,
    seed: int,
    most: int,
    *,
    demos: bool,
    usable: Callable[[Candidate], bool] = lambda candidate: True,
) -> list[Candidate]:
    """Returns at most `most` distinct settings, the baseline first; only those that are `usable`.

    Without `demos` no setting shows demonstrations of the search.
    """
    candidates = [*space.screening(SCREENED), *islice(random_candidates(space, seed), DRAWN)]
    if not demos:
        candidates = [
            replace(candidate, demos=0, demo_set=0, own_demos={}, demo_kind=FILLED)
            for candidate in candidates
        ]
    baseline = space.baseline()
    distinct = {candidate.mark: candidate for candidate in (baseline, *candidates)}
    others = [
        candidate for mark, candidate in distinct.items() if mark != baseline.mark and usable(candidate)
    ]
    return [baseline, *_far_apart(space, baseline, others, most - 1)]


def _far_apart(
    space: SearchSpace, baseline: Candidate, others: Sequence[Candidate], most: int
) -> list[Candidate]:
    """Returns at most `most` of `others`, each the farthest from the baseline and those before it."""
    points = [to_parameters(space, candidate) for candidate in (baseline, *others)]
    ranges = _ranges(points)
    nearest = [_distance(point, points[0], ranges) for point in points[1:]]
    chosen: list[int] = []
    while len(chosen) < min(most, len(others)):
        best = max((at for at in range(len(others)) if at not in chosen), key=lambda at: (nearest[at], -at))
        chosen.append(best)
        nearest = [
            min(known, _distance(point, points[best + 1], ranges))
            for known, point in zip(nearest, points[1:], strict=True)
        ]
    return [others[at] for at in chosen]


def _ranges(points: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Returns the range of each parameter that is a number in all points that have it."""
    values: dict[str, list[Any]] = {}
    for point in points:
        for name, value in point.items():
            values.setdefault(name, []).append(value)
    return {
        name: max(column) - min(column)
        for name, column in values.items()
        if all(type(value) in (int, float) for value in column) and max(column) > min(column)
    }


def _distance(first: Mapping[str, Any], other: Mapping[str, Any], ranges: Mapping[str, float]) -> float:
    names = first.keys() | other.keys()
    if not names:
        return 0.0
    return sum(
        1.0
        if name not in first or name not in other
        else abs(first[name] - other[name]) / ranges[name]
        if name in ranges
        else float(first[name] != other[name])
        for name in sorted(names)
    ) / len(names)
