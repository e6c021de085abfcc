"""Agreement of a judge with people: hand-computed figures and outside numbers."""

from __future__ import annotations

import csv

import pytest

from ragc.errors import UsageError
from ragc.metrics.stats.agreement import Agreement, JudgedAnswer, agreement
from tests.paths import SHARED_DATA

NQ301 = SHARED_DATA / "judged" / "openqa_eval"


def rows(both: int, judge_only: int, human_only: int, neither: int) -> list[JudgedAnswer]:
    cells = (
        (True, True, both),
        (False, True, judge_only),
        (True, False, human_only),
        (False, False, neither),
    )
    return [JudgedAnswer(human, judge) for human, judge, times in cells for _ in range(times)]


def test_hand_computed_figures() -> None:
    # Accuracy .7; the judge says correct 25 times, people 30: chance is .5 * .6 + .5 * .4 = .5.
    figures = agreement(rows(20, 5, 10, 15), seed=0)
    assert (figures.both, figures.judge_only, figures.human_only, figures.neither) == (20, 5, 10, 15)
    assert (figures.n, figures.unreadable) == (50, 0)
    assert figures.kappa is not None
    assert figures.precision is not None
    assert figures.recall is not None
    assert figures.accuracy.mean == pytest.approx(0.7)
    assert figures.kappa.mean == pytest.approx(0.4)
    assert figures.precision.mean == pytest.approx(20 / 25)
    assert figures.recall.mean == pytest.approx(20 / 30)
    assert (figures.kappa.n, figures.precision.n, figures.recall.n) == (50, 25, 30)
    assert figures.kappa.low == pytest.approx((figures.accuracy.low - 0.5) / 0.5)
    assert figures.kappa.high == pytest.approx((figures.accuracy.high - 0.5) / 0.5)


def test_a_judge_that_always_agrees_and_one_that_never_does() -> None:
    same, opposite = agreement(rows(10, 0, 0, 10), seed=0), agreement(rows(0, 10, 10, 0), seed=0)
    assert same.kappa is not None
    assert opposite.kappa is not None
    assert (same.kappa.mean, same.kappa.high) == (1.0, 1.0)
    assert same.kappa.low < 1.0
    assert (opposite.kappa.mean, opposite.kappa.low) == (-1.0, -1.0)
    assert opposite.kappa.high > -1.0


def test_what_cannot_be_told_is_none() -> None:
    all_correct, none_correct = agreement(rows(4, 0, 0, 0), seed=0), agreement(rows(0, 0, 0, 4), seed=0)
    assert all_correct.kappa is None
    assert none_correct.kappa is None
    assert none_correct.precision is None
    assert none_correct.recall is None
    silent = agreement(rows(0, 0, 3, 1), seed=0)
    assert silent.precision is None
    assert silent.recall is not None
    assert silent.kappa is not None
    assert (silent.recall.mean, silent.kappa.mean) == (0.0, 0.0)
    with pytest.raises(UsageError, match="no judged answers"):
        agreement([], seed=0)


def test_an_unreadable_verdict_counts_as_not_correct_and_is_counted() -> None:
    figures = agreement(
        [JudgedAnswer(True, None), JudgedAnswer(False, None), JudgedAnswer(True, True)], seed=0
    )
    assert (figures.both, figures.judge_only, figures.human_only, figures.neither) == (1, 0, 1, 1)
    assert figures.unreadable == 2


def of_nq301(name: str) -> Agreement:
    """The verdicts of a file of NQ301 against people's; what is neither yes nor no is unreadable."""

    def verdicts(file: str) -> list[bool | None]:
        with (NQ301 / file).open(encoding="utf-8", newline="") as lines:
            words = [row["Acceptable?"] for row in csv.DictReader(lines, delimiter="\t")]
        return [{"Yes": True, "No": False}.get(word) for word in words]

    pairs = zip(verdicts("NQ301_human.tsv"), verdicts(name), strict=True)
    return agreement([JudgedAnswer(bool(human), judge) for human, judge in pairs], seed=0)


@pytest.mark.skipif(not NQ301.exists(), reason="the shared data are not there")
@pytest.mark.parametrize(
    ("name", "cells", "unreadable", "expected"),
    [
        (
            "NQ301_BEM.tsv",
            (599, 72, 217, 602),
            0,
            (0.8060402684563759, 0.6157182403766694, 0.8926974664679582, 0.7340686274509803),
        ),
        (
            "NQ301_gpt-4.tsv",
            (679, 89, 137, 585),
            2,
            (0.8483221476510067, 0.6957491253939341, 0.8841145833333334, 0.8321078431372549),
        ),
    ],
)
def test_two_judges_of_nq301_agree_with_people_as_scikit_learn_says(
    name: str, cells: tuple[int, ...], unreadable: int, expected: tuple[float, ...]
) -> None:
    figures = of_nq301(name)
    assert (figures.both, figures.judge_only, figures.human_only, figures.neither) == cells
    assert (figures.n, figures.unreadable) == (1490, unreadable)
    parts = (figures.accuracy, figures.kappa, figures.precision, figures.recall)
    for part, value in zip(parts, expected, strict=True):
        assert part is not None
        assert part.mean == pytest.approx(value, abs=1e-12)
        assert part.low < value < part.high
