"""Upper bounds of costs: what they hold for any values, and how often they lie under the truth."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragc.metrics.limits import mean_bounds, quantile_bounds

COSTS = st.lists(st.floats(0, 1e6), min_size=2, max_size=80)


@given(COSTS)
def test_bounds_are_no_less_than_estimates_and_grow_with_certainty(costs: list[float]) -> None:
    slack = 1e-9 * (1 + max(costs))
    loose, tight = mean_bounds(costs, 0.05)[1], mean_bounds(costs, 0.005)[1]
    assert np.mean(costs) - slack <= loose <= tight + slack
    assert quantile_bounds(costs, 0.8, 0.05)[1] <= quantile_bounds(costs, 0.8, 0.005)[1]


def test_too_few_or_unmeasured_costs_have_no_bound() -> None:
    assert mean_bounds([3.0])[1] == mean_bounds([])[1] == mean_bounds([1.0, math.nan])[1] == math.inf
    assert quantile_bounds([], 0.95)[1] == quantile_bounds([1.0, math.inf], 0.5)[1] == math.inf
    assert mean_bounds([7.0] * 5)[1] == 7


def test_a_95th_percentile_takes_59_values() -> None:
    assert [quantile_bounds(range(n), 0.95)[1] for n in (58, 59)] == [math.inf, 58]


@pytest.mark.parametrize("n", [60, 200])
def test_quantile_bounds_lie_under_the_truth_in_at_most_alpha(n: int) -> None:
    draws = np.random.default_rng(n).random((2_000, n))
    assert np.mean([quantile_bounds(row, 0.95)[1] < 0.95 for row in draws]) <= 0.065
