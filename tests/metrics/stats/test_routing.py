"""What an oracle saves that chooses a program for each question."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragc.metrics.stats.routing import cross_fitted_gain


def test_where_programs_answer_different_questions_as_well_the_cheap_one_answers_its_own() -> None:
    scores = np.array([[1.0, 0.0] * 50, [1.0, 1.0] * 50])
    costs = np.array([[10.0] * 100, [100.0] * 100])
    gain = cross_fitted_gain(scores, costs, 1)
    assert gain is not None
    assert gain.saved == pytest.approx(0.45)
    assert gain.gained == 0
    assert gain.used == (50, 50)


@given(st.integers(0, 10_000), st.integers(2, 5), st.integers(10, 80))
def test_every_question_is_answered_and_nothing_exceeds_the_whole(seed: int, programs: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    scores, costs = rng.random((programs, n)).round(1), rng.uniform(1, 100, (programs, n))
    gain = cross_fitted_gain(scores, costs, 0, seed=seed)
    assert gain is not None
    assert sum(gain.used) == gain.questions == n
    assert gain.saved <= 1
    assert -1 <= gain.gained <= float((scores.max(axis=0) - scores[0]).mean()) + 1e-9


def test_equal_programs_save_nothing() -> None:
    scores, costs = np.ones((3, 40)), np.full((3, 40), 7.0)
    gain = cross_fitted_gain(scores, costs, 2)
    assert gain is not None
    assert (gain.saved, gain.gained) == (0, 0)


def test_too_little_or_unmeasured_is_unknown() -> None:
    ones = np.ones((2, 30))
    assert cross_fitted_gain(ones[:1], ones[:1], 0) is None
    assert cross_fitted_gain(ones[:, :9], ones[:, :9], 0) is None
    assert cross_fitted_gain(ones, ones * np.inf, 0) is None
    assert cross_fitted_gain(ones, ones * 0, 0) is None
