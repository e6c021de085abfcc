"""The default embedder itself: its vectors, and passages found and reranked by meaning."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from ragc.corpora.datasets import pydocs
from ragc.corpora.models import EmbedReranker, LocalEmbedder, minilm
from ragc.corpora.rerank import RerankedSource
from ragc.corpora.sources.bm25 import Bm25Source
from ragc.corpora.sources.dense import DenseSource
from ragc.records import Passage
from tests.integration.fetched import fetch_minilm

pytest.importorskip("onnxruntime")
pytest.importorskip("faiss")
pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def embedder() -> LocalEmbedder:
    fetch_minilm()
    return minilm()


def test_vectors_are_of_length_one_and_do_not_depend_on_what_stands_beside_them(
    embedder: LocalEmbedder,
) -> None:
    texts = [
        "A cat sat.",
        "",
        "東京タワー",
        "\ud800 half",
        "word " * 2000,
        *(f"text {n} " * n for n in range(70)),
    ]
    together, alone = embedder.embed(texts), np.concatenate([embedder.embed([text]) for text in texts])
    assert together.shape == (len(texts), 384)
    assert np.linalg.norm(together, axis=1) == pytest.approx(np.ones(len(texts)), abs=1e-5)
    assert np.abs(together - alone).max() < 1e-5
    assert embedder.embed(["word " * 254]) == pytest.approx(embedder.embed(["word " * 2000]), abs=1e-5)


def test_similarities_are_those_the_authors_of_the_model_publish(embedder: LocalEmbedder) -> None:
    # From the model card of all-MiniLM-L6-v2 in the documentation of sentence-transformers.
    texts = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
    a, b, c = embedder.embed(texts)
    assert [a @ b, a @ c, b @ c] == pytest.approx([0.6660, 0.1046, 0.1411], abs=0.02)


def test_passages_are_found_by_meaning_without_a_shared_word(embedder: LocalEmbedder, tmp_path: Path) -> None:
    passages = [
        Passage("car", "", "An automobile needs its engine oil changed regularly."),
        Passage("cook", "", "Simmer the broth slowly before adding noodles."),
        Passage("sky", "", "Jupiter is the largest planet of the solar system."),
    ]
    source = DenseSource(passages, embedder, home=tmp_path)
    for query, wanted in (("vehicle maintenance", "car"), ("soup recipe", "cook"), ("astronomy", "sky")):
        hits = asyncio.run(source.search(query, 3))
        assert hits[0].passage.id == wanted
        assert asyncio.run(DenseSource(passages, embedder, home=tmp_path).search(query, 3)) == hits


def test_reranking_moves_up_what_answers_without_the_words_of_the_question(embedder: LocalEmbedder) -> None:
    passages = [
        Passage("a", "Lyon", "Lyon is a large city in France, and France is large."),
        Passage("b", "Hats", "What does a large hat cost in a large shop?"),
        Passage("c", "Lynx", "In France the lynx, a big wild feline, feeds on roe deer and hares."),
        Passage("d", "Bread", "Bread is baked in France as elsewhere."),
    ]
    plain, question = Bm25Source(passages), "what does a large cat eat in France?"
    assert asyncio.run(plain.search(question, 4))[0].passage.id != "c"
    hits = asyncio.run(RerankedSource(plain, EmbedReranker(embedder)).search(question, 4))
    assert hits[0].passage.id == "c"
    assert all(-1 <= hit.score <= 1 for hit in hits)


def test_the_language_reference_answers_its_questions(embedder: LocalEmbedder, tmp_path: Path) -> None:
    questions = [q for q in pydocs.questions() if q.gold_ids][:40]
    gold = {name for q in questions for name in q.gold_ids}
    passages = [p for p in pydocs.passages() if p.id in gold]
    source = DenseSource(passages, embedder, home=tmp_path)
    hit_count = 0
    for question in questions:
        hits = asyncio.run(source.search(question.question, 5))
        hit_count += bool({hit.passage.parent for hit in hits} & set(question.gold_ids))
    assert hit_count >= 0.7 * len(questions)
