"""What the embedded target sends, and what it refuses, without a model."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from ragc.errors import TargetUnavailable, UsageError
from ragc.targets.embedded.target import EmbeddedTarget, grammar, with_limits

PLAIN = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}


def test_a_schema_becomes_a_grammar_without_optional_white_space() -> None:
    head, _, schema = grammar(PLAIN, 64).partition("%json ")
    assert head == "%llguidance {}\nstart: "
    sent = json.loads(schema)
    assert sent["x-guidance"]["whitespace_flexible"] is False
    assert sent["additionalProperties"] is False
    assert sent["properties"]["a"]["maxLength"] == 160


class Part(BaseModel):
    score: int = Field(ge=0, le=10, description="how good")
    note: str = Field(max_length=20)


class Zoo(BaseModel):
    parts: list[Part] = Field(min_length=1, max_length=3)
    kind: Literal["x", "y"]
    maybe: str | None = None
    pair: tuple[str, int]
    loose: list[int]


def test_a_schema_gets_the_limits_that_it_lacks_and_keeps_its_own() -> None:
    schema = Zoo.model_json_schema()
    sent = with_limits(schema, 80)
    parts, given = sent["properties"], schema["properties"]
    assert sent["$defs"]["Part"] == {**schema["$defs"]["Part"], "additionalProperties": False}
    assert [parts[name] for name in ("parts", "kind")] == [given[name] for name in ("parts", "kind")]
    assert parts["loose"]["maxItems"] == 10
    assert parts["maybe"]["anyOf"] == [{"type": "string", "maxLength": 200}, {"type": "null"}]
    assert list(parts) == list(Zoo.model_fields)


def test_a_file_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(TargetUnavailable, match=r"There is no file .*none\.gguf; name a GGUF file"):
        asyncio.run(EmbeddedTarget(tmp_path / "none.gguf").open())


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
