"""Many comparisons at once: laws of adjusted p values, matching by id, the family-wise error simulated."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragc.errors import UsageError
from ragc.metrics.stats.resample import (
    Contrast,
    ContrastResult,
    Matching,
    Scores,
    adjust_family,
    holm,
    match,
    max_t,
)
from tests.examples import examples, thorough

shares = st.sampled_from([0.0, 0.0, 0.25, 0.5, 1.0])
tables = st.integers(2, 4).flatmap(
    lambda systems: st.lists(st.lists(shares, min_size=systems, max_size=systems), min_size=1, max_size=25)
)


def scores(values: Sequence[float | None]) -> Scores:
    return {f"q{i:03}": value for i, value in enumerate(values)}


def contrasts(table: list[list[float]]) -> list[Contrast]:
    """Every column of `table` against every later one."""
    columns = [scores(column) for column in zip(*table, strict=True)]
    return [Contrast(a, b) for a, b in combinations(columns, 2)]


def adjusted(family: list[Contrast], seed: int) -> list[ContrastResult]:
    """The results of contrasts that have questions in common."""
    return [one for one in adjust_family(family, seed=seed) if one]


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))
    assert holm([0.5, 0.9]) == (1.0, 1.0)
    assert holm([]) == ()


@given(
    st.lists(st.tuples(*[st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0])] * 3), min_size=1, max_size=8).filter(
        lambda rows: all(any(row[c] for row in rows) for c in range(3))
    )
)
@settings(max_examples=examples(30), deadline=None)
def test_few_questions_are_flipped_exactly(rows: list[tuple[float, float, float]]) -> None:
    """Westfall and Young's steps, computed one sign pattern at a time."""
    table = np.array(rows)
    scaled = table / np.sqrt((table**2).sum(axis=0))
    observed = np.abs(scaled.sum(axis=0))
    null = [np.abs(np.array(signs) @ scaled) for signs in product((-1, 1), repeat=len(rows))]
    order = sorted(range(3), key=lambda c: -observed[c])
    expected, highest = [0.0] * 3, 0.0
    for rank, column in enumerate(order):
        rest = order[rank:]
        reached = sum(sums[rest].max() >= observed[column] - 1e-9 for sums in null) / len(null)
        highest = max(highest, reached)
        expected[column] = highest
    p, adjusted_p, _ = max_t(table, confidence=0.95, seed=0)
    tied = len({round(float(value), 9) for value in observed}) < 3
    assert tied or adjusted_p == pytest.approx(expected)
    assert p == pytest.approx([sum(s[c] >= observed[c] - 1e-9 for s in null) / len(null) for c in range(3)])


@given(tables)
@settings(max_examples=examples(30), deadline=None)
def test_adjusting_never_makes_a_claim_bolder_and_interval_and_verdict_agree(
    table: list[list[float]],
) -> None:
    for one in adjusted(contrasts(table), seed=2):
        assert one.result.p <= one.adjusted <= 1
        assert one.low <= one.result.diff <= one.high
        assert -1 <= one.low <= one.high <= 1
        shown = one.adjusted < 0.05
        assert (one.verdict() != "not shown to be better") == shown
        assert not shown or one.low >= 0 or one.high <= 0
        assert shown or one.low <= 0 <= one.high
        assert (one.verdict() == "better") == (shown and one.result.diff > 0)


def test_questions_are_matched_by_id_and_what_is_missing_is_counted() -> None:
    a: Scores = {"q1": 1.0, "q2": None, "q3": 0.0, "q4": 0.0, "q5": 0.5}
    b: Scores = {"q3": 1.0, "q2": 1.0, "q1": 1.0, "q9": 0.0}
    ids, matching = match(a, b)
    assert (ids, matching) == (("q1", "q3"), Matching(both=2, only_a=2, only_b=1, unscored=1))
    (one,) = adjusted([Contrast(a, b)], seed=0)
    assert one.result.diff == 0.5
    left = "2 asked only of a, 1 asked only of b, 1 without a score on both sides"
    assert matching.note("a", "b") == f"2 questions were compared; left out: {left}."


def test_scores_may_have_other_bounds() -> None:
    low = {f"q{i}": -1.0 if i % 2 else 1.0 for i in range(20)}
    high = {f"q{i}": 1.0 for i in range(20)}
    (result,) = adjusted([Contrast(low, high, (-1.0, 1.0))], seed=0)
    assert result.result.diff == 1.0
    assert 0 < result.low < 1 < result.high <= 2
    with pytest.raises(UsageError, match=r"must lie in 0\.\.1"):
        adjust_family([Contrast(low, high)], seed=0)


@thorough
def test_the_family_wise_error_is_kept_where_single_tests_lose_it() -> None:
    """Ten variants, the first really better: 150 families, so the simulation error of .05 is .018."""
    rng = np.random.default_rng(7)
    alone, together, detections = 0, 0, 0
    for seed in range(150):
        base = rng.random(60) < 0.5
        variants = np.where(rng.random((60, 10)) < 0.3, rng.random((60, 10)) < 0.5, base[:, None])
        variants[:, 0] = base | (rng.random(60) < 0.35)
        gaps = variants.astype(float) - base[:, None]
        p, adjusted_p, _ = max_t(gaps, confidence=0.95, seed=seed)
        alone += min(p[1:]) < 0.05
        together += min(adjusted_p[1:]) < 0.05
        detections += adjusted_p[0] < 0.05
    assert alone / 150 > 0.15
    assert together / 150 < 0.05 + 3 * 0.018
    assert detections / 150 > 0.8
