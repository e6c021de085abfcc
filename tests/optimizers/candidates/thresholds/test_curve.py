"""Thresholds fitted to recorded scores: curves by hand, and laws of the choice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragc.optimizers.candidates.thresholds.curve import (
    GateOutcome,
    exact_curve,
    fit,
    is_single_gate,
    space_thresholds,
)


def test_cross_validation_judges_each_question_by_what_the_others_choose() -> None:
    lone = [GateOutcome(f"q{n}", 0.5, low=0, high=int(n == 0), present=0) for n in range(5)]
    result = fit(exact_curve(lone, 0.0, 1.0, present=0.0), reached=5)
    assert (result.in_sample, result.before, result.folds) == (0.2, 0.0, 5)
    assert result.threshold == 0.75
    assert result.validated == 0.0  # without it the others see nothing in moving
    assert result.worth_a_trial is True
    worse = [GateOutcome(q.id, q.score, q.low, q.high - 0.1 * (q.id != "q0"), q.present) for q in lone]
    result = fit(exact_curve(worse, 0.0, 1.0, present=0.0), reached=5)
    assert (result.in_sample, result.before, result.validated) == (0.12, 0.0, -0.08)
    assert not result.worth_a_trial


def test_spaced_thresholds_stand_between_scores_and_part_them_evenly() -> None:
    assert space_thresholds([0.2, 0.6], 0.0, 1.0) == (0.1, 0.4, 0.8)
    assert space_thresholds([0.5, 0.5, 0.5], 0.0, 1.0) == (0.25, 0.75)
    many = space_thresholds([n / 100 for n in range(1, 100)], 0.0, 1.0, most=4)
    assert many == (0.205, 0.405, 0.595, 0.795)
    assert space_thresholds([2.0], 0.0, 1.0) == (0.5,)


OUTCOMES = st.sampled_from([0.0, 0.25, 0.5, 1.0])
SCORES = st.one_of(st.none(), st.integers(0, 20).map(lambda n: n / 20))
PRESENT = st.integers(0, 40).map(lambda n: n / 40)


@st.composite
def gates(draw: st.DrawFn) -> tuple[list[GateOutcome], float]:
    """Questions at a single gate that passes what reaches the threshold, and its present value."""
    present, questions = draw(PRESENT), []
    for n in range(draw(st.integers(1, 12))):
        score, passed, missed = draw(SCORES), draw(OUTCOMES), draw(OUTCOMES)
        missed = passed if score is None else missed

        def goes(
            threshold: float, score: float | None = score, yes: float = passed, no: float = missed
        ) -> float:
            return yes if score is None or score >= threshold else no

        questions.append(GateOutcome(f"q{n}", score, goes(0.0), goes(1.0), goes(present)))
    return questions, present


def mean(questions: list[GateOutcome], threshold: float, present: float) -> float:
    """The mean outcome at `threshold`, told from the gate itself."""

    def outcome(q: GateOutcome) -> float:
        if threshold in (0.0, 1.0) or q.score is None:
            return q.low if threshold == 0.0 or q.score is None else q.high
        return q.low if q.score >= threshold else q.high

    return sum(map(outcome, questions)) / len(questions)


@given(gates())
def test_the_chosen_threshold_is_as_good_as_any_of_the_range(drawn: tuple[list[GateOutcome], float]) -> None:
    questions, present = drawn
    assert is_single_gate(questions, 0.0, 1.0, present)
    result = fit(exact_curve(questions, 0.0, 1.0, present), reached=len(questions))
    grid = [mean(questions, n / 80, present) for n in range(81)]
    assert result.in_sample == pytest.approx(max(grid))
    assert mean(questions, result.threshold, present) == pytest.approx(result.in_sample)
    assert mean(questions, present, present) == pytest.approx(result.before)
    assert 0.0 <= result.threshold <= 1.0
    for point, value in zip(result.points, result.means, strict=True):
        assert mean(questions, point, present) == pytest.approx(value)


@given(gates(), OUTCOMES)
def test_outcomes_that_never_change_keep_the_present_value(
    drawn: tuple[list[GateOutcome], float], same: float
) -> None:
    constant = [GateOutcome(q.id, q.score, same, same, same) for q in drawn[0]]
    result = fit(exact_curve(constant, 0.0, 1.0, drawn[1]), reached=1)
    assert result.threshold == result.present == drawn[1]
    assert result.before == result.in_sample == result.validated == same
    assert not result.worth_a_trial
