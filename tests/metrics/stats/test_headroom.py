"""What a matrix of scores says of a search, against simulations whose truth is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ragc.metrics.stats.headroom import (
    Spread,
    changes,
    expected_gain,
    noise,
    solved,
    spread,
)
from tests.examples import cases, thorough

RECIPES = 100
SETTINGS, QUESTIONS, TRIALS, DEV = 9, 30, 20, 60


def true_gain(lead: float, between: float, within: float, rng: np.random.Generator) -> float:
    """The mean true lead of what 20,000 searches compile, by playing them."""
    effects = lead + between * rng.standard_normal((20_000, TRIALS))
    error = within / math.sqrt(DEV)
    shown = effects + error * rng.standard_normal(effects.shape)
    best = shown.argmax(axis=1)
    chosen = np.take_along_axis(effects, best[:, None], axis=1)[:, 0]
    beats = shown.max(axis=1) > error * rng.standard_normal(20_000)
    return float(np.where(beats, chosen, 0.0).mean())


@thorough
@pytest.mark.parametrize(
    ("lead", "between"), cases([(0.0, 0.0), (0.0, 0.05), (0.0, 0.12), (-0.08, 0.05), (0.1, 0.08)], 3)
)
def test_the_gain_to_expect_is_near_the_truth_and_its_interval_holds_it(lead: float, between: float) -> None:
    rng = np.random.default_rng(7)
    within = 0.35
    truth = true_gain(lead, between, within, rng)
    values, covered, shown = [], 0, 0
    for number in range(RECIPES):
        effects = np.append(0.0, lead + between * rng.standard_normal(SETTINGS - 1))
        difficulty = 0.4 * rng.standard_normal(QUESTIONS)
        rest = within * rng.standard_normal((SETTINGS, QUESTIONS))
        seen = spread((effects[:, None] + difficulty + rest).tolist(), seed=0)
        gain = expected_gain(seen, trials=TRIALS, dev=DEV, limit=math.inf, seed=number)
        values.append(gain.value)
        covered += gain.low <= truth <= gain.high
        shown += gain.shown
    assert np.mean(values) == pytest.approx(truth, abs=0.05)  # a lead of 0.1 is within its error, and shrunk
    assert covered / RECIPES >= 0.9
    assert shown / RECIPES <= 0.08 or between


def test_broken_settings_are_left_out_and_promise_nothing() -> None:
    rng = np.random.default_rng(5)
    with_broken, without, left_out = [], [], 0
    for number in range(60):
        rows = (rng.random((8, 30)) < 0.5).astype(float)
        seen = spread(rows.tolist(), seed=0)
        without.append(expected_gain(seen, trials=TRIALS, dev=DEV, limit=0.5, seed=number).value)
        rows[[2, 6]] = 0.0
        seen = spread(rows.tolist(), seed=0)
        left_out += seen.broken == pytest.approx(2 / 7)
        with_broken.append(expected_gain(seen, trials=TRIALS, dev=DEV, limit=0.5, seed=number).value)
    assert left_out >= 57
    assert np.mean(with_broken) == pytest.approx(np.mean(without), abs=0.03)


@pytest.mark.parametrize("broken", [0, 5, 7])
def test_a_gap_needs_three_settings_above_it(broken: int) -> None:
    rows = (np.random.default_rng(2).random((8, 30)) < 0.5).astype(float)
    rows[8 - broken :] = 0.0
    assert spread(rows.tolist(), seed=0).broken == 0


def test_a_gain_stays_below_what_is_left_to_gain_and_grows_with_trials() -> None:
    seen = Spread(0.1, 0.001, 1.0, 0.1, (8, 8 * 29), 30, 0.001)
    few, many = (expected_gain(seen, trials=n, dev=80, limit=1.0, seed=0) for n in (2, 50))
    assert 0 < few.value < many.value
    assert many.value <= many.without_luck
    small_dev = expected_gain(seen, trials=50, dev=5, limit=1.0, seed=0)
    assert small_dev.value < many.value
    capped = expected_gain(seen, trials=50, dev=80, limit=0.12, seed=0)
    assert capped.high <= 0.12 + 1e-9


def test_shares_solved_by_none_and_by_all() -> None:
    scores: list[list[float]] = [[1, 1, 0, 0, 0.6], [1, 0, 0, 0, 1], [1, 1, 0, 1, 0.4]]
    shares = solved(scores, 1.0)
    assert (shares.never.mean, shares.always.mean) == (0.2, 0.2)
    assert shares.never.low < 0.2 < shares.never.high
    assert shares.unseen == 0.0  # one question by one setting and two by two say nothing of others
    lonely = np.eye(6, 12).tolist()
    assert solved(lonely, 1.0).unseen == pytest.approx(0.5)  # all that is unsolved: each solves another one
    nothing = solved([[0.0] * 9, [0.0] * 9], 1.0)
    assert (nothing.never.mean, nothing.unseen) == (1.0, 0.0)


def test_noise_is_the_difference_of_two_runs() -> None:
    seen = noise([0, 1, 1, 0], [0, 1, 0, 0.5])
    assert (seen.changed, seen.size, seen.n) == (0.5, 0.375, 4)
    assert seen.of_mean(100) == pytest.approx(np.std([0, 0, -1, 0.5], ddof=1) / 10)
    same = noise([0, 1], [0, 1])
    assert (same.changed, same.of_mean(50), same.of_mean(0)) == (0, 0, 0)


def test_changes_between_settings_are_counted_in_the_direction_of_the_better_one() -> None:
    seen = changes([[1, 1, 1, 0, 0], [0, 0, 1, 1, 0]])
    assert seen is not None
    assert seen.lost == pytest.approx(0.2)
    assert seen.size == 1
    assert seen.gained(0.2) == pytest.approx(0.4)
    assert changes([[1, 0], [1, 0]]) is None
