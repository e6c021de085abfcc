"""Racing: the logical stop by hand, laws, and a quick simulation of its error and of what it saves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragc.errors import UsageError
from ragc.optimizers.candidates.trial import estimated_mean
from ragc.optimizers.search.racing import FUTILITY, win_probability
from tests.examples import examples

shares = st.sampled_from([0.0, 0.3, 0.5, 1.0])


def hopeless(mine: list[float], others: list[float], *, risk: float = FUTILITY, best: float = 1.0) -> bool:
    """Whether a study would stop the trial."""
    return win_probability(mine, others, best=best) < risk


def test_a_trial_is_given_up_once_perfect_answers_could_not_save_it() -> None:
    incumbent = [0.5] * 10
    assert not hopeless([0.0] * 4, incumbent, risk=1e-9)
    assert hopeless([0.0] * 5, incumbent, risk=1e-9)
    assert hopeless([0.0] * 6, incumbent, risk=1e-9)


def test_nothing_can_beat_a_perfect_incumbent() -> None:
    assert hopeless([], [1.0] * 5)


def test_a_trial_without_scores_still_may_win() -> None:
    assert not hopeless([], [1.0, 0.0])


@pytest.mark.parametrize(("scores", "lost"), [([1.0, 1.0], False), ([1.0, 0.0], True), ([0.0, 0.0], True)])
def test_after_the_last_question_only_a_greater_sum_wins(scores: list[float], lost: bool) -> None:
    assert hopeless(scores, [0.0, 1.0]) is lost


def test_a_much_worse_trial_is_stopped_early_by_the_statistics() -> None:
    incumbent = [1.0, 1.0, 1.0, 0.0] * 25
    assert hopeless([0.0] * 15, incumbent)
    assert not hopeless([0.0] * 15, incumbent, risk=1e-12)


def test_costs_race_negated_without_a_bound_on_how_dear_they_may_be() -> None:
    incumbent = [-100.0, -120.0] * 20
    assert hopeless([-250.0] * 20, incumbent, best=0.0)
    assert not hopeless([-90.0] * 20, incumbent, best=0.0)


@given(st.lists(st.tuples(shares, shares), min_size=1, max_size=60))
@settings(max_examples=examples(60), deadline=None)
def test_the_chance_is_one_and_is_sure_of_what_is_certain(scores: list[tuple[float, float]]) -> None:
    trial, incumbent = (list(side) for side in zip(*scores, strict=True))
    chances = [win_probability(trial[:seen], incumbent) for seen in range(len(trial) + 1)]
    assert all(0 <= chance <= 1 for chance in chances)
    assert chances[-1] == (sum(trial) > sum(incumbent) + 1e-9)
    for seen, chance in enumerate(chances):
        if sum(trial[:seen]) + len(trial) - seen <= sum(incumbent):
            assert chance == 0


@given(st.lists(st.tuples(shares, shares), min_size=2, max_size=60), st.data())
@settings(max_examples=examples(60), deadline=None)
def test_a_better_answer_never_lowers_a_small_chance(
    scores: list[tuple[float, float]], data: st.DataObject
) -> None:
    trial, incumbent = (list(side) for side in zip(*scores, strict=True))
    seen = data.draw(st.integers(1, len(trial) - 1))
    at = data.draw(st.integers(0, seen - 1))
    better = [*trial[:at], 1.0, *trial[at + 1 : seen]]
    before, after = win_probability(trial[:seen], incumbent), win_probability(better, incumbent)
    assert after >= before - 1e-12 or before > 0.5  # above, more variance may lower it


def test_equal_runs_are_as_likely_to_win_as_not() -> None:
    incumbent = [1.0, 0.0] * 50
    assert win_probability(incumbent[:20], incumbent) == pytest.approx(0.5)
    mine = [1.0 - score for score in incumbent]
    assert win_probability(mine[:20], incumbent) == pytest.approx(0.5)


def test_none_of_ten_right_is_no_proof_against_a_poor_incumbent() -> None:
    """The urn, as a beta-binomial, leaves a chance where all differences seen are 0."""
    assert win_probability([0.0] * 10, [0.0] * 98 + [1.0] * 2) == pytest.approx(0.5)


def test_the_told_value_is_the_incumbents_mean_plus_the_paired_difference() -> None:
    assert estimated_mean([0.0, 1.0], [1.0, 1.0, 0.0, 0.0]) == 0.0
    assert estimated_mean([1.0], [0.0, 1.0, 1.0, 1.0]) == 1.75
    with pytest.raises(UsageError):
        estimated_mean([], [1.0])


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(UsageError, match="has 2 scores"):
        hopeless([1.0, 1.0], [0.0])
    with pytest.raises(UsageError, match="best=1"):
        hopeless([7.0], [0.0, 0.0])


def rates(number: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores of a trial and an incumbent with the same true rate, by a seed."""
    rng = np.random.default_rng(number)
    ease, rate = rng.random(100), rng.uniform(0.1, 0.9)
    own = [(np.where(rng.random(100) < 0.5, ease, rng.random(100)) < rate).astype(float) for _ in range(2)]
    return own[0], own[1]


def test_few_trials_are_stopped_that_would_have_won() -> None:
    """Trials as good as the incumbent, looks after every 10 of 100 questions: RISK and 3 standard errors."""
    wrong, repeats = 0, 400
    for number in range(repeats):
        trial, incumbent = rates(number)
        if trial.sum() > incumbent.sum():
            looks = range(10, 100, 10)
            wrong += any(hopeless(trial[:n].tolist(), incumbent.tolist()) for n in looks)
    assert wrong / repeats <= FUTILITY + 3 * (FUTILITY * (1 - FUTILITY) / repeats) ** 0.5


def test_a_trial_worse_by_a_quarter_costs_a_quarter_of_the_questions() -> None:
    rng = np.random.default_rng(0)
    question_counts = []
    for _ in range(60):
        incumbent = (rng.random(100) < 0.6).astype(float)
        trial = np.where(rng.random(100) < 0.4, 0.0, incumbent)
        looks = (n for n in range(10, 100, 10) if hopeless(trial[:n].tolist(), incumbent.tolist()))
        question_counts.append(next(looks, 100))
    assert np.mean(question_counts) < 25
