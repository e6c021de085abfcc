"""A reranked source gives the best of the pool, in the reranker's order, and is otherwise the inner one."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragc.corpora.embed import Vectors
from ragc.corpora.models import Bm25Reranker, EmbedReranker
from ragc.corpora.rerank import RerankedSource, Reranker, make
from ragc.corpora.sources.base import Source
from ragc.corpora.sources.bm25 import Bm25Source
from ragc.errors import SourceError, UsageError
from ragc.records import Hit, Passage
from tests.support.embedders import HashedWords

LENGTHS = st.lists(st.integers(1, 6), min_size=1, max_size=20)


class Longest:
    """Scores a passage by the length of its text; keeps what it was asked."""

    name = "longest"
    fingerprint = "longest"

    def __init__(self, sign: float = 1.0) -> None:
        self.sign = sign
        self.batches: list[list[str]] = []

    async def scores(self, query: str, passages: Sequence[Passage]) -> Sequence[float]:
        self.batches.append([passage.id for passage in passages])
        return [self.sign * len(passage.text) for passage in passages]


def corpus(lengths: Sequence[int]) -> list[Passage]:
    """Passages that all hold the word `x`, of so many words."""
    return [Passage(f"p{at:02}", "", " ".join(["x"] * n)) for at, n in enumerate(lengths)]


def search(source: Source, query: str, k: int) -> tuple[Hit, ...]:
    return asyncio.run(source.search(query, k))


def ids(hits: Sequence[Hit]) -> list[str]:
    return [hit.passage.id for hit in hits]


@given(LENGTHS, st.integers(1, 25), st.integers(1, 25), st.sampled_from([1.0, -1.0, 0.0]))
def test_the_best_of_the_pool_in_the_order_of_scores(
    lengths: list[int], pool: int, k: int, sign: float
) -> None:
    inner = Bm25Source(corpus(lengths))
    source = RerankedSource(inner, Longest(sign), pool=pool)
    hits = search(source, "x", k)
    looked_at = search(inner, "x", max(k, pool))
    expected = sorted(looked_at, key=lambda hit: (-sign * len(hit.passage.text), hit.passage.id))
    assert ids(hits) == ids(expected)[:k]
    assert [hit.score for hit in hits] == [sign * len(hit.passage.text) for hit in hits]
    assert search(source, "x", k) == hits


def test_no_more_than_the_pool_is_scored_and_nothing_without_hits() -> None:
    reranker = Longest(-1.0)
    source = RerankedSource(Bm25Source(corpus([3, 1, 2])), reranker, pool=2)
    assert ids(search(source, "x", 1)) == ["p02"]
    assert reranker.batches == [["p00", "p02"]]
    assert search(source, "x", 0) == search(source, "x", -1) == search(source, "unheard", 3) == ()
    assert len(reranker.batches) == 1
    assert len(search(source, "x", 3)) == 3


def test_hits_keep_the_label_of_the_inner_source() -> None:
    class Labelled(Bm25Source):
        async def search(self, query: str, k: int) -> tuple[Hit, ...]:
            return tuple(hit.from_source("web") for hit in await super().search(query, k))

    hits = search(RerankedSource(Labelled(corpus([3, 1, 2])), Longest()), "x", 3)
    assert {hit.source for hit in hits} == {"web"}


def test_the_source_shows_through() -> None:
    plain = Bm25Source(corpus(range(1, 9)))
    source = RerankedSource(plain, Longest(), pool=7)
    assert source.kind == "bm25"
    cut = source.rechunk(4, 0.0)
    assert cut.fingerprint == RerankedSource(plain.rechunk(4, 0.0), Longest(), pool=7).fingerprint
    assert (cut.pool, cut.kind) == (7, "bm25")
    different: list[Source] = [
        plain, source, cut, RerankedSource(plain, Longest()), RerankedSource(plain, Bm25Reranker(), pool=7),
    ]  # fmt: skip
    assert len({each.fingerprint for each in different}) == len(different)


@pytest.mark.parametrize("pool", [0, -3])
def test_an_empty_pool_is_refused(pool: int) -> None:
    with pytest.raises(UsageError, match=f"at least 1 hit, got {pool}"):
        RerankedSource(Bm25Source(corpus([1])), Longest(), pool=pool)


@pytest.mark.parametrize("given_scores", [[1.0], [1.0, math.nan], [1.0, math.inf], [1.0, 2.0, 3.0]])
def test_scores_that_do_not_fit_the_passages_end_the_search(given_scores: list[float]) -> None:
    class Wrong(Longest):
        async def scores(self, query: str, passages: Sequence[Passage]) -> Sequence[float]:
            return given_scores

    source = RerankedSource(Bm25Source(corpus([1, 2])), Wrong())
    with pytest.raises(SourceError, match=r"'longest' gave \d scores for 2 passages"):
        search(source, "x", 1)


ANIMALS = [
    Passage("a", "", "bear"),
    Passage("b", "Cat", "acts"),
    Passage("c", "", "zzz"),
    Passage("d", "", "act"),
]


def compute_scores(reranker: Reranker, query: str, passages: Sequence[Passage] = ANIMALS) -> list[float]:
    return list(asyncio.run(reranker.scores(query, passages)))


def test_a_bi_encoder_scores_by_cosine_with_the_prefixes_of_the_model() -> None:
    embedder = HashedWords(query_prefix="q ", passage_prefix="p ")
    scores = compute_scores(EmbedReranker(embedder), "cat")
    assert embedder.inputs == ["q cat", "p bear", "p Cat\nacts", "p zzz", "p act"]
    vectors = HashedWords().embed(embedder.inputs)
    assert scores == pytest.approx((vectors[1:] @ vectors[0]).tolist(), abs=1e-6)
    assert compute_scores(EmbedReranker(embedder), "cat", []) == []


def test_a_bi_encoder_is_told_apart_by_its_embedder_and_refuses_bad_vectors() -> None:
    class Broken(HashedWords):
        def embed(self, texts: Sequence[str]) -> Vectors:
            return super().embed(texts)[:-1]

    plain, prefixed = EmbedReranker(HashedWords()), EmbedReranker(HashedWords(query_prefix="q "))
    assert plain.fingerprint == EmbedReranker(HashedWords()).fingerprint != prefixed.fingerprint
    with pytest.raises(SourceError, match=r"'hashed-words' gave an array of shape \(4, 16\) for 5 texts"):
        compute_scores(EmbedReranker(Broken()), "cat")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        *((name, "No reranker is named") for name in ("bm52", "bm25:x", "", "listwise")),
        *((name, "no default cross-encoder; name a folder") for name in ("cross", "cross:")),
        *((name, "is no folder of a model; name one with") for name in ("cross:./none", "cross:.")),
    ],
)
def test_a_name_without_a_reranker_says_what_to_name(
    name: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=says):
        make(name)
