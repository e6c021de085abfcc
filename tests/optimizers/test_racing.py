"""Racing: the logical stop by hand, laws, and a quick simulation of its error and of what it saves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragc.errors import UsageError
from ragc.optimizers.racing import hopeless, standing

shares = st.sampled_from([0.0, 0.3, 0.5, 1.0])


def test_a_trial_is_given_up_once_perfect_answers_could_not_save_it() -> None:
    incumbent = [0.5] * 10
    assert not hopeless([0.0] * 4, incumbent, alpha=1e-9)
    assert hopeless([0.0] * 5, incumbent, alpha=1e-9)
    assert hopeless([0.0] * 6, incumbent, alpha=1e-9)


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
    assert not hopeless([0.0] * 15, incumbent, alpha=1e-12)


def test_costs_race_negated_without_a_bound_on_how_dear_they_may_be() -> None:
    incumbent = [-100.0, -120.0] * 20
    assert hopeless([-250.0] * 20, incumbent, best=0.0)
    assert not hopeless([-90.0] * 20, incumbent, best=0.0)


@given(st.lists(st.tuples(shares, shares), min_size=1, max_size=60))
@settings(max_examples=60, deadline=None)
def test_hopeless_stays_hopeless_and_is_never_said_of_a_certain_winner(
    scores: list[tuple[float, float]],
) -> None:
    trial, incumbent = (list(side) for side in zip(*scores, strict=True))
    said = [hopeless(trial[:seen], incumbent) for seen in range(len(trial) + 1)]
    assert said == sorted(said)
    if all(t >= i for t, i in scores) and sum(trial) > sum(incumbent):
        assert not said[-1]


def test_the_told_value_is_the_incumbents_mean_plus_the_paired_difference() -> None:
    assert standing([0.0, 1.0], [1.0, 1.0, 0.0, 0.0]) == 0.0
    assert standing([1.0], [0.0, 1.0, 1.0, 1.0]) == 1.75
    with pytest.raises(UsageError):
        standing([], [1.0])


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(UsageError, match="has 2 scores"):
        hopeless([1.0, 1.0], [0.0])
    with pytest.raises(UsageError, match="best=1"):
        hopeless([7.0], [0.0, 0.0])


@pytest.mark.parametrize(("wins", "both"), [(3, 30), (10, 30), (20, 50), (12, 0)])
def test_a_trial_better_by_one_answer_is_seldom_stopped(wins: int, both: int) -> None:
    """All looks after every 10 of 100 questions: at most 10% of 300 orders, plus 3 standard errors."""
    trial, incumbent = np.zeros(100), np.zeros(100)
    trial[: wins + both] = 1
    incumbent[wins : 2 * wins - 1 + both] = 1
    rng = np.random.default_rng(wins)
    stopped = 0
    for _ in range(300):
        order = rng.permutation(100)
        stopped += hopeless(trial[order][:90].tolist(), incumbent[order].tolist(), alpha=0.1)
    assert stopped / 300 <= 0.1 + 3 * 0.0173


def test_a_trial_worse_by_a_quarter_costs_less_than_half_of_the_questions() -> None:
    rng = np.random.default_rng(0)
    asked = []
    for _ in range(60):
        incumbent = (rng.random(100) < 0.6).astype(float)
        trial = np.where(rng.random(100) < 0.4, 0.0, incumbent)
        looks = (n for n in range(10, 100, 10) if hopeless(trial[:n].tolist(), incumbent.tolist()))
        asked.append(next(looks, 100))
    assert np.mean(asked) < 50
