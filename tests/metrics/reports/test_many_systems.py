"""Many systems at once: laws of adjusted p values, matching by id, and the family-wise error simulated."""

from __future__ import annotations

import json
import random
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragc.errors import UsageError
from ragc.metrics.reports.many_systems import Comparison, Scored, against, all_pairs
from ragc.metrics.stats.intervals import paired
from ragc.metrics.stats.multiple import Contrast, by_holm, holm, judge, max_t
from tests.examples import examples

shares = st.sampled_from([0.0, 0.0, 0.25, 0.5, 1.0])
tables = st.integers(2, 4).flatmap(
    lambda systems: st.lists(st.lists(shares, min_size=systems, max_size=systems), min_size=1, max_size=25)
)
ps = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=12)


def system(name: str, values: list[float | None], metric: str = "f1", backend: str = "") -> Scored:
    return Scored(name, metric, {f"q{i:03}": value for i, value in enumerate(values)}, backend)


def systems(table: list[list[float]]) -> list[Scored]:
    return [system(f"s{i}", list(column)) for i, column in enumerate(zip(*table, strict=True))]


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))
    assert holm([0.5, 0.9]) == (1.0, 1.0)
    assert holm([]) == ()


@given(ps)
def test_holm_lies_between_the_single_p_and_bonferroni_and_keeps_the_order(p: list[float]) -> None:
    adjusted = holm(p)
    for one, more in zip(p, adjusted, strict=True):
        assert one <= more <= min(1.0, len(p) * one) + 1e-12
    ranked = [more for _, more in sorted(zip(p, adjusted, strict=True))]
    assert ranked == sorted(ranked)


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
    family = max_t(table, confidence=0.95, seed=0)
    tied = len({round(float(value), 9) for value in observed}) < 3
    assert tied or family.adjusted == pytest.approx(expected)
    assert family.p == pytest.approx(
        [sum(s[c] >= observed[c] - 1e-9 for s in null) / len(null) for c in range(3)]
    )


@given(tables)
@settings(max_examples=examples(30), deadline=None)
def test_adjusting_never_makes_a_claim_bolder_and_interval_and_verdict_agree(
    table: list[list[float]],
) -> None:
    found = all_pairs(systems(table), seed=2)
    for pair in found.pairs:
        one = pair.judged
        assert one is not None
        assert one.result.p <= one.adjusted <= 1
        assert one.low <= one.result.diff <= one.high
        assert one.low >= -1
        assert one.high <= 1
        shown = one.adjusted < 0.05
        assert (pair.verdict != "not shown to be better") == shown
        assert not shown or one.low >= 0 or one.high <= 0
        assert shown or one.low <= 0 <= one.high
        assert (pair.verdict == "better") == (shown and one.result.diff > 0)


@given(tables, st.randoms(use_true_random=False))
@settings(max_examples=examples(20), deadline=None)
def test_the_order_of_questions_does_not_matter(table: list[list[float]], chance: random.Random) -> None:
    def shuffled(one: Scored) -> Scored:
        items = list(one.scores.items())
        chance.shuffle(items)
        return Scored(one.name, one.metric, dict(items))

    given_ = systems(table)
    assert all_pairs(given_, seed=4) == all_pairs([shuffled(one) for one in given_], seed=4)


@pytest.mark.parametrize("method", ["max-t", "holm"])
def test_equal_runs_are_not_shown_to_be_better(method: str) -> None:
    same = [0.0, 1.0, 0.5] * 10
    found = against(system("a", [*same]), [system("b", [*same])], seed=0, method=method)  # type: ignore[arg-type]
    one = found.pairs[0].judged
    assert one is not None
    assert (one.result.diff, one.result.p, one.adjusted) == (0.0, 1.0, 1.0)
    assert found.pairs[0].verdict == "not shown to be better"
    assert one.low < 0 < one.high


def test_a_single_pair_is_judged_as_by_the_paired_test() -> None:
    a, b = [0.0] * 9 + [1.0] * 11, [1.0] * 8 + [0.0] + [1.0] * 11
    one = against(system("a", [*a]), [system("b", [*b])], seed=0).pairs[0].judged
    alone = paired(a, b, seed=0)
    assert one is not None
    assert one.result.p == one.adjusted == alone.p == 2 / 2**8
    assert (one.result.low, one.result.high) == pytest.approx((alone.low, alone.high), abs=0.02)


def test_copies_of_one_variant_cost_nothing_by_max_t_and_much_by_holm() -> None:
    rng = np.random.default_rng(3)
    base = (rng.random(120) < 0.4).astype(float)
    good = np.where(rng.random(120) < 0.12, 1.0, base)
    baseline = system("base", base.tolist())
    copies = [system(f"copy {i}", good.tolist()) for i in range(30)]
    flips, steps = (against(baseline, copies, seed=1, method=how) for how in ("max-t", "holm"))
    first = flips.pairs[0].judged
    assert first is not None
    assert first.adjusted == pytest.approx(first.result.p)
    assert steps.pairs[0].judged is not None
    assert steps.pairs[0].judged.adjusted > 10 * first.adjusted


def test_questions_are_matched_by_id_and_what_is_missing_is_counted() -> None:
    a = Scored("a", "recall@5", {"q1": 1.0, "q2": None, "q3": 0.0, "q4": 0.0, "q5": 0.5})
    b = Scored("b", "recall@5", {"q3": 1.0, "q2": 1.0, "q1": 1.0, "q9": 0.0})
    pair = against(a, [b], seed=0).pairs[0]
    assert (pair.matching.both, pair.matching.only_a, pair.matching.only_b, pair.matching.unscored) == (
        2,
        2,
        1,
        1,
    )
    assert pair.judged is not None
    assert pair.judged.result.diff == 0.5
    left = "2 asked only of a, 1 asked only of b, 1 without a score on both sides"
    note = f"2 questions were compared; left out: {left}."
    assert pair.matching.note("a", "b") == note
    assert f"a and b: {note}" in against(a, [b], seed=0).notes()


def test_systems_without_a_common_question_are_said_to_have_none() -> None:
    a, b = Scored("a", "em", {"q1": 1.0}), Scored("b", "em", {"q2": 1.0})
    found = against(a, [b, Scored("c", "em", {"q1": 0.0})], seed=0)
    assert found.pairs[0].judged is None
    assert found.to_json()["pairs"][0]["n"] == 0
    assert found.table()[1][-1] == "no common question"
    assert found.pairs[1].judged is not None
    assert found.pairs[1].judged.adjusted == 1.0


def test_where_less_is_better_the_cheaper_system_is() -> None:
    dear = system("dear", [900.0 + i for i in range(12)], "tokens")
    cheap = system("cheap", [300.0 + 2 * i for i in range(12)], "tokens")
    assert against(dear, [cheap], seed=0).pairs[0].verdict == "better"
    assert against(cheap, [dear], seed=0).pairs[0].verdict == "worse"


def test_scores_may_have_other_bounds() -> None:
    low = {f"q{i}": -1.0 if i % 2 else 1.0 for i in range(20)}
    high = {f"q{i}": 1.0 for i in range(20)}
    found = judge([Contrast(low, high, (-1.0, 1.0))], seed=0)[0]
    assert found is not None
    assert found.result.diff == 1.0
    assert 0 < found.low < 1 < found.high <= 2
    with pytest.raises(UsageError, match=r"must lie in 0\.\.1"):
        judge([Contrast(low, high)], seed=0)


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ([system("b", [1.0], "em")], "different metrics"),
        ([system("b", [1.0], backend="lexical")], "different backends"),
        ([system("a", [1.0])], "Two systems are named 'a'"),
        ([], "nothing to compare"),
    ],
)
def test_what_cannot_be_compared_is_refused(others: list[Scored], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        against(system("a", [1.0]), others, seed=0)


def test_an_unknown_adjustment_and_a_confidence_out_of_range_are_refused() -> None:
    contrast = Contrast({"q": 0.0}, {"q": 1.0})
    with pytest.raises(UsageError, match="Did you mean 'holm'"):
        judge([contrast], seed=0, method="hollm")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="between 0 and 1"):
        judge([contrast], seed=0, confidence=95)


def test_a_comparison_is_json_and_a_table() -> None:
    found: Comparison = all_pairs(systems([[0.0, 1.0, 1.0]] * 8), seed=0)
    assert json.loads(json.dumps(found.to_json()))["pairs"][0]["verdict"] == "better"
    head, *rows = found.table()
    assert [row[:2] for row in rows] == [("s0", "s1"), ("s0", "s2"), ("s1", "s2")]
    assert {len(row) for row in rows} == {len(head)}


def test_the_family_wise_error_is_kept_where_single_tests_lose_it() -> None:
    """Ten variants, the first really better: 150 families, so the simulation error of .05 is .018."""
    rng = np.random.default_rng(7)
    false = {"alone": 0, "max-t": 0, "holm": 0}
    found = 0
    for seed in range(150):
        base = rng.random(60) < 0.5
        moved = np.where(rng.random((60, 10)) < 0.3, rng.random((60, 10)) < 0.5, base[:, None])
        moved[:, 0] = base | (rng.random(60) < 0.35)
        gaps = moved.astype(float) - base[:, None]
        family = max_t(gaps, confidence=0.95, seed=seed)
        false["alone"] += min(family.p[1:]) < 0.05
        false["max-t"] += min(family.adjusted[1:]) < 0.05
        false["holm"] += min(holm(family.p)[1:]) < 0.05
        found += family.adjusted[0] < 0.05
    assert false["alone"] / 150 > 0.15
    assert false["holm"] <= false["max-t"]
    assert false["max-t"] / 150 < 0.05 + 3 * 0.018
    assert found / 150 > 0.8


def test_holm_and_max_t_start_from_the_same_single_values() -> None:
    one = np.random.default_rng(0).choice([-1.0, 0.0, 1.0], size=(200, 1))
    gaps = np.hstack([one] * 5)
    flips, steps = (f(gaps, confidence=0.95, seed=9) for f in (max_t, by_holm))
    assert flips.p == steps.p
    assert steps.adjusted == holm(steps.p)
    assert flips.critical == pytest.approx(1.96, abs=0.1)
    assert steps.critical == pytest.approx(2.576, abs=0.001)
