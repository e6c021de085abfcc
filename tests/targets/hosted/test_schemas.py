"""Hosted: a strict schema holds no keyword that its provider refuses; bounds hold on reading."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Annotated, Any

import dspy
import pytest
from pydantic import BaseModel, Field

from ragc.programs.calls.replies import read_reply, reply_schema
from ragc.targets.base import ChatRequest, Message
from ragc.targets.hosted.schemas import REFUSED, accepted_schema
from ragc.targets.hosted.target import HostedTarget


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


@pytest.mark.parametrize("provider", sorted(REFUSED))
def test_no_keyword_that_is_refused_is_sent(provider: str) -> None:
    schema = accepted_schema(SCHEMA, provider)
    assert not REFUSED[provider] & set(keywords(schema))
    assert schema["$defs"]["Item"]["required"] == ["maxLength", "points"]
    assert set(schema["$defs"]["Item"]["properties"]) == {"maxLength", "points"}
    assert schema["additionalProperties"] is False


def test_other_providers_are_sent_the_whole_schema() -> None:
    assert accepted_schema(SCHEMA, "mistral") == accepted_schema(SCHEMA, "") == SCHEMA


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
