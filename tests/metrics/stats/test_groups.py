"""Questions in groups: what independent ones give stays, and groups count whole."""

from __future__ import annotations

import numpy as np
import pytest

from ragc.metrics.stats.power import small_data_note
from ragc.metrics.stats.resample import (
    Contrast,
    adjust_family,
    mean_ci,
    paired,
    pooled_ci,
    pooled_paired,
    power_note,
    verdict,
)
from tests.examples import thorough
from tests.metrics.stats.test_resample import harmonic


def clustered(
    groups: int, size: int, sd: float, rate: float, rng: np.random.Generator
) -> tuple[list[float], list[str]]:
    """Scores of 0 and 1 whose rates differ between groups on the logit scale, and their labels."""
    at = np.log(rate / (1 - rate)) * (1 + 0.35 * sd**2 / 4) ** 0.5
    chances = np.repeat(1 / (1 + np.exp(-(at + sd * rng.standard_normal(groups)))), size)
    labels = [str(group) for group in range(groups) for _ in range(size)]
    return (rng.random(groups * size) < chances).astype(float).tolist(), labels


def test_questions_that_are_alike_count_about_once_a_group() -> None:
    labels = [str(group) for group in range(20) for _ in range(5)]
    alike = [float(int(label) % 2) for label in labels]
    once = mean_ci(alike[::5], seed=0)
    five = mean_ci(alike, seed=0, groups=labels)
    assert five.high - five.low > 0.95 * (once.high - once.low)
    assert five.high - five.low > 2 * (mean_ci(alike, seed=0).high - mean_ci(alike, seed=0).low)


def test_a_group_swaps_sides_whole() -> None:
    before, after = [0.0] * 30, [1.0] * 30
    labels = [str(at // 5) for at in range(30)]
    assert paired(before, after, seed=0).p <= 1e-4
    result = paired(before, after, seed=0, groups=labels)
    assert result.p == 2 / 2**6
    assert verdict(result) == "better"
    one_less = paired(before[:25], after[:25], seed=0, groups=labels[:25])
    assert one_less.p == 2 / 2**5
    assert verdict(one_less) == "cannot tell"
    assert "25 questions in 5 groups cannot show a difference" in power_note(one_less)
    ids = [str(at) for at in range(30)]
    contrast = Contrast(dict.fromkeys(ids, 0.0), dict.fromkeys(ids, 1.0))
    (one,) = adjust_family([contrast], seed=0, groups=dict(zip(ids, labels, strict=True)))
    assert one
    assert (one.result.p, one.to_json()["groups"]) == (2 / 2**6, 6)


def test_a_figure_of_several_means_takes_groups_whole() -> None:
    scores, labels = clustered(12, 5, 2.0, 0.5, np.random.default_rng(4))
    columns = [list[float | None](scores), list[float | None](scores)]
    plain, grouped = (pooled_ci(columns, harmonic, seed=0, groups=one) for one in (None, labels))
    assert grouped.high - grouped.low > 1.3 * (plain.high - plain.low)
    mean = mean_ci(scores, seed=0, groups=labels)
    assert (grouped.low, grouped.high) == pytest.approx((mean.low, mean.high), abs=0.02)
    gap = pooled_paired(columns, [[1.0] * 60, [1.0] * 60], harmonic, seed=0, groups=labels)
    assert gap.p == paired(scores, [1.0] * 60, seed=0, groups=labels).p
    assert gap.groups == 12


def test_small_data_notes_count_groups() -> None:
    assert small_data_note([1] * 100, [1] * 100) == small_data_note(100, 100) == ""
    note = small_data_note([20] * 5, [1] * 100)
    assert "100 dev (5 groups) questions cannot show anything" in note
    assert "with 60 test questions (12 groups)" in small_data_note(100, [5] * 12)


@thorough
def test_intervals_of_groups_cover_and_claims_are_rare() -> None:
    """A sample of `experiments/benchmarks/scoring/groups.py`: 12 groups of 5, and 25 runs of each kind."""
    covered, claimed, naive = 0, 0, 0
    for sd, rate in ((0.0, 0.5), (1.0, 0.5), (2.0, 0.5), (2.0, 0.9)):
        true = float(np.mean(clustered(40_000, 1, sd, rate, np.random.default_rng(9))[0]))
        for seed in range(25):
            rng = np.random.default_rng([seed, int(10 * sd), int(10 * rate)])
            a, labels = clustered(12, 5, sd, rate, rng)
            b, _ = clustered(12, 5, sd, rate, rng)
            interval, plain = mean_ci(a, seed=0, groups=labels), mean_ci(a, seed=0)
            covered += interval.low <= true <= interval.high
            naive += plain.low <= true <= plain.high
            claimed += verdict(paired(a, b, seed=0, groups=labels)) == "better"
    assert covered >= 90 > naive
    assert claimed <= 5
