"""Dense search finds what is nearest, in one order, from memory and from disk."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragc.corpora.embed import Vectors
from ragc.corpora.sources.base import Source
from ragc.corpora.sources.dense import DenseSource
from ragc.errors import SourceError, UsageError
from ragc.records import Hit, Passage
from tests.examples import examples
from tests.support.embedders import HashedWords

pytest.importorskip("faiss")
WORDS = st.sampled_from(["ape", "bee", "cat", "dog"])
TEXTS = st.lists(st.lists(WORDS, max_size=3).map(" ".join), min_size=1, max_size=40)
FLAT: dict[str, Any] = {}
HNSW: dict[str, Any] = {"index": "hnsw", "m": 8, "ef_construction": 40, "ef_search": 64}
WIDTH = HashedWords.dimensions
CATS = (Passage("p1", "Cat", "cat sat mat"), Passage("p2", "Dog", "dog sat"), Passage("p3", "", "bird"))


def search(source: Source, query: str, k: int = 10) -> tuple[Hit, ...]:
    return asyncio.run(source.search(query, k))


def ids(source: Source, query: str, k: int = 10) -> list[str]:
    return [hit.passage.id for hit in search(source, query, k)]


def make_passages(n: int, seed: int = 0) -> list[Passage]:
    pick = random.Random(seed)
    return [Passage(f"p{at:04}", "", " ".join(f"w{pick.randrange(60)}" for _ in range(8))) for at in range(n)]


@settings(max_examples=examples(120), deadline=None)
@given(TEXTS, st.lists(WORDS, min_size=1, max_size=3), st.integers(1, 50), st.sampled_from(["flat", "hnsw"]))
def test_order_is_that_of_all_inner_products_with_ties_by_id(
    texts: list[str], query: list[str], k: int, kind: Any
) -> None:
    passages = [Passage(f"p{(at * 7) % 41:02}", "", text) for at, text in enumerate(texts)]
    embedder = HashedWords()
    (query_vector,) = embedder.embed([" ".join(query)]).astype(np.float64)
    rows = embedder.embed(texts).astype(np.float64)
    scores = {
        p.id: round(float((row * query_vector).sum()), 9) for p, row in zip(passages, rows, strict=True)
    }
    best = sorted(scores, key=lambda name: (-scores[name], name))[:k]
    chosen = HNSW if kind == "hnsw" else FLAT
    hits = search(DenseSource(passages, embedder, **chosen), " ".join(query), k)
    assert [hit.passage.id for hit in hits] == best
    assert [hit.score for hit in hits] == pytest.approx([scores[name] for name in best], abs=1e-8)


@pytest.mark.parametrize("chosen", [FLAT, HNSW])
def test_ties_are_broken_by_id_even_far_past_the_cut(chosen: dict[str, Any]) -> None:
    same = [Passage(f"s{at:03}", f"{at % 2}", "same words") for at in reversed(range(300))]
    source = DenseSource([*same, *make_passages(50)], HashedWords(), **chosen)
    assert ids(source, "0 same words", 3) == ["s000", "s002", "s004"]
    assert ids(source, "1 same words", 150) == [f"s{at:03}" for at in range(1, 300, 2)]


def test_equal_vectors_of_different_texts_tie_beyond_what_is_first_asked_for() -> None:
    shuffled = [Passage(f"t{at:03}", "", " ".join(["one", "two"] + [" "] * at)) for at in reversed(range(90))]
    assert ids(DenseSource(shuffled, HashedWords()), "one", 4) == ["t000", "t001", "t002", "t003"]


def test_a_graph_finds_nearly_what_comparing_all_finds_and_is_built_the_same_way() -> None:
    passages = make_passages(1500)
    flat, graph, again = (DenseSource(passages, HashedWords(), **chosen) for chosen in (FLAT, HNSW, HNSW))
    queries = [p.text for p in make_passages(30, seed=1)]
    shared = sum(len({*ids(flat, q)} & {*ids(graph, q)}) for q in queries)
    assert shared >= 0.95 * 10 * len(queries)
    assert [search(graph, q) for q in queries] == [search(again, q) for q in queries]


def test_the_kept_index_is_used_again_and_gives_the_same_hits(tmp_path: Path) -> None:
    passages = [*make_passages(40), Passage("twin", "", make_passages(1)[0].text)]
    for chosen in (FLAT, HNSW):
        first, second = HashedWords(), HashedWords()
        fresh = search(DenseSource(passages, first, **chosen, home=tmp_path), "w1 w2")
        cached = search(DenseSource(passages, second, **chosen, home=tmp_path), "w1 w2")
        assert fresh == cached
        assert len(first.inputs) == 40 + 1  # the twins once, and the query
        assert second.inputs == ["w1 w2"]


@pytest.mark.parametrize(
    "wrong",
    [np.ones((1, WIDTH)), np.ones((3, 2)), np.full((3, WIDTH), np.nan)],
)
def test_an_embedder_that_gives_garbage_is_named(wrong: Any) -> None:
    class Broken(HashedWords):
        def embed(self, texts: Sequence[str]) -> Vectors:
            return np.asarray(wrong, dtype=np.float32)

    with pytest.raises(SourceError, match="'hashed-words' gave an array of shape"):
        search(DenseSource(CATS, Broken()), "cat")


def test_prefixes_and_titles_reach_the_embedder(tmp_path: Path) -> None:
    embedder = HashedWords(query_prefix="query: ", passage_prefix="passage: ")
    search(DenseSource(CATS, embedder, home=tmp_path), "cat?")
    expected = ["passage: Cat\ncat sat mat", "passage: Dog\ndog sat", "passage: bird", "query: cat?"]
    assert embedder.inputs == expected


def test_the_fingerprint_follows_embedder_and_settings() -> None:
    sources = [
        DenseSource(CATS, HashedWords()),
        DenseSource(CATS, HashedWords(query_prefix="q")),
        DenseSource(CATS, HashedWords(), **HNSW),
        DenseSource(CATS, HashedWords(), **{**HNSW, "ef_search": 65}),
    ]
    assert len({source.fingerprint for source in sources}) == len(sources)
    assert DenseSource(CATS, HashedWords(), m=9).fingerprint == sources[0].fingerprint  # flat has no m


def test_many_first_searches_embed_the_passages_once(tmp_path: Path) -> None:
    embedder = HashedWords()
    source = DenseSource(CATS, embedder, home=tmp_path)

    async def together() -> list[tuple[Hit, ...]]:
        return await asyncio.gather(*(source.search("sat", 2) for _ in range(20)))

    results = asyncio.run(together())
    assert all(result == results[0] for result in results)
    assert len(embedder.inputs) == 3 + 20


def test_dense_source_without_faiss_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "faiss", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"needs faiss, .* pip install .ragc\[dense\]."):
        DenseSource(CATS, HashedWords())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_small_index_on_a_full_disk_is_noticed_though_faiss_only_prints_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragc.corpora.sources.dense._FILE", "/dev/full")
    with pytest.raises(SourceError, match=r"could not be written to .*No space left"):
        DenseSource(CATS, HashedWords(), home=tmp_path).build()
