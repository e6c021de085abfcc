"""Hosted: a strict schema holds no keyword that its provider refuses; bounds hold on reading."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import dspy
import pytest
from pydantic import BaseModel, Field
from ragc.targets.hosted.schemas import REFUSED, accepted_schema

from ragc.programs import METHODS
from ragc.programs.calls.outputs import reply_schema
from ragc.programs.calls.replies import read_reply
from ragc.programs.knobs import WORDINGS
from ragc.targets.base import ChatRequest, Message
from ragc.targets.hosted import HostedTarget
from tests.exports.common import build_program


class Item(BaseModel):
    maxLength: str = Field(max_length=5)  # noqa: N815 - a field that has the name of a keyword
    points: int = Field(ge=0, le=100)


class Bounded(dspy.Signature):
    question: str = dspy.InputField()
    items: Annotated[list[Item], Field(max_length=2)] = dspy.OutputField()


_BOUNDED: Any = Bounded
SCHEMA = reply_schema(_BOUNDED)


def keywords(node: Any, *, named: bool = False) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if not named:
                yield key
            yield from keywords(value, named=key in ("properties", "$defs") and not named)
    for item in node if isinstance(node, list) else ():
        yield from keywords(item)


@pytest.mark.parametrize("provider", sorted(REFUSED))
def test_no_keyword_that_is_refused_is_sent(provider: str) -> None:
    schema = accepted_schema(SCHEMA, provider)
    assert not REFUSED[provider] & set(keywords(schema))
    assert schema["$defs"]["Item"]["required"] == ["maxLength", "points"]
    assert set(schema["$defs"]["Item"]["properties"]) == {"maxLength", "points"}
    assert schema["additionalProperties"] is False


def test_other_providers_are_sent_the_whole_schema() -> None:
    assert accepted_schema(SCHEMA, "mistral") == accepted_schema(SCHEMA, "") == SCHEMA
    assert accepted_schema(SCHEMA, "xai") == SCHEMA, "it overlooks what it does not know"


class Cat(BaseModel):
    kind: Literal["cat"]
    day: dt.date
    home: Annotated[str, Field(json_schema_extra={"format": "uri"})]


class Dog(BaseModel):
    kind: Literal["dog"]
    code: Annotated[str, Field(json_schema_extra={"pattern": r"^(?!x)[a-z]+$"})]
    tag: str = Field(pattern=r"^[a-z]+$")


class Wide(dspy.Signature):
    question: str = dspy.InputField()
    pet: Annotated[Cat | Dog, Field(discriminator="kind")] = dspy.OutputField()
    some: Annotated[set[str], Field(min_length=1)] = dspy.OutputField()
    three: Annotated[list[str], Field(min_length=3)] = dspy.OutputField()
    even: Annotated[int, Field(multiple_of=2, gt=0)] = dspy.OutputField()
    pair: tuple[str, int] = dspy.OutputField()


_WIDE: Any = Wide
COMMON = {
    "$defs",
    "$ref",
    "additionalProperties",
    "anyOf",
    "const",
    "format",
    "items",
    "properties",
    "required",
    "type",
}


@pytest.mark.parametrize(
    ("provider", "beyond"),
    [
        ("openai", {"pattern", "multipleOf", "exclusiveMinimum", "minItems", "maxItems"}),
        ("azure", {"pattern", "multipleOf", "exclusiveMinimum", "minItems", "maxItems"}),
        ("anthropic", {"minItems"}),
        ("bedrock", {"minItems"}),
        ("groq", set()),
        ("cohere_chat", set()),
        ("cerebras", set()),
    ],
)
def test_what_is_left_of_a_wide_schema(provider: str, beyond: set[str]) -> None:
    schema = accepted_schema(reply_schema(_WIDE), provider)
    assert set(keywords(schema)) == COMMON | beyond
    cat, dog = (schema["$defs"][name]["properties"] for name in ("Cat", "Dog"))
    assert cat["day"]["format"] == "date"
    assert "format" not in cat["home"]
    assert "pattern" not in dog["code"], "it looks ahead"
    assert ("pattern" in dog["tag"]) == ("pattern" in beyond)
    assert [one["$ref"] for one in schema["properties"]["pet"]["anyOf"]] == ["#/$defs/Cat", "#/$defs/Dog"]
    assert schema["properties"]["pair"]["items"] == {"anyOf": [{"type": "string"}, {"type": "integer"}]}
    if "minItems" in beyond:
        assert schema["properties"]["some"]["minItems"] == 1
    assert ("minItems" in schema["properties"]["three"]) == (provider in ("openai", "azure"))


@pytest.mark.parametrize("provider", ["gemini", "vertex_ai"])
def test_gemini_reads_one_option_in_the_place_of_a_constant(provider: str) -> None:
    schema = accepted_schema(reply_schema(_WIDE), provider)
    assert schema["$defs"]["Cat"]["properties"]["kind"]["enum"] == ["cat"]
    assert "const" not in set(keywords(schema))
    assert set(keywords(schema)) - {"enum"} == set(keywords(reply_schema(_WIDE))) - {"const", "enum"}


XGRAMMAR_LACKS = {"multipleOf", "uniqueItems", "contains", "minContains", "maxContains", "patternProperties"}


@pytest.mark.parametrize("wording", WORDINGS)
def test_our_own_prompts_ask_for_nothing_that_vllm_could_refuse(wording: str) -> None:
    for entry in METHODS:
        for _, call in build_program(entry, wording=wording).named_predictors():
            used = set(keywords(reply_schema(call.signature)))
            assert not used & (XGRAMMAR_LACKS | {"pattern", "format", "propertyNames", "oneOf"})


@pytest.mark.parametrize(
    ("model", "base_url", "bounds"),
    [
        ("openai/gpt-4o-mini", "", {"minimum", "maximum", "maxItems"}),
        ("openai/gpt-4o-mini", "http://127.0.0.1:9/v1", {"minimum", "maximum", "maxItems", "maxLength"}),
    ],
)
def test_the_body_of_a_request_holds_what_its_provider_takes(
    model: str, base_url: str, bounds: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def there(*args: Any, **more: Any) -> None:
        """The model is there."""

    async def arguments() -> dict[str, Any]:
        target = HostedTarget(model, base_url)
        await target.open()
        try:
            return target.arguments(ChatRequest((Message("user", "?"),), schema=SCHEMA))
        finally:
            await target.aclose()

    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    monkeypatch.setattr("ragc.targets.hosted.target.check_model", there)
    sent = asyncio.run(arguments())
    schema = sent["response_format"]["json_schema"]["schema"]
    known = {"minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength"}
    assert known & set(keywords(schema)) == bounds


def test_bounds_that_were_not_sent_hold_on_reading() -> None:
    item = {"maxLength": "a text", "points": 5}
    reading = read_reply(Bounded, json.dumps({"items": [item, item, item]}))
    assert [one.maxLength for one in reading.outputs["items"]] == ["a", "a"]
    assert reading.mended == 4
