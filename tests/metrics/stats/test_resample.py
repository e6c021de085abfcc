"""Intervals and tests of means, and of figures made of several: exact cases, laws, and simulations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ragc.errors import UsageError
from ragc.metrics.stats.resample import mean_ci, paired, pooled_ci, pooled_paired, power_note, verdict
from tests.examples import examples

shares = st.sampled_from([0.0, 0.0, 0.25, 1 / 3, 0.5, 2 / 3, 1.0])
pairs = st.lists(st.tuples(shares, shares), min_size=1, max_size=30)


def test_equal_scores_leave_about_three_in_n_open() -> None:
    none, every = mean_ci([0.0] * 100, seed=0), mean_ci([1.0] * 100, seed=0)
    rest: Any = pytest.approx(1 - 0.05**0.01, abs=0.002)
    assert (none.mean, none.low, none.high) == (0.0, 0.0, rest)
    assert (every.mean, every.high, 1 - every.low) == (1.0, 1.0, rest)


def test_counts_have_no_upper_bound_and_equal_ones_still_have_a_width() -> None:
    calls = mean_ci([3.0] * 20, seed=0, bounds=None)
    assert 0 < calls.low < 3.0 < calls.high < 6
    assert mean_ci([0.0] * 20, seed=0, bounds=None).high == 0.0
    assert mean_ci([100.0, 200.0, 4000.0], seed=0, bounds=None).low >= 0


@given(st.lists(shares, min_size=1, max_size=40))
@settings(max_examples=examples(30), deadline=None)
def test_an_interval_holds_its_mean_lies_in_bounds_and_ignores_order(scores: list[float]) -> None:
    interval = mean_ci(scores, seed=3)
    assert 0 <= interval.low <= interval.mean <= interval.high <= 1
    assert interval.high > interval.low
    assert interval.mean == pytest.approx(sum(scores) / len(scores))
    again = mean_ci(sorted(scores), seed=3)
    assert (again.low, again.high) == pytest.approx((interval.low, interval.high))


@given(pairs)
@settings(max_examples=examples(60), deadline=None)
def test_interval_p_and_verdict_of_a_pair_agree(scores: list[tuple[float, float]]) -> None:
    a, b = zip(*scores, strict=True)
    result = paired(a, b, seed=1)
    assert result.low <= result.diff <= result.high
    assert 0 < result.p <= 1
    assert (result.p < 0.05) == (result.low > 0 or result.high < 0)
    word = verdict(result)
    assert (word == "better") == (result.low > 0)
    assert (word == "worse") == (result.high < 0)


def test_right_and_wrong_answers_are_tested_as_mcnemar_does() -> None:
    wins, losses, ties = 22, 8, 70
    a = [0.0] * wins + [1.0] * losses + [1.0] * ties
    b = [1.0] * wins + [0.0] * losses + [1.0] * ties
    expected = stats.binomtest(wins, wins + losses).pvalue
    result = paired(a, b, seed=5)
    assert result.p == pytest.approx(expected, abs=0.004)
    assert result == paired(a, b, seed=5)
    assert result.p != paired(a, b, seed=6).p
    assert verdict(result) == "better"
    assert verdict(result, alpha=0.001) == "not shown to be better"
    assert verdict(paired(b, a, seed=5)) == "worse"


def scipy_p(gaps: list[float]) -> float:
    """scipy's sign flips of one sample: exact for few questions, 9999 draws for many."""
    result = stats.permutation_test(
        (np.array(gaps),),
        lambda values, axis: values.sum(axis=axis),
        permutation_type="samples",
        vectorized=True,
        rng=0,
    )
    return float(result.pvalue)


@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.25, 1.0]), min_size=2, max_size=12))
@settings(max_examples=examples(40), deadline=None)
def test_few_differences_have_the_p_that_scipy_enumerates(gaps: list[float]) -> None:
    result = paired([max(-g, 0.0) for g in gaps], [max(g, 0.0) for g in gaps], seed=0)
    assert result.p == pytest.approx(scipy_p(gaps))


def test_equal_systems_are_not_shown_to_be_equal() -> None:
    result = paired([0.3] * 20, [0.3] * 20, seed=0)
    assert (result.diff, result.p, result.sd) == (0.0, 1.0, 0.0)
    assert result.low < -0.1
    assert result.high > 0.1
    assert power_note(result).startswith("No question's score changed (20 questions); up to 13.9% of further")
    assert power_note(paired([0.3] * 20, [0.4] * 20, seed=0)).startswith("Each score changed by +0.100")


def test_the_power_note_names_the_smallest_difference_that_shows() -> None:
    note = power_note(paired([0.0, 1.0] * 50, [1.0, 1.0, 0.0, 1.0] * 25, seed=0))
    assert note == (
        "With 100 questions and a standard deviation of 0.435 in the paired differences, a true difference "
        "of 0.132 is shown with about 80% probability."
    )


@pytest.mark.parametrize("scores", [[], [float("nan")], [0.5, 1.5], [-0.1]])
def test_what_cannot_be_averaged_is_refused(scores: list[float]) -> None:
    with pytest.raises(UsageError):
        mean_ci(scores, seed=0)


def test_pairs_need_the_same_questions() -> None:
    with pytest.raises(UsageError, match="got 2 and 1"):
        paired([0.0, 1.0], [1.0], seed=0)


@pytest.mark.parametrize(
    ("share", "n"),
    [
        (0.1, 20),
        (0.5, 20),
        (0.97, 20),
        (0.3, 50),
        (0.1, 100),
        (0.97, 100),
        (0.9, 200),
        (0.02, 500),
        (0.5, 500),
    ],
)
def test_intervals_cover_the_truth_and_are_not_wasteful(share: float, n: int) -> None:
    """Computed exactly over all counts: coverage dips below 95% for some shares, never far.

    Wilson's is the narrowest usual interval of a share; it covers less, as little as 91%.
    """
    covered = width = wilson = 0.0
    for right in range(n + 1):
        weight = float(stats.binom.pmf(right, n, share))
        if weight > 1e-6:
            interval = mean_ci([1.0] * right + [0.0] * (n - right), seed=0)
            covered += weight * (interval.low <= share <= interval.high)
            width += weight * (interval.high - interval.low)
            other = stats.binomtest(right, n).proportion_ci(method="wilson")
            wilson += weight * (other.high - other.low)
    assert covered > 0.935
    assert width < 1.15 * wilson


def test_without_an_effect_the_verdict_is_seldom_wrong() -> None:
    rng = np.random.default_rng(1)
    wrong = 0
    for seed in range(300):
        change = rng.choice([-1.0, -0.5, 0.0, 0.5, 1.0], p=[0.1, 0.1, 0.6, 0.1, 0.1], size=50)
        result = paired(np.maximum(-change, 0).tolist(), np.maximum(change, 0).tolist(), seed=seed)
        wrong += verdict(result) != "not shown to be better"
    assert wrong / 300 < 0.05 + 3 * 0.0126


def harmonic(recall: float, precision: float) -> float:
    return 2 * recall * precision / (recall + precision) if recall + precision > 0 else 0.0


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
    result = pooled_paired([[0.0, None, 1.0, 0.0]], [[1.0, 1.0, None, 0.0]], float, seed=0)
    assert (result.diff, result.n) == (0.5, 2)


@pytest.mark.parametrize("columns", [[[None, None]], [[2.0]], [[float("nan")]]])
def test_what_cannot_be_pooled_is_refused(columns: list[list[float | None]]) -> None:
    with pytest.raises(UsageError):
        pooled_ci(columns, float, seed=0)
