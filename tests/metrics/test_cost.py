"""Cost metrics read counters, and an absent counter is not a free question."""

from __future__ import annotations

import pytest

from ragc.metrics import METRICS, Outcome, get

COSTS = ("lm_calls", "tokens", "usd", "latency", "searches")


@pytest.mark.parametrize("metric", COSTS)
def test_a_cost_is_its_counter_and_lower_is_better(metric: str) -> None:
    assert get(metric).score(Outcome("x", counters={metric: 3, "other": 9})) == 3.0
    assert get(metric).score(Outcome("x", counters={metric: 0})) == 0.0
    assert not get(metric).higher_is_better
    assert get(metric).bounds is None


@pytest.mark.parametrize("metric", COSTS)
def test_what_was_not_measured_is_not_scored(metric: str) -> None:
    assert get(metric).score(Outcome("x")) is None


def test_everything_else_is_a_share_and_higher_is_better() -> None:
    others = [metric for metric in METRICS if metric.id not in COSTS]
    assert all(metric.unit == "share" and metric.higher_is_better for metric in others)
    assert {get(id).unit for id in COSTS} == {"count", "usd", "seconds"}
