"""Limits of costs in a search: who may win, who answers more questions, and what Optuna is told."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragc import metrics
from ragc.metrics.base import Objective
from ragc.metrics.limits import LEAST_QUESTIONS, CostLimit
from ragc.optimizers.candidates.eligible import most_excess, within_limits
from ragc.optimizers.candidates.space import Candidate
from ragc.optimizers.candidates.trial import TrialResult
from ragc.optimizers.search.selection import expected_scores, pareto_front, select
from ragc.optimizers.search.tell import finish, sampler_view
from ragc.recipe.models import SelectionRule

F1, TOKENS = Objective(metrics.get("f1"), 1), Objective(metrics.get("tokens"), -1)


def trial(number: int, scores: list[float], tokens: list[float], *, complete: bool = True) -> TrialResult:
    rows = tuple({"f1": score, "tokens": cost} for score, cost in zip(scores, tokens, strict=True))
    values = (sum(scores) / len(scores),)
    return TrialResult(number, Candidate({"top_k": number}), rows, values, complete, {}, estimates=values)


def drawn(seed: int, count: int, questions: int = 20) -> list[TrialResult]:
    rng = random.Random(seed)
    return [
        trial(
            number,
            [float(rng.random() < 0.3 + 0.05 * number) for _ in range(questions)],
            [100 * (number + 1) * rng.uniform(0.8, 1.2) for _ in range(questions)],
        )
        for number in range(count)
    ]


@given(st.integers(0, 10_000), st.integers(2, 7), st.floats(50, 900))
def test_the_winner_is_within_the_limits_where_any_trial_is(seed: int, count: int, most: float) -> None:
    trials, limits = drawn(seed, count), (CostLimit("tokens", most),)
    rule = replace(SelectionRule.by(F1), limits=limits, risk=1.0)
    chosen = select(trials, rule)
    inside = [one for one in trials if most_excess(one, limits) <= 0]
    if inside:
        assert most_excess(chosen, limits) <= 0
        expected = expected_scores(trials, F1)
        best = max(expected[one.number].value for one in inside)
        assert expected[chosen.number].value >= best - 1e-6
    else:
        assert most_excess(chosen, limits) == min(most_excess(one, limits) for one in trials)


@given(st.integers(0, 10_000), st.integers(2, 7), st.floats(0, 0.5))
def test_within_gives_up_at_most_that_much_and_never_costs_more(seed: int, count: int, within: float) -> None:
    trials, plain = drawn(seed, count), replace(SelectionRule.by(F1), risk=1.0)
    best, cheap = select(trials, plain), select(trials, replace(plain, within=within, then=TOKENS))
    score, cost = expected_scores(trials, F1), expected_scores(trials, TOKENS)
    assert score[cheap.number].value >= score[best.number].value - within - 1e-6
    assert cost[cheap.number].value >= cost[best.number].value - 1e-6
    if not within:
        assert score[cheap.number].value == pytest.approx(score[best.number].value, abs=1e-6)


def test_the_front_holds_no_trial_over_a_limit() -> None:
    trials = [replace(one, values=(one.values[0], TOKENS.sign * 100.0)) for one in drawn(3, 6)]
    trials = [replace(one, values=(one.values[0], -100.0 * (n + 1))) for n, one in enumerate(trials)]
    rule = SelectionRule((F1, TOKENS), F1, limits=(CostLimit("tokens", 350),))
    assert {one.number for one in pareto_front(trials, rule)} <= {0, 1, 2}
    assert within_limits([], rule.limits) == []


def test_optuna_knows_by_how_much_each_trial_exceeds_each_limit() -> None:
    study = optuna.create_study(direction="maximize")
    limits = (CostLimit("tokens", 200), CostLimit("usd_per_1000", 3))
    results = [trial(n, [0.5] * 4, [100.0 + 200 * n] * 4) for n in range(2)]
    for result in results:
        pending = study.ask()
        finish(study, pending.number, result, limits)
    tokens = [one.constraints["tokens"] for one in study.trials]
    assert tokens == pytest.approx([-0.5, 0.5])
    assert all(one.constraints["usd_per_1000"] == 1e9 for one in study.trials)  # not measured
    seen = sampler_view(study.trials, limits=limits)
    assert [one.constraints["tokens"] for one in seen] == pytest.approx([-0.5, 0.5])
    assert study.best_trials == []  # none meets both


@pytest.mark.parametrize("name", ["tokens", "lm_calls", "searches", "latency", "latency_p95", "usd_per_1000"])
def test_amounts_are_in_the_unit_of_the_limit(name: str) -> None:
    limit = CostLimit(name, 10.0)
    rows = [{limit.metric.id: value} for value in (1.0, 2.0, 3.0, 6.0)]
    expected = {"latency_p95": 6.0, "usd_per_1000": 3000.0}.get(name, 3.0)
    assert limit.amount(rows) == pytest.approx(expected)
    assert limit.amount([*rows, {}]) == limit.amount([]) == math.inf
    assert limit.standing([*rows, {}] * 50, 0.05) == "unclear"


def test_standings_need_enough_questions_and_groups_count_once() -> None:
    limit, cheap = CostLimit("tokens", 100), [{"tokens": 50.0 + n % 7} for n in range(200)]
    assert limit.standing(cheap[: LEAST_QUESTIONS - 1], 0.05) == "unclear"
    assert limit.standing(cheap, 0.05) == "within"
    assert limit.standing([{"tokens": 150.0 + n % 7} for n in range(200)], 0.05) == "over"
    groups = [f"g{n // 10}" for n in range(200)]
    assert limit.standing(cheap, 0.05, groups) == "unclear"  # 20 groups
    many = [{"tokens": 50.0 + n % 7} for n in range(800)]
    assert limit.standing(many, 0.05, [f"g{n // 10}" for n in range(800)]) == "within"
    slow = CostLimit("latency_p95", 2.0)
    quick = [{"latency": 1.0 + n % 3 / 10} for n in range(60)]
    assert slow.standing(quick[:58], 0.05) == "unclear"
    assert slow.standing(quick, 0.05) == "within"
    assert slow.standing([{"latency": 3.0}] * 60, 0.05) == "over"


def test_no_standing_contradicts_what_the_questions_cost() -> None:
    quick, slow = [{"latency": 1.0 + n % 3 / 10} for n in range(150)], [{"latency": 9.0}] * 100
    limit, groups = CostLimit("latency_p95", 5.0), [""] * 150 + ["large"] * 100
    assert limit.amount(quick + slow) == 9
    assert limit.standing(quick + slow, 0.05, groups) == "unclear"
    dear = [{"tokens": 1000.0 + n} for n in range(40)]
    cheap = [{"tokens": 10.0}] * 400
    mean = CostLimit("tokens", 500.0)
    assert mean.amount(dear + cheap) < 500
    assert mean.standing(dear + cheap, 0.05, [""] * 40 + ["large"] * 400) == "unclear"
