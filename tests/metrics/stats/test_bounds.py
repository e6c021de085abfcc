"""Upper bounds of costs: what they hold for any values, and how often they lie under the truth."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragc.metrics.stats.bounds import mean_upper_bound, quantile_upper_bound

COSTS = st.lists(st.floats(0, 1e6), min_size=2, max_size=80)


@given(COSTS)
def test_bounds_are_no_less_than_estimates_and_grow_with_certainty(costs: list[float]) -> None:
    slack = 1e-9 * (1 + max(costs))
    loose, tight = mean_upper_bound(costs, 0.05), mean_upper_bound(costs, 0.005)
    assert np.mean(costs) - slack <= loose <= tight + slack
    assert quantile_upper_bound(costs, 0.8, 0.05) <= quantile_upper_bound(costs, 0.8, 0.005)


def test_too_few_or_unmeasured_costs_have_no_bound() -> None:
    assert mean_upper_bound([3.0]) == mean_upper_bound([]) == mean_upper_bound([1.0, math.nan]) == math.inf
    assert quantile_upper_bound([], 0.95) == quantile_upper_bound([1.0, math.inf], 0.5) == math.inf
    assert mean_upper_bound([7.0] * 5) == 7


def test_a_95th_percentile_takes_59_values() -> None:
    assert quantile_upper_bound(range(58), 0.95) == math.inf
    assert quantile_upper_bound(range(59), 0.95) == 58


@pytest.mark.parametrize("n", [60, 200])
def test_quantile_bounds_lie_under_the_truth_in_at_most_alpha(n: int) -> None:
    draws = np.random.default_rng(n).random((2_000, n))
    assert np.mean([quantile_upper_bound(row, 0.95) < 0.95 for row in draws]) <= 0.065
