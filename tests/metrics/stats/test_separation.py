"""Areas under the ROC curve: by hand, beside scipy's rank sums, and what their intervals hold."""

from __future__ import annotations

import pytest

from ragc.metrics.stats.separation import area, difference, separation
from tests.examples import thorough


def test_an_area_is_the_share_of_pairs_in_order_with_ties_counting_half() -> None:
    assert area([0.9, 0.2, 0.6], [True, False, False]) == 1.0
    assert area([0.9, 0.2, 0.6], [False, True, False]) == 0.0
    assert area([0.5, 0.5, 0.1, 0.9], [True, False, False, True]) == pytest.approx(3.5 / 4)
    assert area([1.0, 1.0, 1.0], [True, False, False]) == 0.5


def test_an_area_is_the_statistic_of_mann_and_whitney() -> None:
    np, stats = pytest.importorskip("numpy"), pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(3)
    scores, kinds = rng.integers(0, 7, 80) / 7, rng.random(80) < 0.4
    known = stats.mannwhitneyu(scores[kinds], scores[~kinds]).statistic / (kinds.sum() * (~kinds).sum())
    assert area(scores, kinds) == pytest.approx(known)


def test_intervals_hold_the_area_and_have_a_width_where_all_pairs_are_in_order() -> None:
    perfect = separation([0.9, 0.8, 0.2, 0.1], [True, True, False, False], seed=0)
    assert (perfect.mean, perfect.high, perfect.n) == (1.0, 1.0, 4)
    assert 0.1 < perfect.low < 0.9
    few = separation([1.0, 0.0] * 5, [True, False, True, True, False] * 2, seed=0)
    many = separation([1.0, 0.0] * 50, [True, False, True, True, False] * 20, seed=0)
    assert few.low < many.low < many.mean == few.mean < many.high < few.high
    assert separation([1.0, 0.0] * 5, [True, False, True, True, False] * 2, seed=0) == few


@thorough
def test_intervals_hold_the_true_area_as_often_as_they_say() -> None:
    np = pytest.importorskip("numpy")
    rng, held = np.random.default_rng(1), 0
    for seed in range(60):
        kinds = np.arange(40) < 12
        result = separation(rng.normal(size=40) + kinds, kinds, seed=seed)
        held += result.low <= 0.7602 <= result.high
    assert held >= 55


def test_a_difference_is_drawn_on_the_same_cases() -> None:
    kinds = [at % 3 == 0 for at in range(60)]
    good, bad = [float(kind) for kind in kinds], [float(at % 2) for at in range(60)]
    gain = difference(bad, good, kinds, seed=0)
    assert gain.mean == pytest.approx(area(good, kinds) - area(bad, kinds))
    assert 0 < gain.low < gain.mean <= gain.high
    none = difference(bad, bad, kinds, seed=0)
    assert (none.mean, none.low, none.high) == (0.0, 0.0, 0.0)
