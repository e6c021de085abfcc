"""Choosing the winner: shrinkage, the front, and the winner's curse in a simulation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragc import metrics
from ragc.metrics.base import Objective
from ragc.metrics.failures import Failures
from ragc.optimizers.search.selection import best, eligible_trials, pareto_front, select, shrunken_means
from ragc.optimizers.search.trial import TrialResult
from ragc.optimizers.space import Candidate

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


def test_a_lead_that_all_questions_agree_on_is_left_alone() -> None:
    trials = [tried(0, [0.2] * 20), tried(1, [0.5] * 20), tried(2, [0.3] * 20)]
    assert {n: round(e.value, 9) for n, e in shrunken_means(trials, F1).items()} == {0: 0.2, 1: 0.5, 2: 0.3}
    assert select([only(t) for t in trials], [F1], F1).number == 1


def test_where_all_is_noise_nothing_is_expected_and_the_baseline_stays() -> None:
    base = [0.0, 1.0] * 10
    worse = [[1.0 - s if i % 7 == n else s for i, s in enumerate(base)] for n in range(4)]
    trials = [tried(0, base), *(tried(n + 1, scores) for n, scores in enumerate(worse))]
    hopes = shrunken_means(trials, F1)
    means = [float(np.mean(t.series(F1))) for t in trials]
    spread = max(means) - min(means)
    assert max(abs(hopes[n].value - hopes[1].value) for n in range(1, 5)) < spread / 2
    assert hopes[0].value == pytest.approx(0.5)
    assert hopes[0].shrunk == 0


def test_stopped_trials_never_win_and_equals_go_to_the_cheaper() -> None:
    trials = [
        only(tried(0, [0.1, 0.3], 50)),
        only(tried(1, [1.0], 1, complete=False)),
        only(tried(2, [0.5, 0.7], 40)),
        only(tried(3, [0.5, 0.7], 30)),
    ]
    assert select(trials, [F1], F1).number == 3


def test_the_front_has_what_no_other_trial_beats_and_pick_chooses_in_it() -> None:
    trials = [
        tried(0, [0.2, 0.2], 50),
        tried(1, [0.6, 0.6], 80),
        tried(2, [0.1, 0.1], 60),
        tried(3, [0.2, 0.2], 50),
        tried(4, [0.0, 0.0], 10),
    ]
    assert [t.number for t in pareto_front(trials, [F1, COST])] == [0, 1, 4]
    assert select(trials, [F1, COST], F1).number == 1
    assert select(trials, [F1, COST], COST).number == 4


@given(st.lists(st.lists(st.floats(0, 1), min_size=6, max_size=6), min_size=1, max_size=6))
def test_what_is_expected_lies_within_the_means_and_only_shrinks(scores: list[list[float]]) -> None:
    trials = [tried(n, line) for n, line in enumerate(scores)]
    means = [sum(line) / 6 for line in scores]
    for number, hope in shrunken_means(trials, F1).items():
        assert min(means) - 1e-9 <= hope.value <= max(means) + 1e-9
        assert hope.value + hope.shrunk == pytest.approx(means[number], abs=1e-9)


def test_the_expected_score_of_the_winner_is_nearer_the_truth_than_its_mean() -> None:
    """Simulated: 12 trials of 40 questions, true differences small beside the noise of a question."""
    rng = np.random.default_rng(5)
    raw, shrunk = [], []
    for _ in range(150):
        truth = np.concatenate([[0.0], rng.normal(0.0, 0.03, 12)]) + 0.5
        ease = rng.normal(0, 0.3, 40)
        seen = np.clip(truth[:, None] + ease + rng.normal(0, 0.25, (13, 40)), 0, 1)
        trials = [only(tried(n, line.tolist())) for n, line in enumerate(seen)]
        chosen = select(trials, [F1], F1)
        centre = truth[chosen.number] + np.mean(ease)
        raw.append(chosen.values[0] - centre)
        shrunk.append(shrunken_means(trials, F1)[chosen.number].value - centre)
    assert np.mean(raw) > 0.03  # the curse
    assert abs(np.mean(shrunk)) < np.mean(raw) / 2
    assert np.mean(np.square(shrunk)) < np.mean(np.square(raw))


def test_ties_go_to_the_baseline_even_where_another_was_cheaper() -> None:
    trials = [only(tried(0, [0.0] * 4, 50)), only(tried(1, [0.0] * 4, 30)), only(tried(2, [0.0] * 4, 40))]
    assert select(trials, [F1], F1).number == best(trials, [F1]).number == 0


def test_whoever_failed_more_never_wins_a_tie() -> None:
    trials = [only(tried(0, [0.0, 0.4], 50, failed=1)), only(tried(1, [0.0, 0.4], 90))]
    assert select(trials, [F1], F1).number == best(trials, [F1]).number == 1
    same = [tried(0, [0.0] * 20, 5, failed=1), tried(1, [0.0] * 20, 5), tried(2, [0.0] * 20, 5, failed=1)]
    assert [trial.number for trial in pareto_front(same, [F1, COST])] == [1]


@pytest.mark.parametrize("objectives", [[F1], [F1, COST], [COST, F1], [COST]])
def test_what_answered_nothing_never_wins_over_what_answered(objectives: list[Objective]) -> None:
    """Failing is the cheapest there is, and comes first."""
    trials = [
        tried(number, [0.0] * 8, tokens, failed=failed)
        for number, tokens, failed in ((0, 0.0, 8), (1, 900.0, 0), (2, 0.0, 8))
    ]
    places = [[F1, COST].index(objective) for objective in objectives]
    results = [replace(trial, values=tuple(trial.values[index] for index in places)) for trial in trials]
    assert [trial.number for trial in pareto_front(results, objectives)] == [1]
    assert best(results, objectives).number == 1
    assert {select(results, objectives, pick).number for pick in objectives} == {1}
    assert [trial.number for trial in eligible_trials(results[::2], objectives)] == [0, 2]  # then nothing was


def test_one_that_fails_much_more_than_the_baseline_must_answer_better_than_it() -> None:
    base = tried(0, [0.5] * 20, 100, failed=2)
    cheap, better, little = (
        tried(1, [0.4] * 20, 10, failed=5),
        tried(2, [0.6] * 20, 10, failed=5),
        tried(3, [0.4] * 20, 10, failed=4),
    )
    assert eligible_trials([base, cheap, better, little], [F1, COST]) == [base, better, little]
    assert select([base, cheap], [F1, COST], COST).number == 0
    assert select([base, little], [F1, COST], COST).number == 3
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
    assert select([base, silent], [score], score).number == best([base, silent], [score]).number == 0
    good = scored(2, [0.0] * 4 + [1.0] * 16, 4)
    assert select([base, silent, good], [score], score).number == 2


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
    assert {select(trials, objectives, pick).number for pick in objectives} == {2}
    assert best(trials, objectives).number == 2
