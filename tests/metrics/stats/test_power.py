"""What so many questions can show, against the test that will judge them."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest

from ragc.metrics.stats.intervals import paired as compared
from ragc.metrics.stats.intervals import verdict
from ragc.metrics.stats.power import (
    ASSUMED_CHANGES,
    LARGE_GAIN,
    Changes,
    changes_of,
    least_changes,
    power,
    questions_needed,
    small_data_note,
    smallest_gain,
)
from ragc.metrics.stats.resampling import sign_flip
from tests.examples import thorough

RUNS = 400
SLACK = 0.065
"""More than three standard errors of a share of 0.8 in 400 runs."""


def share_shown(differences: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> float:
    """The share of rows, the paired differences of one study each, whose verdict is "better".

    The p-value of ragc's own test decides; equal rows up to order, which have the same p, are tested once.
    """
    known: dict[bytes, bool] = {}
    shown = 0
    for row in np.sort(differences, axis=1):
        if (key := row.tobytes()) not in known:
            known[key] = bool(sign_flip(row, seed=0) < 0.05 and row.sum() > 0)
        shown += known[key]
    return float(shown / len(differences))


def drawn(
    n: int, gain: float, changes: Changes, seed: int
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    rng = np.random.default_rng(seed)
    gained, lost = changes.gained(gain), changes.lost
    shares = [max(0.0, 1 - gained - lost), gained, lost]
    return rng.choice([0.0, changes.size, -changes.size], (RUNS, n), p=np.array(shares) / sum(shares))


def test_so_many_must_change_as_the_sign_flip_test_needs() -> None:
    least = least_changes()
    for gained, shown in ((least - 1, False), (least, True)):
        after = [1.0] * gained + [0.0] * (20 - gained)
        assert (compared([0.0] * 20, after, seed=0).p < 0.05) is shown


@thorough
@pytest.mark.parametrize("n", [20, 50, 100, 200, 500])
def test_the_smallest_gain_is_shown_as_often_as_the_note_says(n: int) -> None:
    gain = smallest_gain(n)
    assert gain is not None
    assert share_shown(drawn(n, gain, ASSUMED_CHANGES, n)) == pytest.approx(0.8, abs=SLACK)


def test_ten_questions_show_no_gain_that_often() -> None:
    assert smallest_gain(10) is None
    shown = share_shown(drawn(10, ASSUMED_CHANGES.most, ASSUMED_CHANGES, 10))
    assert shown < 0.8
    assert shown == pytest.approx(power(10, ASSUMED_CHANGES.most), abs=SLACK)


def test_power_is_that_of_the_verdict_itself() -> None:
    rng = np.random.default_rng(4)
    before = rng.integers(0, 2, (60, 20)).astype(float)
    shift_by = rng.choice([0, 1, -1], before.shape, p=[0.4, 0.5, 0.1])
    after = np.clip(before + shift_by, 0, 1)
    for first, second in zip(before.tolist(), after.tolist(), strict=True):
        better = verdict(compared(first, second, seed=0)) == "better"
        line = np.array(second) - np.array(first)
        assert better is (share_shown(line[None, :]) == 1)


def test_the_best_case_that_the_note_once_took_is_far_from_the_truth() -> None:
    best_case = smallest_gain(20, Changes(0.0))
    assert best_case is not None
    exact = 1 - sum(comb(20, i) * best_case**i * (1 - best_case) ** (20 - i) for i in range(least_changes()))
    assert exact == pytest.approx(0.8, abs=1e-6)
    assert share_shown(drawn(20, best_case, Changes(0.2), 3)) < 0.6
    assert (smallest_gain(20) or 0) > best_case + 0.05


@pytest.mark.parametrize("n", [30, 100])
@thorough
def test_scores_of_several_sizes_have_the_power_of_their_one_size(n: int) -> None:
    rng = np.random.default_rng(n)
    sizes = np.array([0.2, 0.4, 0.667, 1.0])
    plain = rng.choice([0, 1, -1], (400, 400), p=[0.6, 0.25, 0.15]) * rng.choice(sizes, (400, 400))
    changes = changes_of(plain.tolist())
    assert changes is not None
    gain = smallest_gain(n, changes)
    assert gain is not None
    shift = gain / sizes.mean()
    lost = changes.lost * changes.size / sizes.mean()
    signs = rng.choice([0, 1, -1], (RUNS, n), p=[1 - shift - 2 * lost, shift + lost, lost])
    shown = share_shown(signs * rng.choice(sizes, (RUNS, n)))
    assert shown == pytest.approx(0.8, abs=SLACK)


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
    assert changes_of([[0.0, 0.0]]) is None


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
