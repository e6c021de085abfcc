"""Scores of the set of passages: hand computations, and what order, repeats and more passages do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragc.metrics.base import Metric, Outcome
from ragc.metrics.retrieval import SUPPORTING

BY_ID = {metric.id: metric for metric in SUPPORTING}

ids = st.lists(st.sampled_from("abcdefg"), max_size=8).map(tuple)
golds = st.sets(st.sampled_from("abcxyz"), min_size=1).map(sorted).map(tuple)


def value(id: str, retrieved: str | tuple[str, ...], gold: str | tuple[str, ...]) -> float | None:
    return BY_ID[id].score(Outcome(None, retrieved=tuple(retrieved), gold_ids=tuple(gold)))


@pytest.mark.parametrize(
    ("retrieved", "gold", "em", "f1", "precision", "recall"),
    [
        ("ab", "ba", 1.0, 1.0, 1.0, 1.0),
        ("aab", "ab", 1.0, 1.0, 1.0, 1.0),
        ("abx", "ab", 0.0, 2 * (2 / 3) / (2 / 3 + 1), 2 / 3, 1.0),
        ("a", "abc", 0.0, 0.5, 1.0, 1 / 3),
        ("xy", "ab", 0.0, 0.0, 0.0, 0.0),
        ("", "ab", 0.0, 0.0, 0.0, 0.0),
    ],
)
def test_hand_computed_scores(
    retrieved: str, gold: str, em: float, f1: float, precision: float, recall: float
) -> None:
    scores = [value(id, retrieved, gold) for id in ("sp_em", "sp_f1", "sp_precision", "sp_recall")]
    assert scores == pytest.approx([em, f1, precision, recall])


@given(st.sampled_from(SUPPORTING), ids, golds)
def test_scores_lie_between_0_and_1_and_order_and_repeats_change_nothing(
    metric: Metric, retrieved: tuple[str, ...], gold: tuple[str, ...]
) -> None:
    score = value(metric.id, retrieved, gold)
    assert score is not None
    assert 0.0 <= score <= 1.0
    assert value(metric.id, tuple(sorted(retrieved, reverse=True)) + retrieved, gold[::-1]) == score


@given(ids, golds)
def test_f1_is_1_exactly_when_nothing_is_missing_or_wrong(
    retrieved: tuple[str, ...], gold: tuple[str, ...]
) -> None:
    em, f1 = value("sp_em", retrieved, gold), value("sp_f1", retrieved, gold)
    assert (em == 1.0) == (f1 == 1.0) == (set(retrieved) == set(gold))


@given(ids, st.sampled_from("abcdefg"), golds)
def test_one_more_passage_never_lowers_recall(
    retrieved: tuple[str, ...], another: str, gold: tuple[str, ...]
) -> None:
    before, after = value("sp_recall", retrieved, gold), value("sp_recall", (*retrieved, another), gold)
    assert before is not None
    assert after is not None
    assert after >= before
