"""The default embedder as a reranker: it moves up what answers, and says the same each time."""

from __future__ import annotations

import asyncio

import pytest

from ragc.corpora.rerank import RerankedSource, Reranker, make
from ragc.corpora.sources.bm25 import Bm25Source
from ragc.records import Hit, Passage
from tests.integration.fetched import fetch_minilm

pytest.importorskip("onnxruntime")
pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

ASKED = "what does a large cat eat in France?"
PASSAGES = (
    Passage("a", "Lyon", "Lyon is a large city in France, and France is large."),
    Passage("b", "Hats", "What does a large hat cost in a large shop?"),
    Passage("c", "Lynx", "In France the lynx, a big wild feline, feeds on roe deer and hares."),
    Passage("d", "Bread", "Bread is baked in France as elsewhere."),
)


@pytest.fixture(scope="module")
def reranker() -> Reranker:
    fetch_minilm()
    return make("embed")


def search(source: Bm25Source | RerankedSource, query: str) -> tuple[Hit, ...]:
    return asyncio.run(source.search(query, 4))


def test_what_answers_without_the_words_of_the_question_comes_first(reranker: Reranker) -> None:
    plain = Bm25Source(PASSAGES)
    assert search(plain, ASKED)[0].passage.id != "c"
    hits = search(RerankedSource(plain, reranker), ASKED)
    assert hits[0].passage.id == "c"
    assert all(-1 <= hit.score <= 1 for hit in hits)
