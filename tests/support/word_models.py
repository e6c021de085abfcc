"""A small vocabulary, its tokenizer, and a model in ONNX form that counts the words two texts share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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


_SHARED_WORDS = """
    is_word = Greater(input_ids, special)
    word = Cast<to = 1>(is_word)
    seen = Cast<to = 1>(attention_mask)
    second = Cast<to = 1>(token_type_ids)
    first = Sub(one, second)
    counts = Mul(word, seen)
    in_query = Mul(counts, first)
    in_passage = Mul(counts, second)
    words = ReduceSum<keepdims = 1>(in_passage, axis1)
    down = Unsqueeze(in_query, axis2)
    across = Unsqueeze(in_passage, axis1)
    pairs = Mul(down, across)
    ids_down = Unsqueeze(input_ids, axis2)
    ids_across = Unsqueeze(input_ids, axis1)
    is_same = Equal(ids_down, ids_across)
    same = Cast<to = 1>(is_same)
    shared = Mul(pairs, same)
    sum = ReduceSum<keepdims = 0>(shared, both)
    number = Unsqueeze(sum, axis1)
    zero = Sub(number, number)
    ones = Add(zero, one)
"""


def write_word_model(folder: Path, *, outputs: int = 1, extra: str = "", file: str = "model.onnx") -> Path:
    """Writes a tokenizer and a model whose logit is the number of pairs of equal words, one of each text.

    With two outputs the first is 1 and the second the number; with three the second is the number of words of
    the second text; with more they are all the number. `extra` is the name of a further input.
    """
    columns = {2: "ones, number", 3: "ones, words, number"}.get(outputs, ", ".join(["number"] * outputs))
    names = ["input_ids", "attention_mask", "token_type_ids", *([extra] if extra else [])]
    constants = (
        f"float one = {{1}}, int64 special = {{{VOCABULARY['[SEP]']}}}, int64[1] axis1 = {{1}}, "
        "int64[1] axis2 = {2}, int64[2] both = {1, 2}"
    )
    save_model(
        folder / file,
        names,
        f"float[batch, {outputs}] logits",
        constants,
        f"{_SHARED_WORDS} logits = Concat<axis = 1>({columns})",
    )
    return folder


def save_model(file: Path, inputs: list[str], output: str, constants: str, nodes: str) -> None:
    """Writes a model of numbers of words, in the text form of ONNX, and the tokenizer into the folder above
    `onnx/`, if that is its folder.
    """
    numbers = ", ".join(f"int64[batch, length] {name}" for name in inputs)
    header = '<ir_version: 8, opset_import: ["": 17]>'
    model = onnx.parser.parse_model(f"{header} words ({numbers}) => ({output}) <{constants}> {{{nodes}}}")
    onnx.checker.check_model(model)
    file.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, str(file))
    home = file.parent.parent if file.parent.name == "onnx" else file.parent
    word_tokenizer().save(str(home / "tokenizer.json"))
