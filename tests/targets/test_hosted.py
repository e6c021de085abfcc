"""A hosted target: what LiteLLM's tables know, and what providers need, beyond what every kind does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ragc.errors import UsageError
from ragc.targets import build
from ragc.targets.base import ChatRequest, Message, Sampling
from ragc.targets.hosted import HostedTarget, accepted, warn_once
from ragc.targets.options import HostedOptions, TargetSpec
from tests.support.server import (
    Answer,
    ScriptedServer,
    build_answer,
    completion,
    in_order,
    serving,
)
from tests.support.targets import Waits, finished

pytestmark = pytest.mark.usefixtures("only_our_key")

KEY = "sk-test-0123456789abcdef"
ASK = ChatRequest((Message("user", "Capital of Peru?"),))
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}
LIMA = build_answer("Lima")
GPT = "openai/gpt-4o-mini"


def use(
    server: ScriptedServer, act: Callable[[HostedTarget], Awaitable[Any]], model: str = GPT, **options: Any
) -> HostedTarget:
    """The target after `act`."""
    target = HostedTarget(model, server.url, HostedOptions(**options))
    target.sleep = Waits()

    async def go() -> HostedTarget:
        await act(target)
        return target

    return finished(target, go())


def ask(server: ScriptedServer, request: ChatRequest = ASK, model: str = GPT, **options: Any) -> HostedTarget:
    """The target after `request`."""
    return use(server, lambda target: target.complete(request), model, **options)


def test_a_reply_has_the_price_of_the_table() -> None:
    with serving(
        in_order(completion({"content": "Lima"}, prompt_tokens=1000, completion_tokens=100))
    ) as server:
        target = HostedTarget(GPT, server.url)
        reply = finished(target, target.complete(ASK))
        assert f"Bearer {KEY}" == server.requests[0].headers["authorization"]
    assert reply.usd == pytest.approx(1000 * 0.15e-6 + 100 * 0.6e-6)


def test_structured_output_follows_the_models_capability() -> None:
    request = ChatRequest(ASK.messages, SCHEMA)
    with serving(in_order(LIMA)) as server:
        ask(server, request, "openai/house-model")
        ask(server, request, "openai/house-model", has=("schema",))
        ask(server, ChatRequest(ASK.messages, {"type": "object"}))
        kinds = [body["response_format"]["type"] for body in server.bodies]
    assert kinds == ["json_object", "json_schema", "json_object"]


def test_unknown_prices_count_nothing_and_are_said_once(caplog: pytest.LogCaptureFixture) -> None:
    warn_once.cache_clear()

    async def twice(target: HostedTarget) -> None:
        await target.complete(ASK)
        assert (await target.complete(ASK)).usd == 0.0

    with serving(in_order(Answer(LIMA.body.replace(b"gpt-4o-mini", b"house-model")))) as server:
        use(server, twice, "openai/house-model")
    assert ["no price" in record.getMessage() for record in caplog.records].count(True) == 1


def test_parameters_the_model_does_not_take_are_left_out_and_named(caplog: pytest.LogCaptureFixture) -> None:
    warn_once.cache_clear()
    with serving(in_order(LIMA)) as server:
        request = ChatRequest(ASK.messages, sampling=Sampling(stop=("END",)))
        ask(server, request, "openai/gpt-5-mini")
        assert set(server.bodies[0]) == {"model", "messages", "max_completion_tokens"}
    assert "does not take stop" in caplog.text


def test_a_missing_key_is_said_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    for model, variable in (
        ("openai/gpt-4o-mini", "OPENAI_API_KEY"),
        ("anthropic/claude-sonnet-4-5", "ANTHROPIC_API_KEY"),
    ):
        with pytest.raises(UsageError, match=variable):
            asyncio.run(HostedTarget(model).open())


def test_a_proxy_without_a_key_is_asked_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    with serving(in_order(LIMA)) as server:
        ask(server)
        assert server.requests[0].headers["authorization"] == "Bearer none"


def test_an_id_without_provider_gets_the_nearest_one(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="Did you mean 'gpt-4o-mini"):
        asyncio.run(HostedTarget("gpt-4o-mni").open())
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "url",
    [
        "http://proxy.example/v1",
        "ftp://127.0.0.1/",
        "proxy",
        "https://me:pw12345@proxy.example/v1",
        "https://p.example/v1?key=pw12345",
    ],
)
def test_unsafe_base_urls_are_refused(url: str) -> None:
    with pytest.raises(UsageError, match="base_url") as caught:
        build(TargetSpec(kind="hosted", model="openai/gpt-4o-mini", base_url=url))
    assert "pw12345" not in str(caught.value)


def test_identity_is_the_model_and_a_proxy() -> None:
    assert HostedTarget(GPT).identity == GPT
    assert HostedTarget(GPT, "https://p.example/v1/").identity == f"{GPT}@https://p.example/v1"


def test_what_the_table_says_is_known_before_the_target_is_opened() -> None:
    target = HostedTarget("openai/gpt-4o-mini")
    assert target.capabilities == {"schema", "logprobs", "seed", "prefix_cache"}
    assert target.context_tokens == 128000
    nobody = HostedTarget("no-provider-has-this", options=HostedOptions(has=("seed",)))
    assert nobody.capabilities == {"seed"}


SCHEMAS = [
    ({"type": "string", "minLength": 1, "enum": ["default"]}, {"type": "string", "enum": ["default"]}),
    ({"const": 3}, {"enum": [3]}),
    ({"oneOf": [{"type": "null"}]}, {"anyOf": [{"type": "null"}]}),
    ({"prefixItems": [{"type": "string"}], "maxItems": 1}, {"items": {"anyOf": [{"type": "string"}]}}),
    ({"properties": {"pattern": {"pattern": "a"}}}, {"properties": {"pattern": {}}}),
]


@pytest.mark.parametrize(("schema", "sent"), SCHEMAS)
def test_keywords_that_some_provider_refuses_are_not_sent(schema: Any, sent: Any) -> None:
    assert accepted(schema) == sent
