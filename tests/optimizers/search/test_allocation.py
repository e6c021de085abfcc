"""Who answers more questions: leaders until they may win, rivals as long as a look may change who wins."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.benchmarks.search.choosing.table_study import study_picks
from experiments.benchmarks.search.choosing.worlds import World
from ragc.optimizers.search.allocation import (
    ANSWERS,
    MIN_BEFORE_STOP,
    MIN_DEV_QUESTIONS,
    affordable_questions,
    least_to_win,
    next_looks,
    stopping_points,
)
from ragc.optimizers.search.normal_equations import Array
from ragc.optimizers.search.score_model import Posterior
from ragc.recipe.values import RISK
from tests.examples import examples

GRID = [{"top_k": k, "layout": layout} for k in (1, 3, 5) for layout in ("json", "markers")]
RATES = (0.3, 0.4, 0.5, 0.5, 0.6, 0.7)


def table(seed: int, rates: Sequence[float], questions: int) -> Array:
    """Scores of 0 and 1 with these means, easier questions for all alike."""
    rng = np.random.default_rng(seed)
    return (
        rng.random(questions) * 0.7 + rng.random((len(rates), questions)) * 0.3 < np.array(rates)[:, None]
    ).astype(float)


def posterior(means: Sequence[float], deviations: Sequence[float]) -> Posterior:
    """Independent settings with these means and standard deviations."""
    return Posterior(np.array(means), np.diag(np.square(deviations)), 0.2)


def looks(
    means: Sequence[float], deviations: Sequence[float], seen: Sequence[int], most: int = 4
) -> list[int]:
    among = range(1, len(means))
    return next_looks(
        posterior(means, deviations), seen, among, questions=100, most=most, tolerance=0.001
    )  # fmt: skip


@given(st.integers(1, 5000))
def test_stopping_points_end_with_all_questions_and_winners_need_a_third(questions: int) -> None:
    ends = stopping_points(questions)
    assert ends == sorted(set(ends))
    assert ends[-1] == questions
    assert all(end >= MIN_BEFORE_STOP for end in ends[:-1])
    least = least_to_win(questions)
    assert min(questions, 10) <= least <= questions
    assert questions < 10 or 3 * least >= questions


@given(st.integers(1, 500), st.floats(-100, 1e6), st.floats(0, 1e4))
def test_a_budget_asks_all_questions_or_as_many_as_it_can_ask_of_several_trials(
    questions: int, answers: float, more: float
) -> None:
    chosen = affordable_questions(questions, answers)
    assert min(questions, MIN_DEV_QUESTIONS) <= chosen <= questions
    assert chosen in (questions, MIN_DEV_QUESTIONS) or ANSWERS * chosen <= answers < ANSWERS * (chosen + 1)
    assert affordable_questions(questions, answers + more) >= chosen
    assert affordable_questions(questions, float("inf")) == questions


@pytest.mark.parametrize(
    ("means", "deviations", "seen", "expected"),
    [
        ([0.5, 0.5, 0.2], [0.01, 0.1, 0.02], [100, 40, 40], [1]),  # a rival, and one far behind
        ([0.5, 0.48, 0.48], [0.01, 0.08, 0.1], [100, 60, 10], [2, 1]),  # the less known of two rivals first
        ([0.5, 0.45], [0.01, 0.2], [100, 0], [1]),  # nothing answered yet, and maybe good
        ([0.1, 0.9, 0.1], [0.01] * 3, [100, 10, 10], [1]),  # nobody overtakes it, and it may not win yet
        ([0.1, 0.9, 0.1], [0.01] * 3, [100, 45, 10], []),  # now it may
        ([0.5] * 3, [0.1] * 3, [100] * 3, []),  # everything is answered
    ],
)
def test_rivals_go_on_and_a_leader_until_it_may_win(
    means: list[float], deviations: list[float], seen: list[int], expected: list[int]
) -> None:
    assert looks(means, deviations, seen) == expected


@settings(max_examples=examples(10), deadline=None)
@given(st.integers(0, 1000), st.integers(1, 260), st.integers(1, 40))
def test_a_search_never_passes_its_budget_and_ends(seed: int, budget: int, questions: int) -> None:
    scores = table(seed, RATES, questions)
    worlds = [World(GRID, 0, scores, np.array(RATES), budget) for _ in range(2)]
    picks = [study_picks(world, seed, [RISK])[f"{RISK:g}"] for world in worlds]
    assert int(worlds[0].seen.sum()) <= budget
    assert 0 <= picks[0].setting < len(GRID)
    assert picks[0] == picks[1]
    assert (worlds[0].seen == worlds[1].seen).all()


def test_the_budget_goes_to_the_rivals_and_a_clear_winner_is_chosen_early() -> None:
    scores = table(3, [0.2, 0.25, 0.3, 0.3, 0.35, 0.9], 100)
    world = World(GRID, 0, scores, scores.mean(1), scores.size)
    assert study_picks(world, 0, [RISK])[f"{RISK:g}"].setting == 5
    answers = world.seen.sum(1)
    assert answers[0] == answers[5] == 100
    assert answers[1:5].sum() < 120
