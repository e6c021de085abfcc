"""What a matrix of scores says of a search."""

from __future__ import annotations

import numpy as np
import pytest

from ragc.metrics.stats.headroom import changes, gain, noise, solved, spread
from tests.examples import thorough

SETTINGS, QUESTIONS = 9, 40


def table(effects: np.ndarray, rng: np.random.Generator) -> list[list[float]]:
    """Scores of 0 and 1 whose chance differs by setting and question."""
    chances = 0.5 + effects[:, None] + 0.3 * rng.uniform(-1, 1, QUESTIONS)
    scores: list[list[float]] = (rng.random(chances.shape) < chances).astype(float).tolist()
    return scores


@thorough
def test_gain_of_equal_settings_is_seldom_shown_and_holds_none() -> None:
    rng, shown, covered = np.random.default_rng(7), 0, 0
    for seed in range(100):
        lead = gain(table(np.zeros(SETTINGS), rng), bounds=(0.0, 1.0), seed=seed)
        shown += lead.shown
        covered += lead.low <= 0 <= lead.high
    assert shown <= 9
    assert covered >= 91


def test_gain_of_a_better_setting_is_shown() -> None:
    rng = np.random.default_rng(1)
    scores = table(np.array([-0.2, 0, 0, 0.2]), rng)
    lead = gain(scores, bounds=(0.0, 1.0), seed=0)
    assert 0 < lead.low < lead.value < lead.high
    assert lead.value == pytest.approx(max(np.mean(row) for row in scores) - np.mean(scores[0]))
    labels = [str(at // 10) for at in range(QUESTIONS)]
    assert not gain(scores, bounds=(0.0, 1.0), seed=0, groups=labels).shown  # four groups show nothing


def test_spread_is_that_of_the_true_means() -> None:
    rng, found = np.random.default_rng(3), []
    for _ in range(60):
        effects = 0.1 * rng.standard_normal(SETTINGS)
        rows = effects[:, None] + 0.4 * rng.standard_normal(QUESTIONS) + 0.3 * rng.standard_normal((9, 40))
        found.append(spread(rows.tolist()).sd ** 2)
    assert np.mean(found) == pytest.approx(0.01, rel=0.25)
    same = spread([[0.0, 1.0, 0.5] * 4] * 3)
    assert (same.sd, same.p) == (0.0, 1.0)
    rows = rng.random((4, 30)) + np.array([[0.0], [0.5], [1.0], [1.5]])
    assert spread(rows.tolist()).p < 0.001
    grouped = spread(np.repeat(rows, 5, axis=1).tolist(), [str(at // 5) for at in range(150)])
    assert grouped.p == pytest.approx(spread(rows.tolist()).p)
    assert grouped.sd == pytest.approx(spread(rows.tolist()).sd)


def test_shares_solved_by_none_and_by_all() -> None:
    scores: list[list[float]] = [[1, 1, 0, 0, 0.6], [1, 0, 0, 0, 1], [1, 1, 0, 1, 0.4]]
    shares = solved(scores, 1.0)
    assert (shares.never.mean, shares.always.mean) == (0.2, 0.2)
    assert shares.never.low < 0.2 < shares.never.high
    assert shares.unseen == 0.0  # one question by one setting and two by two say nothing of others
    lonely = np.eye(6, 12).tolist()
    assert solved(lonely, 1.0).unseen == pytest.approx(0.5)  # all that is unsolved: each solves another one


def test_noise_is_the_difference_of_two_runs() -> None:
    seen = noise([0, 1, 1, 0], [0, 1, 0, 0.5])
    assert (seen.changed, seen.size, seen.n) == (0.5, 0.375, 4)
    assert seen.of_mean(100) == pytest.approx(np.std([0, 0, -1, 0.5], ddof=1) / 10)
    same = noise([0, 1], [0, 1])
    assert (same.changed, same.of_mean(50), same.of_mean(0)) == (0, 0, 0)


def test_changes_between_settings_are_counted_in_the_direction_of_the_better_one() -> None:
    seen = changes([[1, 1, 1, 0, 0], [0, 0, 1, 1, 0]])
    assert seen is not None
    assert (seen.lost, seen.size, seen.gained(0.2)) == pytest.approx((0.2, 1, 0.4))
    assert changes([[1, 0], [1, 0]]) is None
