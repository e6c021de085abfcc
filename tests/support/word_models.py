"""A small vocabulary, its tokenizer, and a model in ONNX form that counts the words two texts share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
tokenizers = pytest.importorskip("tokenizers")

WORDS = ("ape", "bee", "cat", "dog", "elk")
VOCABULARY = {word: at for at, word in enumerate(("[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS))}


def word_tokenizer(vocabulary: dict[str, int] = VOCABULARY, single: str = "[CLS] $A [SEP]") -> Any:
    """Words to numbers; `[CLS] query [SEP] passage [SEP]`, the passage with type 1; padded as some are."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single=single,
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])],
    )
    tokenizer.enable_padding(pad_id=0, pad_token="[PAD]", length=64)
    tokenizer.enable_truncation(64)
    return tokenizer


def write_word_model(folder: Path, *, outputs: int = 1, extra: str = "", file: str = "model.onnx") -> Path:
    """Writes a tokenizer and a model whose logit is the number of pairs of equal words, one of each text.

    With two outputs the first is 1 and the second the number; with three the second is the number of words of
    the second text; with more they are all the number.
    """
    tensor, make_node = onnx.helper.make_tensor_value_info, onnx.helper.make_node
    integer, real = onnx.TensorProto.INT64, onnx.TensorProto.FLOAT
    constants = {
        "one": np.array(1, np.float32),
        "special": np.array(VOCABULARY["[SEP]"], np.int64),
        "axis1": np.array([1], np.int64),
        "axis2": np.array([2], np.int64),
        "both": np.array([1, 2], np.int64),
    }
    columns = {2: ["ones", "number"], 3: ["ones", "words", "number"]}.get(outputs, ["number"] * outputs)
    nodes = [
        make_node("Greater", ["input_ids", "special"], ["is_word"]),
        make_node("Cast", ["is_word"], ["word"], to=real),
        make_node("Cast", ["attention_mask"], ["seen"], to=real),
        make_node("Cast", ["token_type_ids"], ["second"], to=real),
        make_node("Sub", ["one", "second"], ["first"]),
        make_node("Mul", ["word", "seen"], ["counts"]),
        make_node("Mul", ["counts", "first"], ["in_query"]),
        make_node("Mul", ["counts", "second"], ["in_passage"]),
        make_node("ReduceSum", ["in_passage", "axis1"], ["words"], keepdims=1),
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
        make_node("Concat", columns, ["logits"], axis=1),
    ]
    names = ["input_ids", "attention_mask", "token_type_ids", *([extra] if extra else [])]
    graph = onnx.helper.make_graph(
        nodes,
        "shared words",
        [tensor(name, integer, ["batch", "length"]) for name in names],
        [tensor("logits", real, ["batch", outputs])],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    save_model(folder / file, graph)
    return folder


def save_model(file: Path, graph: Any) -> None:
    """Writes the model of `graph`, and the tokenizer into the folder above `onnx/`, if that is its folder."""
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    file.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, str(file))
    home = file.parent.parent if file.parent.name == "onnx" else file.parent
    word_tokenizer().save(str(home / "tokenizer.json"))
