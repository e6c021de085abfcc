"""Figures made of several means: one column is a mean, order does not matter, swapping turns round."""

from __future__ import annotations

import numpy as np
import pytest

from ragc.errors import UsageError
from ragc.metrics.stats.intervals import mean_ci, paired
from ragc.metrics.stats.ratios import pooled_ci, pooled_paired
from tests.examples import thorough


def identity(mean: float) -> float:
    return mean


def harmonic(recall: float, precision: float) -> float:
    return 2 * recall * precision / (recall + precision) if recall + precision > 0 else 0.0


def test_one_column_is_the_interval_of_its_mean() -> None:
    column = [0.0] * 12 + [0.5] * 5 + [1.0] * 23
    ours, alone = pooled_ci([column], identity, seed=1), mean_ci(column, seed=1)
    assert ours.mean == alone.mean
    assert (ours.low, ours.high) == pytest.approx((alone.low, alone.high), abs=0.01)


def test_one_column_is_compared_as_by_the_paired_test() -> None:
    a, b = [0.0, 1.0, 0.0, 0.5] * 10, [1.0, 1.0, 0.0, 0.25] * 10
    ours, alone = pooled_paired([a], [b], identity, seed=1), paired(a, b, seed=1)
    assert ours.diff == pytest.approx(alone.diff)
    assert ours.p == pytest.approx(alone.p, abs=0.005)
    assert (ours.low, ours.high) == pytest.approx((alone.low, alone.high), abs=0.01)
    assert ours.sd == pytest.approx(alone.sd, rel=0.1)


def test_the_figure_is_made_of_means_and_not_a_mean_of_figures() -> None:
    recall, precision = [1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 1.0, None]
    interval = pooled_ci([recall, precision], harmonic, seed=0)
    assert interval.mean == pytest.approx(harmonic(0.5, 2 / 3))
    assert interval.n == 4


def test_equal_systems_are_not_told_apart_and_better_ones_are() -> None:
    recall, precision = [0.0, 1.0, 0.5] * 8, [1.0, 0.0, 0.5] * 8
    same = pooled_paired([recall, precision], [recall, precision], harmonic, seed=0)
    assert (same.diff, same.p, same.sd) == (0.0, 1.0, 0.0)
    assert same.low < 0 < same.high
    more = pooled_paired([recall, precision], [[1.0] * 24, [1.0] * 24], harmonic, seed=0)
    assert more.p < 0.01
    assert more.low > 0


def test_a_question_scored_on_one_side_alone_counts_on_neither() -> None:
    result = pooled_paired([[0.0, None, 1.0, 0.0]], [[1.0, 1.0, None, 0.0]], identity, seed=0)
    assert (result.diff, result.n) == (0.5, 2)


@thorough
def test_pooled_figures_are_covered() -> None:
    """30 samples of 40: the simulation error of a coverage of 95% is 4 points."""
    rng = np.random.default_rng(5)
    covered = 0
    for seed in range(30):
        recall = (rng.random(40) < 0.6).astype(float)
        precision = np.where(rng.random(40) < 0.7, recall, 0.0)
        interval = pooled_ci([recall.tolist(), precision.tolist()], harmonic, seed=seed)
        covered += interval.low <= harmonic(0.6, 0.42) <= interval.high
    assert covered / 30 > 0.83


@pytest.mark.parametrize("columns", [[], [[1.0], [1.0, 0.0]], [[None, None]], [[2.0]], [[float("nan")]]])
def test_what_cannot_be_pooled_is_refused(columns: list[list[float | None]]) -> None:
    with pytest.raises(UsageError):
        pooled_ci(columns, identity, seed=0)
    with pytest.raises(UsageError):
        pooled_paired([[1.0]], [[1.0, 0.0]], identity, seed=0)
