"""Cross-encoders read query and passage together; a small model that counts shared words shows it."""

from __future__ import annotations

import asyncio
import json
import sys
import types
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragc.corpora.rerank import Reranker, make
from ragc.corpora.rerank.kinds import CrossEncoder
from ragc.errors import SourceError, UsageError
from ragc.records import Passage

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
tokenizers = pytest.importorskip("tokenizers")

WORDS = ("ape", "bee", "cat", "dog", "elk")
VOCABULARY = {word: at for at, word in enumerate(("[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS))}
TEXTS = st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join)


def write_tokenizer(folder: Path) -> None:
    """Words to numbers; `[CLS] query [SEP] passage [SEP]`, the passage with type 1; padded as some are."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(VOCABULARY, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", VOCABULARY["[CLS]"]), ("[SEP]", VOCABULARY["[SEP]"])],
    )
    tokenizer.enable_padding(pad_id=0, pad_token="[PAD]", length=64)
    tokenizer.enable_truncation(64)
    tokenizer.save(str(folder / "tokenizer.json"))


def write_model(file: Path, *, outputs: int = 1, extra: str = "") -> None:
    """A model whose logit is the number of pairs of equal words, one of the query and one of the passage.

    With two outputs the first is 1 and the second the number; with more they are all the number.
    """
    tensor, make_node = onnx.helper.make_tensor_value_info, onnx.helper.make_node
    whole, real = onnx.TensorProto.INT64, onnx.TensorProto.FLOAT
    constants = {
        "one": np.array(1, np.float32),
        "special": np.array(VOCABULARY["[SEP]"], np.int64),
        "axis1": np.array([1], np.int64),
        "axis2": np.array([2], np.int64),
        "both": np.array([1, 2], np.int64),
    }
    nodes = [
        make_node("Greater", ["input_ids", "special"], ["is_word"]),
        make_node("Cast", ["is_word"], ["word"], to=real),
        make_node("Cast", ["attention_mask"], ["seen"], to=real),
        make_node("Cast", ["token_type_ids"], ["second"], to=real),
        make_node("Sub", ["one", "second"], ["first"]),
        make_node("Mul", ["word", "seen"], ["counts"]),
        make_node("Mul", ["counts", "first"], ["in_query"]),
        make_node("Mul", ["counts", "second"], ["in_passage"]),
        make_node("Unsqueeze", ["in_query", "axis2"], ["down"]),
        make_node("Unsqueeze", ["in_passage", "axis1"], ["across"]),
        make_node("Mul", ["down", "across"], ["pairs"]),
        make_node("Unsqueeze", ["input_ids", "axis2"], ["ids_down"]),
        make_node("Unsqueeze", ["input_ids", "axis1"], ["ids_across"]),
        make_node("Equal", ["ids_down", "ids_across"], ["is_same"]),
        make_node("Cast", ["is_same"], ["same"], to=real),
        make_node("Mul", ["pairs", "same"], ["shared"]),
        make_node("ReduceSum", ["shared", "both"], ["sum"], keepdims=0),
        make_node("Unsqueeze", ["sum", "axis1"], ["number"]),
        make_node("Sub", ["number", "number"], ["zero"]),
        make_node("Add", ["zero", "one"], ["ones"]),
    ]
    columns = {1: ["number"], 2: ["ones", "number"]}.get(outputs, ["number"] * outputs)
    nodes.append(make_node("Concat", columns, ["logits"], axis=1))
    names = ["input_ids", "attention_mask", "token_type_ids", *([extra] if extra else [])]
    graph = onnx.helper.make_graph(
        nodes,
        "shared words",
        [tensor(name, whole, ["batch", "length"]) for name in names],
        [tensor("logits", real, ["batch", outputs])],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    file.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, str(file))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model_folder = tmp_path_factory.mktemp("models") / "words"
    write_model(model_folder / "onnx" / "model.onnx")
    write_tokenizer(model_folder)
    return model_folder


@pytest.fixture(scope="module")
def model(folder: Path) -> CrossEncoder:
    return CrossEncoder(str(folder))


def passages(texts: Sequence[str]) -> list[Passage]:
    return [Passage(f"p{at:02}", "", text) for at, text in enumerate(texts)]


def compute_scores(reranker: Reranker, query: str, given_passages: Sequence[Passage]) -> list[float]:
    return list(asyncio.run(reranker.scores(query, given_passages)))


def shared(query: str, text: str) -> float:
    return float(sum(a == b for a in query.split() for b in text.split()))


@given(query=TEXTS, texts=st.lists(TEXTS, max_size=70))
def test_each_passage_is_read_with_the_query_and_alone(
    model: CrossEncoder, query: str, texts: list[str]
) -> None:
    assert compute_scores(model, query, passages(texts)) == [shared(query, text) for text in texts]


def test_titles_are_read_and_strange_text_does_no_harm(model: CrossEncoder) -> None:
    read = [
        Passage("a", "cat", "dog"),
        Passage("b", " ", "dog"),
        Passage("c", "", "\ud800 cat"),
        Passage("d", "", ""),
    ]
    assert compute_scores(model, "cat cat", read) == [2.0, 0.0, 2.0, 0.0]
    assert compute_scores(model, "\udfff cat", read) == [1.0, 0.0, 1.0, 0.0]


def test_long_pairs_are_cut_to_the_limit_of_the_model_at_most_512(tmp_path: Path) -> None:
    write_model(tmp_path / "model.onnx")
    write_tokenizer(tmp_path)
    long = passages(["bee " * 600 + "cat", "bee bee cat", "cat " + "bee " * 600])
    for limit, scores in ((10**30, [0.0, 1.0, 1.0]), (6, [0.0, 0.0, 1.0])):
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({"model_max_length": limit}))
        assert compute_scores(CrossEncoder(str(tmp_path)), "cat", long) == scores


def test_of_two_numbers_the_second_speaks_for_the_passage(tmp_path: Path) -> None:
    write_model(tmp_path / "model.onnx", outputs=2)
    write_tokenizer(tmp_path)
    assert compute_scores(CrossEncoder(str(tmp_path)), "cat", passages(["cat cat", "dog"])) == [1.0, -1.0]


@pytest.mark.parametrize(
    ("write", "says"),
    [
        (partial(write_model, outputs=3), r"array of shape \(1, 3\) for 1 pairs; a cross-encoder gives"),
        (partial(write_model, extra="pixel_values"), "cannot be loaded or run: .*pixel_values"),
        (
            lambda file: file.write_bytes(b"no model"),
            "cannot be loaded or run: .*Name a folder with a model of texts",
        ),
    ],
)
def test_a_model_that_is_no_cross_encoder_is_named(
    write: Callable[[Path], object], says: str, tmp_path: Path
) -> None:
    write(tmp_path / "model.onnx")
    write_tokenizer(tmp_path)
    with pytest.raises(SourceError, match=says):
        compute_scores(CrossEncoder(str(tmp_path)), "cat", passages(["cat"]))
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(UsageError, match=r"has no tokenizer\.json"):
        make(f"cross:{tmp_path}")


def test_the_files_of_a_model_make_its_fingerprint(folder: Path, tmp_path: Path) -> None:
    write_model(tmp_path / "model.onnx", outputs=2)
    write_tokenizer(tmp_path)
    assert CrossEncoder(str(folder)).fingerprint != CrossEncoder(str(tmp_path)).fingerprint
    assert CrossEncoder(str(folder)).name == "cross:words"


def test_a_missing_library_is_named_with_what_brings_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"needs onnxruntime, .* pip install .ragc\[dense\]."):
        make(f"cross:{folder}")
    with pytest.raises(UsageError, match=r"'BAAI/bge-reranker-v2-m3' needs sentence_transformers, .* pip"):
        make("cross:BAAI/bge-reranker-v2-m3")


def test_sentence_transformers_is_used_as_it_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    class Model:
        def __init__(self, name: str, model_kwargs: dict[str, Any]) -> None:
            if name == "lost/model":
                raise OSError("no such model\nmore")
            assert model_kwargs == {"use_safetensors": True}

        def predict(self, pairs: list[tuple[str, str]], **options: Any) -> Any:
            if pairs[0][0] == "fail":
                raise RuntimeError("out of memory")
            return np.array([shared(*pair) for pair in pairs], np.float32)

    library = types.ModuleType("sentence_transformers")
    vars(library)["CrossEncoder"] = Model
    monkeypatch.setitem(sys.modules, "sentence_transformers", library)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    reranker = CrossEncoder("some/model")
    assert compute_scores(reranker, "cat", passages(["cat cat", "dog"])) == [2.0, 0.0]
    with pytest.raises(SourceError, match=r"'some/model' cannot be loaded or run: out of memory\."):
        compute_scores(reranker, "fail", passages(["cat"]))
    with pytest.raises(SourceError, match=r"'lost/model' cannot be loaded or run: no such model\."):
        compute_scores(CrossEncoder("lost/model"), "cat", passages(["cat"]))
