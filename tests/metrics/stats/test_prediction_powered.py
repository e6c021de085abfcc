"""A judge's difference, corrected by labels of a person."""

from __future__ import annotations

import numpy as np
import pytest

from ragc.metrics.stats.prediction_powered import correct
from tests.metrics.judged_world import World

UNFAIR = World(300, 100, (0.1, 0.3))


@pytest.mark.parametrize("world", [UNFAIR, World(300, 30, (0.1, 0.3), same=False)])
def test_a_judge_that_favours_one_system_is_corrected(world: World) -> None:
    rng, runs = np.random.default_rng(0), 300
    covered, better, judged, estimates = 0, 0, 0.0, 0.0
    for _ in range(runs):
        (a, b), labels = world.draw(rng)
        result = correct(a.tolist(), b.tolist(), *labels)
        covered += result.low <= 0 <= result.high
        better += result.p < 0.05 and result.diff > 0
        judged, estimates = judged + result.judged / runs, estimates + result.diff / runs
    assert judged > 0.08
    assert abs(estimates) < 0.01
    assert covered / runs > 0.92
    assert better / runs < 0.05


def test_interval_and_p_agree_and_a_good_judge_narrows_the_interval() -> None:
    rng = np.random.default_rng(1)
    (a, b), labels = World(300, 100, (0.02, 0.02), gain=0.2).draw(rng)
    good = correct(a.tolist(), b.tolist(), *labels)
    coin = rng.integers(0, 2, (2, 300)).astype(float)
    useless = correct(coin[0].tolist(), coin[1].tolist(), *labels)
    for result in (good, useless):
        assert (result.p < 0.05) == (not result.low <= 0 <= result.high)
        assert result.labels == (100, 100)
    assert good.weight > 0.5 > useless.weight
    assert good.high - good.low < useless.high - useless.low


def test_labels_of_every_answer_are_the_difference_of_the_labels() -> None:
    rng = np.random.default_rng(2)
    a, b, truth_a, truth_b = rng.integers(0, 2, (4, 40)).astype(float)
    result = correct(a.tolist(), b.tolist(), dict(enumerate(truth_a)), dict(enumerate(truth_b)))
    assert result.diff == pytest.approx(float((truth_b - truth_a).mean()))


def test_a_judge_that_never_errs_on_labels_has_one_error_counted() -> None:
    scores = [float(n % 2) for n in range(60)]
    held = dict(enumerate(scores[:30]))
    result = correct(scores, scores, held, held)
    assert result.diff == 0
    assert result.p == 1
    assert result.low < -0.05
    assert result.high > 0.05


def test_questions_of_one_group_count_together() -> None:
    rng = np.random.default_rng(3)
    a = np.repeat(rng.integers(0, 2, 30), 5).astype(float)
    b = np.repeat(rng.integers(0, 2, 30), 5).astype(float)
    held = {n: float(a[n]) for n in range(150)}, {n: float(b[n]) for n in range(150)}
    alone = correct(a.tolist(), b.tolist(), *held)
    grouped = correct(a.tolist(), b.tolist(), *held, groups=[f"g{n // 5}" for n in range(150)])
    assert grouped.diff == pytest.approx(alone.diff)
    assert grouped.high - grouped.low > 1.5 * (alone.high - alone.low)
