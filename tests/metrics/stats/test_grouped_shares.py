"""The outcomes to expect of a gate on questions in groups."""

from __future__ import annotations

import numpy as np
import pytest

from ragc.metrics.stats.clusters import Groups, assumed_questions
from ragc.metrics.stats.grouped_shares import MOST_GROUPS, _outcomes, shares_in_groups, simulated_shares
from ragc.metrics.stats.noninferiority import ALPHA, expected_shares, margin


@pytest.mark.parametrize("sizes", [[1] * 120, [2] * (MOST_GROUPS + 1)], ids=["alone", "many groups"])
def test_the_formula_holds_for_questions_alone_and_for_many_groups(sizes: list[int]) -> None:
    expected = expected_shares(assumed_questions(sizes), 0.0, 0.1, 0.05)
    assert shares_in_groups(sizes, 0.0, 0.1, 0.05) == expected


def test_simulated_runs_of_groups_of_one_agree_with_the_formula() -> None:
    found_shares = simulated_shares([1] * 100, 0.05, 0.2, 0.05, correlation=0.0, runs=300)
    expected = expected_shares(100, 0.05, 0.2, 0.05)
    assert found_shares is not None
    assert expected is not None
    assert found_shares.no_loss == pytest.approx(expected.no_loss, abs=0.05)
    assert found_shares.drop == pytest.approx(expected.drop, abs=0.1)


def test_shares_of_groups_sum_to_1_and_a_loss_beyond_the_changes_cannot_be() -> None:
    found_shares = simulated_shares([10] * 12, 0.0, 0.2, 0.05, runs=50)
    assert found_shares is not None
    assert found_shares.no_loss + found_shares.drop + found_shares.cannot_tell == pytest.approx(1)
    assert found_shares == simulated_shares([10] * 12, 0.0, 0.2, 0.05, runs=50)
    assert simulated_shares([10] * 12, 0.1, 0.05, 0.05, runs=50) is None


def test_few_groups_show_nothing() -> None:
    found_shares = simulated_shares([20] * 5, 0.0, 0.1, 0.05, runs=20)
    assert found_shares is not None
    assert (found_shares.no_loss, found_shares.drop, found_shares.cannot_tell) == (0, 0, 1)


def test_outcomes_are_those_of_the_gate() -> None:
    rng = np.random.default_rng(3)
    codes = np.repeat(np.arange(20), 10)
    outcome = _outcomes(Groups(codes, np.full(20, 10.0)), 0.05, ALPHA)
    for chance in (0.02, 0.05, 0.1):
        for _ in range(40):
            groupwise = rng.choice([-1.0, 0.0, 1.0], 20, p=[chance, 1 - 1.5 * chance, chance / 2])
            changes = np.where(rng.random(200) < 0.4, groupwise[codes], 0.0)
            before = (changes < 0).astype(float)
            after = (before + changes).tolist()
            result = margin(before.tolist(), after, 0.05, seed=0, groups=[str(code) for code in codes])
            by_margin = "no loss" if result.small_loss() else "drop" if result.drop() else "cannot tell"
            assert outcome(changes) == by_margin
