"""Cost metrics read counters, and an absent counter is not a free question."""

from __future__ import annotations

import pytest

from ragc.errors import UsageError
from ragc.metrics import METRICS, Outcome, get

COSTS = ("lm_calls", "tokens", "usd", "latency", "searches", "used", "used_local")


@pytest.mark.parametrize("metric", COSTS)
def test_a_cost_is_its_counter_and_lower_is_better(metric: str) -> None:
    assert get(metric).score(Outcome("x", counters={metric: 3, "other": 9})) == 3.0
    assert get(metric).score(Outcome("x", counters={metric: 0})) == 0.0
    assert not get(metric).higher_is_better
    assert get(metric).bounds is None


@pytest.mark.parametrize("metric", COSTS)
def test_what_was_not_measured_is_not_scored(metric: str) -> None:
    assert get(metric).score(Outcome("x")) is None


def test_everything_else_is_a_share_or_balance_and_says_which_way_is_better() -> None:
    others = [metric for metric in METRICS if metric.id.partition("@")[0] not in COSTS]
    assert {metric.id for metric in others if metric.unit != "share"} == {
        "crag_score",
        "answer_relevancy",
        "answer_correctness",
    }
    assert {metric.id for metric in others if not metric.higher_is_better} == {"crag_halluc", "crag_miss"}
    assert {get(id).unit for id in COSTS} == {"count", "usd", "seconds"}


def test_a_cost_can_be_asked_for_one_role_or_source() -> None:
    outcome = Outcome("x", counters={"tokens": 9, "tokens@proxy": 4, "searches": 2, "searches@web": 2})
    assert get("tokens@proxy").score(outcome) == 4
    assert get("tokens@judge").score(outcome) == 0
    assert get("searches@web").score(outcome) == 2
    assert get("lm_calls@main").score(outcome) is None
    assert not get("tokens@proxy").higher_is_better
    with pytest.raises(UsageError, match="tokens@proxy"):
        get("tokens@role").score(outcome)
