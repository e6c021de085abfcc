"""Cross-encoders read query and passage together; a small model that counts shared words shows it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragc.corpora.models import CrossEncoder
from ragc.corpora.rerank import make
from ragc.errors import SourceError, UsageError
from ragc.records import Passage
from tests.support.embedders import install_transformers
from tests.support.word_models import WORDS, write_word_model

TEXTS = st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> CrossEncoder:
    folder = tmp_path_factory.mktemp("models") / "words"
    return CrossEncoder(str(write_word_model(folder, file="onnx/model.onnx")))


def passages(texts: Sequence[str]) -> list[Passage]:
    return [Passage(f"p{at:02}", "", text) for at, text in enumerate(texts)]


def compute_scores(model: CrossEncoder | Path, query: str, given_passages: Sequence[Passage]) -> list[float]:
    reranker = CrossEncoder(str(model)) if isinstance(model, Path) else model
    return list(asyncio.run(reranker.scores(query, given_passages)))


def shared(query: str, text: str) -> float:
    return float(sum(a == b for a in query.split() for b in text.split()))


@given(query=TEXTS, texts=st.lists(TEXTS, max_size=70))
def test_cross_encoder_scores_each_passage_with_the_query(
    model: CrossEncoder, query: str, texts: list[str]
) -> None:
    assert compute_scores(model, query, passages(texts)) == [shared(query, text) for text in texts]


def test_cross_encoder_reads_titles_and_broken_text(model: CrossEncoder) -> None:
    read = [
        Passage("a", "cat", "dog"),
        Passage("b", " ", "dog"),
        Passage("c", "", "\ud800 cat"),
        Passage("d", "", ""),
    ]
    assert compute_scores(model, "cat cat", read) == [2.0, 0.0, 2.0, 0.0]
    assert compute_scores(model, "\udfff cat", read) == [1.0, 0.0, 1.0, 0.0]


def test_cross_encoder_cuts_pairs_to_the_limit_of_the_model_or_512(tmp_path: Path) -> None:
    write_word_model(tmp_path)
    long = passages(["bee " * 600 + "cat", "bee bee cat", "cat " + "bee " * 600])
    for limit, scores in ((10**30, [0.0, 1.0, 1.0]), (6, [0.0, 0.0, 1.0])):
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({"model_max_length": limit}))
        assert compute_scores(tmp_path, "cat", long) == scores


def test_cross_encoder_with_two_numbers_takes_the_second_less_the_first(tmp_path: Path) -> None:
    write_word_model(tmp_path, outputs=2)
    assert compute_scores(tmp_path, "cat", passages(["cat cat", "dog"])) == [1.0, -1.0]


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (
            lambda folder: write_word_model(folder, outputs=3),
            r"array of shape \(1, 3\) for 1 pairs; a cross-encoder gives",
        ),
        (
            lambda folder: write_word_model(folder, extra="pixel_values"),
            "cannot be loaded or run: .*pixel_values",
        ),
        (
            lambda folder: (write_word_model(folder) / "model.onnx").write_bytes(b"no model"),
            "cannot be loaded or run: .*Name a folder or id of a complete model",
        ),
    ],
)
def test_cross_encoder_names_a_model_that_is_none(
    write: Callable[[Path], object], message: str, tmp_path: Path
) -> None:
    write(tmp_path)
    with pytest.raises(SourceError, match=message):
        compute_scores(tmp_path, "cat", passages(["cat"]))
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(UsageError, match=r"has no tokenizer\.json"):
        make(f"cross:{tmp_path}")


def test_cross_encoder_fingerprint_follows_its_files(model: CrossEncoder, tmp_path: Path) -> None:
    assert model.fingerprint != CrossEncoder(str(write_word_model(tmp_path, outputs=2))).fingerprint
    assert model.name == "cross:words"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cross:FOLDER", r"needs onnxruntime, .* pip install .ragc\[dense\]."),
        ("embed", r"needs onnxruntime, .* pip install .ragc\[dense\]."),
        (
            "cross:BAAI/bge-reranker-v2-m3",
            r"/bge-reranker-v2-m3' needs sentence_transformers, .* pip install",
        ),
        ("embed:bge-m3", r"'BAAI/bge-m3' needs sentence_transformers, .* pip install"),
    ],
)
def test_model_names_a_missing_library_and_what_brings_it(
    name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_word_model(tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=message):
        make(name.replace("FOLDER", str(tmp_path)))


def test_cross_encoder_calls_sentence_transformers_as_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    class Model:
        def __init__(self, name: str, model_kwargs: dict[str, Any]) -> None:
            if name == "lost/model":
                raise OSError("no such model\nmore")
            assert model_kwargs == {"use_safetensors": True}

        def predict(self, pairs: list[tuple[str, str]], **options: Any) -> Any:
            if pairs[0][0] == "fail":
                raise RuntimeError("out of memory")
            return np.array([shared(*pair) for pair in pairs], np.float32)

    install_transformers(monkeypatch, CrossEncoder=Model)
    reranker = CrossEncoder("some/model")
    assert compute_scores(reranker, "cat", passages(["cat cat", "dog"])) == [2.0, 0.0]
    with pytest.raises(SourceError, match=r"'some/model' cannot be loaded or run: out of memory\."):
        compute_scores(reranker, "fail", passages(["cat"]))
    with pytest.raises(SourceError, match=r"'lost/model' cannot be loaded or run: no such model\."):
        compute_scores(CrossEncoder("lost/model"), "cat", passages(["cat"]))
