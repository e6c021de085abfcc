"""What the embedded target sends, and what it refuses, without a model."""

from __future__ import annotations

import asyncio
import copy
import json
import sys
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from ragc.errors import RequestRefused, TargetError, TargetUnavailable, UsageError
from ragc.targets.embedded.schema import grammar, is_cut, narrowed
from ragc.targets.embedded.server import cores
from ragc.targets.embedded.target import EmbeddedTarget

PLAIN = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}


def test_a_schema_becomes_a_grammar_without_optional_white_space() -> None:
    head, _, schema = grammar(PLAIN, 64).partition("%json ")
    assert head == "%llguidance {}\nstart: "
    sent = json.loads(schema)
    assert sent["x-guidance"] == {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
    assert sent["additionalProperties"] is False
    assert sent["properties"]["a"]["maxLength"] == 160


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Part(BaseModel):
    score: int = Field(ge=0, le=10, description="how good")
    note: str = Field(max_length=20)


class Zoo(BaseModel):
    parts: list[Part] = Field(min_length=1, max_length=3)
    colour: Colour
    kind: Literal["x", "y"]
    maybe: str | None = None
    share: float
    pair: tuple[str, int]
    loose: list[int]


def test_pydantic_models_are_narrowed_and_never_widened() -> None:
    sent = narrowed(Zoo.model_json_schema(), 80)
    part, properties = sent["$defs"]["Part"]["properties"], sent["properties"]
    assert part["score"] == {"type": "integer", "minimum": 0, "maximum": 10}
    assert part["note"] == {"type": "string", "maxLength": 20}
    assert properties["parts"]["items"] == {"$ref": "#/$defs/Part"}
    assert (properties["parts"]["minItems"], properties["parts"]["maxItems"]) == (1, 3)
    assert sent["$defs"]["Colour"]["enum"] == ["red", "blue"]
    assert properties["loose"]["maxItems"] == 10
    assert properties["share"]["maximum"] == 10**9
    assert [option["type"] for option in properties["maybe"]["anyOf"]] == ["string", "null"]
    assert list(properties) == list(Zoo.model_fields)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "array", "items": {"type": "string"}, "uniqueItems": True}, "uniqueItems"),
        ({"type": "object", "properties": {}, "minProperties": 1}, "minProperties"),
        ({"type": "object", "patternProperties": {"a": {}}}, "patternProperties"),
        ({"type": "object", "properties": {"a": {"not": {}}}}, "at a, not"),
        ({"type": "string", "format": "uri"}, "format 'uri'"),
        ({"type": "string", "pattern": "(?=a)b"}, "looks around"),
        ({"if": {}, "then": {}}, "if"),
    ],
)
def test_what_cannot_be_enforced_is_refused_with_its_place(schema: dict[str, Any], expected: str) -> None:
    with pytest.raises(RequestRefused, match=r"cannot fit replies to this JSON schema: at .*") as error:
        narrowed(schema, 9)
    assert expected in str(error.value)


def test_a_string_that_our_own_limit_closed_counts_as_cut() -> None:
    assert is_cut(json.dumps({"a": "x" * 160}), PLAIN, 64)
    assert not is_cut(json.dumps({"a": "x"}), PLAIN, 64)


@pytest.mark.parametrize("text", ["Paris.", '{"b": "x"}', '{"a": 3}'])
def test_a_complete_reply_that_left_its_schema_is_an_error(text: str) -> None:
    with pytest.raises(TargetError, match="left its JSON schema"):
        is_cut(text, PLAIN, 64)


def test_files_that_are_no_model_are_one_sentence_before_llama_cpp_sees_them(tmp_path: Path) -> None:
    (tmp_path / "other.gguf").write_bytes(b"PK\x03\x04" + bytes(9000))
    for name, expected in (("none.gguf", "There is no file"), ("other.gguf", "no GGUF file")):
        with pytest.raises(TargetUnavailable, match=expected) as error:
            asyncio.run(EmbeddedTarget(tmp_path / name).open())
        assert "\n" not in str(error.value)


def test_a_missing_binding_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGC_HOME", str(tmp_path))
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    (tmp_path / "m.gguf").write_bytes(b"GGUF" + bytes(9000))
    with pytest.raises(TargetUnavailable, match=r"pip install 'ragc\[embedded\]'"):
        asyncio.run(EmbeddedTarget(tmp_path / "m.gguf").open())


def test_identity_is_the_weights_and_not_how_they_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "home"))
    (tmp_path / "own.gguf").write_bytes(b"GGUF" + bytes(9000))
    one = EmbeddedTarget(tmp_path / "own.gguf", threads=1, parallel=1)
    assert one.identity == EmbeddedTarget(tmp_path / "own.gguf", threads=2, parallel=3).identity
    assert one.identity.startswith("own@sha256:")
    assert one.identity != EmbeddedTarget().identity


def test_options_that_cannot_be_are_refused() -> None:
    wrong: list[dict[str, Any]] = [{"context": 0}, {"parallel": 0}, {"threads": "2"}, {"timeout_s": 0}]
    wrong.append({"context": 9000})
    for options in wrong:
        with pytest.raises(UsageError):
            EmbeddedTarget(**options)


def test_a_copy_is_the_target_itself() -> None:
    target = EmbeddedTarget()
    assert copy.deepcopy(target) is target


def test_tokens_are_estimated_until_it_is_open() -> None:
    assert EmbeddedTarget().count_tokens("four" * 10) == 10
    assert cores() >= 1
