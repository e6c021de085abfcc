"""The web pages of RAG-X: broad, focused and refined, with noise."""

from __future__ import annotations

from typing import Any

import pytest

from ragc.corpora.chunking.chunk import chunk_passage
from ragc.corpora.models import Bm25Reranker
from ragc.corpora.rerank import RerankedSource
from ragc.corpora.sources.bm25 import Bm25Source, GivenSource
from ragc.records import Passage
from ragc.testing import ListSource, ScriptedTarget
from tests.programs.ragx.common import (
    QUESTION,
    build_program,
    by_field,
    list_requests,
    notes,
    passages,
)


class Drawing(ListSource):
    """A source whose sample depends on the seed, and which keeps the seeds."""

    def __init__(self, passages: list[Passage]) -> None:
        super().__init__(passages)
        self.seeds: list[str] = []

    def sample(self, n: int, *, seed: str, exclude: frozenset[str] = frozenset()) -> tuple[Passage, ...]:
        self.seeds.append(seed)
        return super().sample(n, seed=seed, exclude=exclude)


def test_noise_is_drawn_and_placed_by_its_seed_and_named_in_the_trace() -> None:
    def order(seed: int) -> tuple[list[str], list[str], Any]:
        source = Drawing(passages(9))
        knobs = {"noise_n": 3, "noise_pos": "random", "noise_seed": seed}
        prediction = build_program(ScriptedTarget(by_field()), {"web": source}, **knobs)(question=QUESTION)
        return [p.id for p in prediction.passages], source.seeds, prediction

    places, seeds, prediction = order(1)
    assert (places, seeds) == order(1)[:2]
    others = [order(seed) for seed in range(2, 7)]
    assert len({tuple(places) for places, _, _ in others}) > 1
    assert all(drawn != seeds for _, drawn, _ in others)
    assert ("noise", "w6, w7, w8") in notes(prediction)


def reranked(pages: list[Passage]) -> RerankedSource:
    return RerankedSource(GivenSource(pages), Bm25Reranker())


@pytest.mark.parametrize("kind", [Bm25Source, GivenSource, reranked])
def test_noise_comes_from_the_questions_own_pages_and_is_not_shown_twice(kind: Any) -> None:
    pages = [Passage(f"p{i}", "", f"Adele sang. {'Hello there. ' * 200}") for i in range(12)]
    drawn = set()
    for at in range(6):
        own = (f"p{2 * at}", f"p{2 * at + 1}")
        knobs = {"noise_n": 8, "top_k": 1, "chunk_size": 50, "query_pos": "after"}
        target = ScriptedTarget(by_field())
        program = build_program(target, {"web": kind(pages)}, source_policy="web", **knobs)
        prediction = program(question=f"{QUESTION} {at}", context_ids=own)
        shown = [p.id for p in prediction.passages]
        assert len(shown) == len(set(shown)) == 9
        assert {p.parent for p in prediction.passages[1:]} <= set(own)
        drawn |= {p.start for p in prediction.passages[1:]}
        assert [p.id for p in program(question=f"{QUESTION} {at}", context_ids=own).passages] == shown
    assert len(drawn) > 8


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.0, ["w0", "w1", "w2", "w3"]), (0.5, ["d0", "d1", "w0", "w1"]), (1.0, ["d0", "d1", "d2", "d3"])],
)
def test_dense_share_divides_the_passages_between_the_views(share: float, expected: list[str]) -> None:
    sources = {"web": ListSource(passages(9)), "dense": ListSource(passages(9, "d"))}
    prediction = build_program(ScriptedTarget(by_field()), sources, top_k=4, dense_share=share)(
        question=QUESTION
    )
    assert [p.id for p in prediction.passages] == expected
    assert prediction.counters["searches"] == len({id[0] for id in expected})
    for name, source in sources.items():
        share_of_it = sum(id[0] == name[0] for id in expected)
        assert source.queries == [(QUESTION, share_of_it)] * bool(share_of_it)


class Cutting(ListSource):
    """A source that can be cut, ranked by a number in the text that a chunk begins with."""

    def rechunk(self, chunk_size: int, overlap: float) -> ListSource:
        return ListSource([part for p in self.passages for part in chunk_passage(p, chunk_size, overlap)])


def test_broad_keeps_only_chunks_that_start_in_the_best_blocks() -> None:
    pages = [Passage(f"p{i}", "", f"page {i} " + "word " * 120) for i in range(30)]
    dense = ListSource([Passage("p25", "", "far"), Passage("p1", "", "near"), Passage("p2", "", "near")])
    sources = {"web": Cutting(pages), "dense": dense}
    knobs: dict[str, Any] = {"top_k": 2, "dense_share": 1.0, "broad_k": 20}
    narrow = build_program(ScriptedTarget(by_field()), sources, broad=True, **knobs)(question=QUESTION)
    wide = build_program(ScriptedTarget(by_field()), sources, **knobs)(question=QUESTION)
    assert [p.id for p in narrow.passages] == ["p1", "p2"]
    assert [p.id for p in wide.passages] == ["p25", "p1"]
    assert (narrow.counters["searches"], wide.counters["searches"]) == (2, 1)


def test_rerank_keeps_the_best_of_a_pool_and_drops_numbers_that_are_not_there() -> None:
    target = ScriptedTarget(by_field(order=[[4, 0, 99, 4, 2]]))
    prediction = build_program(target, rerank=True, pool=5, top_n=3)(question=QUESTION)
    assert list_requests(target) == ["order", "answer"]
    assert [p.id for p in prediction.passages] == ["w3", "w1", "w0"]
    assert prediction.counters["dropped"] == 2  # 0 and 99; the one that came twice is there
    assert "w text 4" in target.requests[0].messages[-1].content
    assert "w text 5" not in target.requests[0].messages[-1].content
