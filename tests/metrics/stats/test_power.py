"""What so many questions can show, against the test that will judge them."""

from __future__ import annotations

import numpy as np
import pytest

from ragc.metrics.stats.intervals import paired
from ragc.metrics.stats.power import LARGE, least_changes, small_data_note, smallest_gain


def test_so_many_must_change_as_the_sign_flip_test_needs() -> None:
    least = least_changes()
    for gained, shown in ((least - 1, False), (least, True)):
        after = [1.0] * gained + [0.0] * (20 - gained)
        assert (paired([0.0] * 20, after, seed=0).p < 0.05) is shown


@pytest.mark.parametrize("n", [8, 12, 20, 40])
def test_the_smallest_gain_is_shown_as_often_as_it_says(n: int) -> None:
    gain = smallest_gain(n)
    assert gain is not None
    rng = np.random.default_rng(n)
    shown = [
        paired([0.0] * n, (rng.random(n) < gain).astype(float).tolist(), seed=0).p < 0.05 for _ in range(400)
    ]
    assert np.mean(shown) == pytest.approx(0.8, abs=0.06)


def test_more_questions_show_smaller_gains() -> None:
    assert smallest_gain(5) is None
    gains = [smallest_gain(n) or 1.0 for n in range(6, 60)]
    assert gains == sorted(gains, reverse=True)


def test_the_note_is_for_small_data_only() -> None:
    assert small_data_note(100, 100) == ""
    assert small_data_note(4, 4).startswith(
        "4 dev and 4 test questions cannot show anything: 6 must get better"
    )
    assert "12 dev" not in small_data_note(12, 4).partition(".")[0]
    note = small_data_note(12, 100)
    assert "0.58 with 12 dev questions" in note
    assert "test" not in note
    assert (smallest_gain(12) or 0) > LARGE
    assert small_data_note(100, 0) == "Without test questions nothing is proven."
