"""Ranking metrics against hand computations."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragc.errors import UnknownName, UsageError
from ragc.metrics import Outcome, get
from ragc.records import Passage, Question

ids = st.lists(st.sampled_from("abcdefg"), max_size=10).map(tuple)
golds = st.sets(st.sampled_from("abcxyz"), min_size=1).map(sorted).map(tuple)
names = [f"{name}@{k}" for name in ("recall", "precision", "ndcg") for k in (1, 3, 10)] + ["mrr"]
metrics = st.sampled_from([*names, "sp_em", "sp_f1", "sp_precision", "sp_recall"])


def value(metric: str, retrieved: Sequence[str], gold: Sequence[str]) -> float | None:
    return get(metric).score(Outcome("", retrieved=tuple(retrieved), gold_ids=tuple(gold)))


@pytest.mark.parametrize(
    ("metric", "retrieved", "gold", "expected"),
    [
        ("recall@2", "xab", "ab", 0.5),
        ("recall@3", "xab", "ab", 1.0),
        ("recall@3", "xxxab", "ab", 1.0),
        ("recall@2", "aaab", "ab", 1.0),
        ("recall@5", "", "ab", 0.0),
        ("recall@1", "ab", "aab", 0.5),
        ("precision@2", "xab", "ab", 1 / 2),
        ("precision@3", "xab", "ab", 2 / 3),
        ("precision@5", "ab", "ab", 2 / 5),
        ("precision@2", "aab", "ab", 1.0),
        ("precision@3", "", "ab", 0.0),
        ("ndcg@3", "xab", "ab", (1 / log2(3) + 1 / log2(4)) / (1 + 1 / log2(3))),
        ("ndcg@1", "ab", "abc", 1.0),
        ("ndcg@10", "ab", "abc", (1 + 1 / log2(3)) / (1 + 1 / log2(3) + 1 / log2(4))),
        ("ndcg@3", "aab", "ab", 1.0),
        ("ndcg@3", "xyz", "ab", 0.0),
        ("mrr", "xyb", "ab", 1 / 3),
        ("mrr", "xxb", "ab", 1 / 2),
        ("mrr", "xyz", "ab", 0.0),
        ("sp_em", "aab", "ab", 1.0),
        ("sp_em", "abx", "ab", 0.0),
        ("sp_f1", "ab", "ba", 1.0),
        ("sp_f1", "abx", "ab", 2 * (2 / 3) / (2 / 3 + 1)),
        ("sp_f1", "", "ab", 0.0),
        ("sp_precision", "abx", "ab", 2 / 3),
        ("sp_precision", "", "ab", 0.0),
        ("sp_recall", "a", "abc", 1 / 3),
        ("sp_recall", "abx", "ab", 1.0),
    ],
)
def test_hand_computed_scores(metric: str, retrieved: str, gold: str, expected: float) -> None:
    assert value(metric, retrieved, gold) == pytest.approx(expected)


@pytest.mark.parametrize("k", [1_000_000, 10**25])
def test_a_cut_may_lie_behind_the_last_passage(k: int) -> None:
    assert value(f"recall@{k}", "xab", "ab") == 1.0
    assert value(f"precision@{k}", "ab", "ab") == pytest.approx(2 / k, abs=1e-12)


@given(metrics, ids, golds)
def test_repeated_passages_change_nothing(
    metric: str, retrieved: tuple[str, ...], gold: tuple[str, ...]
) -> None:
    twice = tuple(id for id in retrieved for _ in range(2))
    scores = [get(metric).score(Outcome(None, retrieved=r, gold_ids=gold)) for r in (retrieved, twice)]
    assert scores[0] == scores[1]


def test_chunks_count_as_the_passage_they_were_cut_from() -> None:
    question = Question("q", "?", ("x",), gold_ids=("p",))
    chunks = [Passage("o#1", "", "", start=90), Passage("p#0", "", ""), Passage("p#2", "", "", start=180)]
    outcome = Outcome.of(question, "x", chunks)
    assert outcome.retrieved == ("o", "p", "p")
    assert get("mrr").score(outcome) == 0.5


def test_the_number_after_the_at_sign_is_the_cut() -> None:
    assert get("recall@5").id == "recall@5"
    assert "first 5" in get("ndcg@5").about
    with pytest.raises(UsageError, match="recall@5"):
        get("recall@k").score(Outcome("", gold_ids=("a",)))


@pytest.mark.parametrize(
    "wrong", ["recall@0", "recall@05", "recall@", "recall@-1", "recall@1.5", "ndcg@²", "recal@5", "mrr@5"]
)
def test_wrong_cuts_are_unknown_names(wrong: str) -> None:
    with pytest.raises(UnknownName):
        get(wrong)
