"""What so many questions can show, against the test that will judge them."""

from __future__ import annotations

import numpy as np
import pytest

from ragc.metrics.stats.power import (
    ASSUMED_CHANGES,
    LARGE_GAIN,
    Changes,
    least_changes,
    power,
    questions_needed,
    small_data_note,
    smallest_gain,
)
from ragc.metrics.stats.resample import paired as compared
from ragc.metrics.stats.resample import sign_flip
from tests.examples import thorough

RUNS = 400
SLACK = 0.065
"""More than three standard errors of a share of 0.8 in 400 runs."""


def share_shown(differences: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> float:
    """The share of rows, the paired differences of one study each, whose verdict is "better"."""
    rows, counts = np.unique(np.sort(differences, axis=1), axis=0, return_counts=True)
    shown = [sign_flip(row, seed=0) < 0.05 and row.sum() > 0 for row in rows]
    return float(np.average(shown, weights=counts))


def drawn(
    n: int, gain: float, changes: Changes, seed: int
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    rng = np.random.default_rng(seed)
    gained, lost = changes.gained(gain), changes.lost
    shares = [max(0.0, 1 - gained - lost), gained, lost]
    return rng.choice([0.0, changes.size, -changes.size], (RUNS, n), p=np.array(shares) / sum(shares))


def test_so_many_must_change_as_the_sign_flip_test_needs() -> None:
    for gained in range(least_changes() + 1):
        after = [1.0] * gained + [0.0] * (20 - gained)
        assert (compared([0.0] * 20, after, seed=0).p < 0.05) is (gained == least_changes())


@thorough
@pytest.mark.parametrize("n", [20, 50, 100, 200, 500])
def test_the_smallest_gain_is_shown_as_often_as_the_note_says(n: int) -> None:
    gain = smallest_gain(n) or 1.0
    assert share_shown(drawn(n, gain, ASSUMED_CHANGES, n)) == pytest.approx(0.8, abs=SLACK)


def test_more_questions_show_smaller_gains_and_a_smaller_gain_needs_more() -> None:
    assert smallest_gain(5) is None
    gains = [smallest_gain(n) or 1.0 for n in range(12, 200, 20)]
    assert gains == sorted(gains, reverse=True)
    needed = [questions_needed(gain) or 0 for gain in (0.3, 0.2, 0.1, 0.05)]
    assert needed == sorted(needed)
    assert power(needed[2], 0.1) >= 0.8 > power(needed[2] // 2, 0.1)


def test_what_cannot_be_shown_needs_no_number() -> None:
    assert questions_needed(0.0) is None
    assert questions_needed(0.9) is None
    assert questions_needed(1e-5) is None
    assert power(0, 0.5) == 0


def test_the_note_is_for_small_data_only() -> None:
    assert small_data_note(100, 100) == ""
    assert small_data_note(4, 4).startswith(
        "4 dev and 4 test questions cannot show anything: 6 must get better"
    )
    assert "If one question in ten gets worse, 8 dev questions show no gain" in small_data_note(8, 100)
    note = small_data_note(12, 100)
    assert "if one question in ten gets worse: 0.76 with 12 dev questions" in note
    assert "test" not in note
    assert (smallest_gain(12) or 0) > LARGE_GAIN
    assert small_data_note(100, 0) == "Without test questions nothing is proven."
