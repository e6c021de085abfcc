"""The statistics of the gate: sizes of both tests, and the numbers needed."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest

from experiments.benchmarks import gate
from ragc.errors import UsageError
from ragc.metrics.stats.gate import Margin, margin, p_mean_above, questions_for_bound, questions_needed
from tests.examples import thorough


def scores(worse: int, better: int, n: int) -> tuple[list[float], list[float]]:
    same = n - worse - better
    return [1.0] * worse + [0.0] * better + [0.5] * same, [0.0] * worse + [1.0] * better + [0.5] * same


def compared(worse: int, better: int, n: int = 200, allowed: float = 0.05) -> Margin:
    return margin(*scores(worse, better, n), allowed, seed=0)


def test_margin_without_a_change_has_the_p_of_no_loss_among_so_many() -> None:
    for n in (20, 58, 59, 200):
        assert compared(0, 0, n).p_loss == pytest.approx(0.95**n, abs=1e-9)
    assert not compared(0, 0, 58).small_loss()
    assert compared(0, 0, 59).small_loss()


def test_margin_of_losses_alone_has_the_binomial_p() -> None:
    result = compared(4, 0)
    below = sum(comb(200, k) * 0.05**k * 0.95 ** (200 - k) for k in range(5))
    assert result.p_loss == pytest.approx(below, abs=0.01)
    assert (result.p_drop, compared(5, 0).p_drop, compared(0, 5).p_drop) == (1 / 16, 1 / 32, 1)


def test_margin_shows_a_small_drop_that_is_allowed() -> None:
    result = compared(20, 4, 1000)
    assert result.drop()
    assert result.small_loss()


def test_margin_counts_questions_in_groups_as_fewer_and_five_groups_show_nothing() -> None:
    a, b = scores(1, 0, 120)
    alone = margin(a, b, 0.05, seed=0)
    grouped = margin(a, b, 0.05, seed=0, groups=[str(i // 10) for i in range(120)])
    assert grouped.effective < alone.effective == 120
    assert grouped.p_loss > alone.p_loss
    few = margin(a, b, 0.05, seed=0, groups=[str(i // 24) for i in range(120)])
    assert (few.p_loss, few.p_drop, few.groups) == (1, 1, 5)


@pytest.mark.parametrize(
    ("a", "b", "allowed"),
    [
        *(([1.0], [1.0], allowed) for allowed in (0, -0.1, 1, 2, float("nan"))),
        ([], [], 0.05),
        ([1.0], [2.0], 0.05),
    ],
)
def test_margin_refuses_no_scores_and_numbers_out_of_range(
    a: list[float], b: list[float], allowed: float
) -> None:
    with pytest.raises(UsageError):
        margin(a, b, allowed, seed=0)


def test_a_mean_is_shown_to_lie_above_a_bound_as_by_the_binomial_test() -> None:
    right = [1.0] * 80 + [0.0] * 20
    above = sum(comb(100, k) * 0.7**k * 0.3 ** (100 - k) for k in range(80, 101))
    assert p_mean_above(right, 0.7) == pytest.approx(above, abs=0.01)
    assert p_mean_above(right, 0.85) > 0.8
    assert (questions_for_bound(right, 0.78) or 0) > 100
    with pytest.raises(UsageError, match="between 0 and 1"):
        p_mean_above(right, 1.0)


@thorough
def test_gate_is_seldom_wrong_and_catches_drops_in_simulated_runs() -> None:
    cells = list(gate.rows(1_000))
    assert len(cells) == 8  # a loss of .10 with 5% changed cannot be
    assert [cell for cell in cells if not cell["holds"]] == []


def test_the_number_of_questions_needed_lets_most_runs_of_equal_programs_pass() -> None:
    for worse in (5, 10, 20):
        needed = questions_needed(np.repeat([-1.0, 0.0, 1.0], [worse, 200 - 2 * worse, worse]), 0.05)
        shares = gate.simulated(worse / 100, 0, runs=400, questions=needed)
        assert 0.72 <= shares[0] <= 0.88
