"""BM25 scores are Lucene's, their order is total, samples are seeded."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from threading import get_ident
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragc.corpora.sources.base import Source
from ragc.corpora.sources.bm25 import Bm25Source, bm25_scores
from ragc.corpora.sources.terms import MAX_CHARACTERS, query_terms
from ragc.errors import UsageError
from ragc.records import Hit, Passage
from tests.examples import examples

CATS = (Passage("p1", "Cat", "cat sat mat"), Passage("p2", "Dog", "dog sat"), Passage("p3", "", "bird"))
WORDS = st.sampled_from(["ape", "bee", "cat", "dog", "elk", "the", "of"])
CORPORA = st.lists(st.lists(WORDS, max_size=12), min_size=1, max_size=14)


def search(source: Source, query: str, k: int = 10) -> tuple[Hit, ...]:
    return asyncio.run(source.search(query, k))


def brute(texts: list[list[str]], query: list[str], k1: float, b: float) -> dict[int, float]:
    """The formula in the module's docstring, word for word."""
    n, mean = len(texts), sum(map(len, texts)) / len(texts)
    scores: dict[int, float] = {}
    for at, text in enumerate(texts):
        for term in query:
            df, tf = sum(term in other for other in texts), Counter(text)[term]
            if tf:
                idf = math.log(1 + (n - df + 0.5) / (df + 0.5))
                part = idf * tf / (tf + k1 * (1 - b + b * len(text) / mean))
                scores[at] = scores.get(at, 0.0) + part
    return scores


@settings(max_examples=examples(150), deadline=None)
@given(
    CORPORA,
    st.lists(WORDS, max_size=5),
    st.integers(1, 20),
    st.sampled_from([(0.9, 0.4), (1.2, 0.75), (0, 0)]),
)
def test_order_and_scores_are_those_of_the_formula(
    texts: list[list[str]], query: list[str], k: int, setting: tuple[float, float]
) -> None:
    k1, b = setting
    passages = [Passage(f"p{(at * 7) % 15:02}", "", " ".join(text)) for at, text in enumerate(texts)]
    terms = query_terms(" ".join(query))
    scores = brute(texts, terms, k1, b)
    ranked = sorted(scores, key=lambda at: (-round(scores[at], 9), passages[at].id))[:k]
    hits = search(Bm25Source(passages, k1=k1, b=b), " ".join(query), k)
    assert [hit.passage.id for hit in hits] == [passages[at].id for at in ranked]
    assert [hit.score for hit in hits] == pytest.approx([scores[at] for at in ranked], abs=1e-8)
    alone = bm25_scores(terms, texts, k1, b)
    assert alone == pytest.approx([scores.get(at, 0.0) for at in range(len(texts))], abs=1e-8)


def test_passages_of_equal_scores_come_by_id_far_past_the_cut() -> None:
    same = [Passage(f"s{at:05}", "", "same words") for at in reversed(range(9000))]
    assert [hit.passage.id for hit in search(Bm25Source(same), "same", 3)] == ["s00000", "s00001", "s00002"]


@pytest.mark.parametrize(
    ("option", "value"),
    [("k1", -1.0), ("b", 1.1), ("k1", math.nan), ("k1", math.inf), ("title_boost", 0), ("chunk_sise", 9)],
)
def test_an_option_that_cannot_work_is_refused(option: str, value: Any) -> None:
    with pytest.raises(UsageError, match=option):
        Bm25Source(CATS, **{option: value})


def test_a_title_may_count_more_than_once() -> None:
    passages = [Passage("a", "Dog", "cat cat bird"), Passage("b", "", "dog dog cat bird tree")]
    assert [hit.passage.id for hit in search(Bm25Source(passages), "dog")] == ["b", "a"]
    boosted = Bm25Source(passages, title_boost=3)
    assert [hit.passage.id for hit in search(boosted, "dog")] == ["a", "b"]
    assert [hit.passage.id for hit in search(boosted.rechunk(50, 0.0), "dog")] == ["a", "b"]
    sources = [boosted, Bm25Source(passages), Bm25Source(passages, k1=1.2), Bm25Source(passages, b=0.75)]
    assert len({source.fingerprint for source in sources}) == 4


def test_only_the_beginning_of_a_very_long_query_is_searched() -> None:
    query = "dog " + "unheard " * MAX_CHARACTERS + "cat"
    assert [hit.passage.id for hit in search(Bm25Source(CATS), query)] == ["p2"]


def test_a_search_leaves_the_event_loop_free(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = set[int]()

    def terms(query: str) -> list[str]:
        threads.add(get_ident())
        return query_terms(query)

    monkeypatch.setattr("ragc.corpora.sources.bm25.query_terms", terms)
    assert search(Bm25Source(CATS), "cat")
    assert threads
    assert get_ident() not in threads
