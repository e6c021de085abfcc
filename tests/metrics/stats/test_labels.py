"""What labels of people say of a judge: a corrected difference, kappa, and the area under the ROC curve."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from scipy import stats

from ragc.errors import UsageError
from ragc.metrics.stats.labels import correct, kappa, separation
from tests.metrics.judged_world import World
from tests.paths import SHARED_DATA

NQ301 = SHARED_DATA / "judged" / "openqa_eval"

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


def test_labels_of_every_answer_are_the_difference_of_the_labels() -> None:
    rng = np.random.default_rng(2)
    a, b, truth_a, truth_b = rng.integers(0, 2, (4, 40)).astype(float)
    result = correct(a.tolist(), b.tolist(), dict(enumerate(truth_a)), dict(enumerate(truth_b)))
    assert result.diff == pytest.approx(float((truth_b - truth_a).mean()))


def test_a_judge_that_never_errs_on_labels_has_one_error_counted() -> None:
    scores = [float(n % 2) for n in range(60)]
    held = dict(enumerate(scores[:30]))
    result = correct(scores, scores, held, held)
    assert (result.diff, result.p) == (0, 1)
    assert result.low < -0.05 < 0.05 < result.high


def test_questions_of_one_group_count_together() -> None:
    rng = np.random.default_rng(3)
    a = np.repeat(rng.integers(0, 2, 30), 5).astype(float)
    b = np.repeat(rng.integers(0, 2, 30), 5).astype(float)
    held = {n: float(a[n]) for n in range(150)}, {n: float(b[n]) for n in range(150)}
    alone = correct(a.tolist(), b.tolist(), *held)
    grouped = correct(a.tolist(), b.tolist(), *held, groups=[f"g{n // 5}" for n in range(150)])
    assert grouped.diff == pytest.approx(alone.diff)
    assert grouped.high - grouped.low > 1.5 * (alone.high - alone.low)


def verdicts(both: int, judge_only: int, human_only: int, neither: int) -> tuple[list[bool], list[bool]]:
    """What people said, and what the judge said."""
    human = [True] * both + [False] * judge_only + [True] * human_only + [False] * neither
    return human, [True] * (both + judge_only) + [False] * (human_only + neither)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        # Accuracy .7; the judge says correct 25 times, people 30: chance is .5 * .6 + .5 * .4 = .5.
        ((20, 5, 10, 15), 0.4),
        ((10, 0, 0, 10), 1.0),
        ((0, 10, 10, 0), -1.0),
        ((0, 0, 3, 1), 0.0),
    ],
)
def test_kappa_by_hand(counts: tuple[int, int, int, int], expected: float) -> None:
    result = kappa(*verdicts(*counts), seed=0)
    assert result
    assert result.mean == pytest.approx(expected)
    assert result.n == sum(counts)
    assert -1 <= result.low <= result.mean <= result.high <= 1
    assert result.low < result.high


def test_kappa_is_none_where_chance_alone_explains_the_agreement() -> None:
    assert kappa(*verdicts(4, 0, 0, 0), seed=0) is None
    assert kappa(*verdicts(0, 0, 0, 4), seed=0) is None
    with pytest.raises(UsageError, match="no scores"):
        kappa([], [], seed=0)


@pytest.mark.skipif(not NQ301.exists(), reason="the shared data are not there")
@pytest.mark.parametrize(
    ("name", "expected"), [("NQ301_BEM.tsv", 0.6157182403766694), ("NQ301_gpt-4.tsv", 0.6957491253939341)]
)
def test_kappa_of_two_judges_of_nq301_is_that_of_scikit_learn(name: str, expected: float) -> None:
    def read(file: str) -> list[bool]:
        with (NQ301 / file).open(encoding="utf-8", newline="") as lines:
            return [row["Acceptable?"] == "Yes" for row in csv.DictReader(lines, delimiter="\t")]

    result = kappa(read("NQ301_human.tsv"), read(name), seed=0)
    assert result is not None
    assert result.mean == pytest.approx(expected, abs=1e-12)
    assert result.low < expected < result.high


def test_an_area_is_the_share_of_pairs_in_order_with_ties_counting_half() -> None:
    rng = np.random.default_rng(3)
    scores, kinds = rng.integers(0, 7, 80) / 7, rng.random(80) < 0.4
    expected = stats.mannwhitneyu(scores[kinds], scores[~kinds]).statistic / (kinds.sum() * (~kinds).sum())
    assert separation(scores.tolist(), kinds.tolist(), seed=0).mean == pytest.approx(expected)


def test_an_interval_of_an_area_has_a_width_where_all_pairs_are_in_order() -> None:
    perfect = separation([0.9, 0.8, 0.2, 0.1], [True, True, False, False], seed=0)
    assert 0.1 < perfect.low < 0.9 < perfect.mean == perfect.high == 1.0
    few = separation([1.0, 0.0] * 5, [True, False, True, True, False] * 2, seed=0)
    many = separation([1.0, 0.0] * 50, [True, False, True, True, False] * 20, seed=0)
    assert few.low < many.low < many.mean == few.mean < many.high < few.high
