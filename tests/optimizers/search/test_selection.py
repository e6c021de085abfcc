"""Choosing the winner: what is expected of trials, the front, and the winner's curse in simulations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ragc import metrics
from ragc.metrics.base import UNMEASURED, Objective
from ragc.metrics.failures import Failures
from ragc.optimizers.candidates.eligible import eligible_trials
from ragc.optimizers.candidates.space import Candidate
from ragc.optimizers.candidates.trial import TrialResult
from ragc.optimizers.search.selection import best, expected_of_choice, expected_scores, pareto_front, select
from ragc.recipe.models import SelectionRule
from tests.examples import cases, thorough

F1, COST = Objective(metrics.get("f1"), 1), Objective(metrics.get("tokens"), -1)


def tried(
    number: int, scores: list[float], tokens: float = 0.0, *, complete: bool = True, failed: int = 0
) -> TrialResult:
    rows = tuple({"f1": score, "tokens": tokens} for score in scores)
    values = (sum(scores) / len(scores), -tokens)
    failures = Failures.among("no JSON" if index < failed else "" for index in range(len(scores)))
    cost = {"prompt_tokens": tokens}
    return TrialResult(number, Candidate({"top_k": number}), rows, values, complete, cost, failures)


def only(trial: TrialResult) -> TrialResult:
    return replace(trial, values=trial.values[:1])


def test_a_lead_that_all_questions_agree_on_is_nearly_left_alone() -> None:
    trials = [tried(0, [0.2] * 20), tried(1, [0.5] * 20), tried(2, [0.3] * 20)]
    values = {number: expected.value for number, expected in expected_scores(trials, F1).items()}
    assert values == pytest.approx({0: 0.2, 1: 0.5, 2: 0.3}, abs=0.01)
    assert select([only(t) for t in trials], SelectionRule.by(F1)).number == 1


def test_where_all_is_noise_nothing_is_expected_and_the_baseline_stays() -> None:
    base = [0.0, 1.0] * 10
    worse = [[1.0 - s if i % 7 == n else s for i, s in enumerate(base)] for n in range(4)]
    trials = [tried(0, base), *(tried(n + 1, scores) for n, scores in enumerate(worse))]
    expected = expected_scores(trials, F1)
    means = [float(np.mean(t.series(F1))) for t in trials]
    spread = max(means) - min(means)
    assert max(abs(expected[n].value - expected[1].value) for n in range(1, 5)) < spread / 2
    assert expected[0].risk == 0
    assert all(expected[n].risk > 0.3 for n in range(1, 5))
    assert select([only(t) for t in trials], SelectionRule.by(F1)).number == 0


def test_a_greater_risk_allows_a_winner_that_may_be_worse() -> None:
    """The second trial leads on its mean; a lead on one question more of 24 proves little."""
    base = [0.0, 1.0] * 12
    ahead = [1.0, 0.0, 1.0, 1.0, 1.0, 1.0, *base[6:]]
    trials = [only(tried(0, base)), only(tried(1, ahead)), only(tried(2, [0.0] * 24))]
    risk = expected_scores(trials, F1)[1].risk
    assert 0.01 < risk < 0.9

    def at(allowed: float) -> SelectionRule:
        return SelectionRule((F1,), F1, allowed)

    assert [select(trials, at(allowed)).number for allowed in (0.0, risk - 0.01)] == [0, 0]
    assert [select(trials, at(allowed)).number for allowed in (risk + 0.01, 1.0)] == [1, 1]
    chosen = [expected_of_choice(trials, at(allowed), trials[1]) for allowed in (0.0, 1.0)]
    assert chosen[0].value != chosen[1].value


def test_stopped_trials_never_win_and_equals_go_to_the_cheaper() -> None:
    trials = [
        only(tried(0, [0.1, 0.3] * 8, 50)),
        only(tried(1, [1.0], 1, complete=False)),
        only(tried(2, [0.5, 0.7] * 8, 40)),
        only(tried(3, [0.5, 0.7] * 8, 30)),
    ]
    assert select(trials, SelectionRule.by(F1)).number == 3


def test_the_front_has_what_no_other_trial_beats_and_pick_chooses_in_it() -> None:
    trials = [
        tried(0, [0.2, 0.2], 50),
        tried(1, [0.6, 0.6], 80),
        tried(2, [0.1, 0.1], 60),
        tried(3, [0.2, 0.2], 50),
        tried(4, [0.0, 0.0], 10),
    ]
    assert [t.number for t in pareto_front(trials, SelectionRule((F1, COST), F1))] == [0, 1, 4]
    assert select(trials, SelectionRule((F1, COST), F1)).number == 1
    assert select(trials, SelectionRule((F1, COST), COST)).number == 4


@thorough
@pytest.mark.parametrize(("dev", "spread"), cases([(24, 0.0), (24, 0.05), (40, 0.03), (80, 0.1)], 2))
def test_the_expected_score_of_the_winner_is_right_where_its_mean_is_too_high(
    dev: int, spread: float
) -> None:
    """Simulated: 12 trials of scores of 0 and 1, true differences none to large.

    A trial answers a question if the mean of two uniform numbers, one of the question and one of its own, is
    below the root of half its true mean.
    """
    rng = np.random.default_rng(5)
    rows = []
    for _ in range(120):
        truth = np.clip(np.concatenate([[0.0], rng.normal(0.0, spread, 12)]) + 0.3, 0.01, 0.5)
        difficulty = (rng.random(dev) + rng.random((13, dev))) / 2
        seen = (difficulty < np.sqrt(truth / 2)[:, None]).astype(float)
        trials = [only(tried(n, line.tolist())) for n, line in enumerate(seen)]
        chosen = select(trials, SelectionRule.by(F1)).number
        leader = int(np.argmax(seen.mean(1)))
        luck = float(np.mean(seen - truth[:, None]))
        expected = expected_of_choice(trials, SelectionRule.by(F1), trials[chosen]).value
        curse = seen.mean(1)[leader] - truth[leader] - luck
        rows.append((curse, expected - truth[chosen] - luck, truth[leader], truth[chosen]))
    curse, error, plain, ours = np.mean(rows, axis=0)
    assert curse > 0.01
    assert abs(error) < max(0.01, curse / 3)
    assert ours > plain - 0.025  # caution beside the baseline costs something


def costed(number: int, costs: list[float | None]) -> TrialResult:
    """A trial with these costs in tokens; None is not measured."""
    rows = tuple({"tokens": cost} for cost in costs)
    series = [COST.of(row) for row in rows]
    return TrialResult(number, Candidate({"top_k": number}), rows, (sum(series) / len(series),), True, {})


def test_a_candidate_that_was_tried_again_does_not_take_the_place_of_the_baseline() -> None:
    base = [0.0, 1.0] * 10
    worse = only(tried(1, [0.0] * 20))
    again = replace(only(tried(2, base)), candidate=Candidate({"top_k": 0}))
    expected = expected_scores([only(tried(0, base)), worse, again], F1)
    assert expected[0].risk == expected[2].risk == 0
    assert expected[1].risk > 0.9


@pytest.mark.parametrize("unmeasured", [[2], [0], [0, 1, 2], [1, 2]])
def test_a_cost_that_was_not_measured_says_nothing_about_other_trials(unmeasured: list[int]) -> None:
    """A trial halves the cost of each question; the next does so again."""
    costs = [
        [100.0 + at for at in range(10)],
        [50.0 + at for at in range(10)],
        [20.0 + at for at in range(10)],
    ]
    trials = [costed(n, [*line, None if n in unmeasured else 30.0]) for n, line in enumerate(costs)]
    expected = expected_scores(trials, COST)
    best_measured = 1 if unmeasured == [2] else 0 if unmeasured == [1, 2] else 2
    assert select(trials, SelectionRule.by(COST)).number == best_measured
    for n in range(3):
        assert (expected[n].value < -UNMEASURED / 20) == (n in unmeasured)
        assert (expected[n].risk > 0.9) == (n in unmeasured and 0 not in unmeasured)


def test_where_no_cost_was_measured_the_baseline_stays() -> None:
    trials = [costed(n, [None] * 4) for n in range(3)]
    assert select(trials, SelectionRule.by(COST)).number == 0
    assert expected_of_choice(trials, SelectionRule.by(COST), trials[0]).value == -UNMEASURED
    assert {e.value for e in expected_scores(trials, COST).values()} == {-UNMEASURED}


@pytest.mark.parametrize("scale", [1e-15, 1e-6, 1.0, 1e9])
def test_who_wins_does_not_depend_on_the_unit(scale: float) -> None:
    rng = np.random.default_rng(3)
    costs = np.array([3.0, 2.0, 1.0])[:, None] + rng.random((3, 12)) / 10
    trials = [costed(n, list(line * scale)) for n, line in enumerate(costs)]
    assert select(trials, SelectionRule.by(COST)).number == 2


def test_ties_go_to_the_baseline_even_where_another_was_cheaper() -> None:
    trials = [only(tried(0, [0.0] * 4, 50)), only(tried(1, [0.0] * 4, 30)), only(tried(2, [0.0] * 4, 40))]
    assert select(trials, SelectionRule.by(F1)).number == best(trials, [F1]).number == 0


def test_whoever_failed_more_never_wins_a_tie() -> None:
    trials = [only(tried(0, [0.0, 0.4], 50, failed=1)), only(tried(1, [0.0, 0.4], 90))]
    assert select(trials, SelectionRule.by(F1)).number == best(trials, [F1]).number == 1
    same = [tried(0, [0.0] * 20, 5, failed=1), tried(1, [0.0] * 20, 5), tried(2, [0.0] * 20, 5, failed=1)]
    assert [trial.number for trial in pareto_front(same, SelectionRule((F1, COST), F1))] == [1]


@pytest.mark.parametrize("objectives", [[F1], [F1, COST], [COST, F1], [COST]])
def test_what_answered_nothing_never_wins_over_what_answered(objectives: list[Objective]) -> None:
    """Failing is the cheapest there is, and comes first."""
    trials = [
        tried(number, [0.0] * 8, tokens, failed=failed)
        for number, tokens, failed in ((0, 0.0, 8), (1, 900.0, 0), (2, 0.0, 8))
    ]
    places = [[F1, COST].index(objective) for objective in objectives]
    results = [replace(trial, values=tuple(trial.values[index] for index in places)) for trial in trials]
    assert [trial.number for trial in pareto_front(results, SelectionRule(tuple(objectives), F1))] == [1]
    assert best(results, objectives).number == 1
    assert {select(results, SelectionRule(tuple(objectives), pick)).number for pick in objectives} == {1}
    assert [trial.number for trial in eligible_trials(results[::2], objectives)] == [0, 2]  # then nothing was


def test_one_that_fails_much_more_than_the_baseline_must_answer_better_than_it() -> None:
    base = tried(0, [0.5] * 20, 100, failed=2)
    cheap, better, little = (
        tried(1, [0.4] * 20, 10, failed=5),
        tried(2, [0.6] * 20, 10, failed=5),
        tried(3, [0.4] * 20, 10, failed=4),
    )
    assert eligible_trials([base, cheap, better, little], [F1, COST]) == [base, better, little]
    assert select([base, cheap], SelectionRule((F1, COST), COST)).number == 0
    assert select([base, little], SelectionRule((F1, COST), COST)).number == 3
    costs = [replace(trial, values=trial.values[1:]) for trial in (base, cheap, better, little)]
    assert [trial.number for trial in eligible_trials(costs, [COST])] == [0, 3]


def test_what_hardly_answers_wins_no_balance_by_saying_nothing() -> None:
    """A wrong answer counts -1 there, and a question that failed 0."""
    score = Objective(metrics.get("crag_score"), 1)

    def scored(number: int, points: list[float], failed: int) -> TrialResult:
        rows = tuple({"crag_score": one} for one in points)
        failures = Failures.among("no JSON" if index < failed else "" for index in range(len(points)))
        mean = sum(points) / len(points)
        return TrialResult(number, Candidate({"top_k": number}), rows, (mean,), True, {}, failures)

    base, silent = scored(0, [-1.0] * 14 + [1.0] * 6, 0), scored(1, [0.0] * 19 + [1.0], 19)
    assert select([base, silent], SelectionRule.by(score)).number == best([base, silent], [score]).number == 0
    good = scored(2, [0.0] * 4 + [1.0] * 16, 4)
    assert select([base, silent, good], SelectionRule.by(score)).number == 2


@pytest.mark.parametrize("objectives", [[COST], [COST, F1], [F1, COST]])
def test_beside_one_that_answers_failing_as_often_as_the_baseline_is_no_excuse(
    objectives: list[Objective],
) -> None:
    places = [[F1, COST].index(objective) for objective in objectives]
    base, other, sound = (
        tried(0, [0.0] * 20, 50, failed=19),
        tried(1, [0.0] * 20, 10, failed=18),
        tried(2, [0.3] * 20, 500),
    )
    trials = [replace(t, values=tuple(t.values[index] for index in places)) for t in (base, other, sound)]
    assert {select(trials, SelectionRule(tuple(objectives), pick)).number for pick in objectives} == {2}
    assert best(trials, objectives).number == 2
