"""A hosted target: what LiteLLM's tables know, and what providers need, beyond what every kind does."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ragc.errors import TargetError, TargetUnavailable, UsageError
from ragc.targets import TargetSpec, build
from ragc.targets.base import ChatRequest, Message, Sampling
from ragc.targets.hosted import HostedTarget
from ragc.targets.hosted_options import HostedOptions
from tests.support.server import (
    Answer,
    ScriptedServer,
    build_answer,
    completion,
    failing,
    in_order,
    models,
    serving,
)
from tests.support.targets import Waits, finished

pytestmark = [pytest.mark.filterwarnings("error"), pytest.mark.usefixtures("only_our_key")]

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
    target = HostedTarget(model, server.url, HostedOptions(**options), sleep=Waits())

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
        server.pages["/v1/models"] = models("*")
        ask(server, request, "openai/house-model")
        ask(server, request, "openai/house-model", has=("schema",))
        ask(server, ChatRequest(ASK.messages, {"type": "object"}))
        kinds = [body["response_format"]["type"] for body in server.bodies]
    assert kinds == ["json_object", "json_schema", "json_object"]


def test_unknown_prices_count_nothing_and_are_said_once(caplog: pytest.LogCaptureFixture) -> None:
    async def twice(target: HostedTarget) -> None:
        await target.complete(ASK)
        assert (await target.complete(ASK)).usd == 0.0

    with serving(in_order(Answer(LIMA.body.replace(b"gpt-4o-mini", b"house-model")))) as server:
        server.pages["/v1/models"] = models("*")
        assert not use(server, twice, "openai/house-model").priced
    assert ["no price" in record.getMessage() for record in caplog.records].count(True) == 1


def test_parameters_the_model_does_not_take_are_left_out_and_named(caplog: pytest.LogCaptureFixture) -> None:
    with serving(in_order(LIMA)) as server:
        server.pages["/v1/models"] = models("*")
        request = ChatRequest(ASK.messages, sampling=Sampling(stop=("END",)))
        assert ask(server, request, "openai/gpt-5-mini").dropped == {"temperature", "stop"}
        assert set(server.bodies[0]) == {"model", "messages", "max_completion_tokens"}
    assert "does not take temperature=0.0" in caplog.text


def test_a_quota_that_is_spent_is_said_at_once() -> None:
    with serving(in_order(failing(429, "You exceeded your current quota"))) as server:
        with pytest.raises(TargetError, match="current quota") as caught:
            ask(server)
        assert not isinstance(caught.value, TargetUnavailable)
        assert len(server.requests) == 1


def test_a_missing_key_is_said_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    for model, variable in (
        ("openai/gpt-4o-mini", "OPENAI_API_KEY"),
        ("anthropic/claude-sonnet-4-5", "ANTHROPIC_API_KEY"),
    ):
        with pytest.raises(UsageError, match=variable):
            asyncio.run(HostedTarget(model).open())
    options = HostedOptions(api_key_env="MY_CRED")
    with pytest.raises(UsageError, match="MY_CRED"):
        asyncio.run(HostedTarget("openai/gpt-4o-mini", options=options).open())


def opened(server: ScriptedServer, model: str = GPT, **options: Any) -> None:
    use(server, lambda target: target.open(), model, **options)


def test_a_proxy_may_have_every_model() -> None:
    with serving() as server:
        server.pages["/v1/models"] = models("openai/*")
        opened(server, "openai/gpt-4o-mni")


def test_open_at_anthropic_speaks_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-0123456789")
    with serving() as server:
        server.pages[""] = models("claude-sonnet-4-5-20250929")
        opened(server, "anthropic/claude-sonnet-4-5")
        assert server.paths[0].startswith("/v1/models?")
        assert server.visits[0].headers["x-api-key"] == "sk-ant-0123456789"
        with pytest.raises(UsageError, match="no model named 'claude-sonnet-3'"):
            opened(server, "anthropic/claude-sonnet-3")


def test_a_refused_key_is_said_before_a_completion_is_sent() -> None:
    with serving() as server:
        for status in (401, 403):
            server.pages["/v1/models"] = failing(status, f"Incorrect API key provided: {KEY}")
            with pytest.raises(
                TargetError, match=f"refused the key with {status}.*Check OPENAI_API_KEY"
            ) as caught:
                opened(server)
            assert KEY not in str(caught.value)
        server.pages["/v1/models"] = failing(403, "Missing scopes: api.model.read")
        opened(server)
        assert server.requests == []


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
    "url", ["http://proxy.example/v1", "ftp://127.0.0.1/", "proxy", "https://me:pw12345@proxy.example/v1"]
)
def test_unsafe_base_urls_are_refused(url: str) -> None:
    with pytest.raises(UsageError, match="base_url") as caught:
        build(TargetSpec(kind="hosted", model="openai/gpt-4o-mini", base_url=url))
    assert "pw12345" not in str(caught.value)


def test_identity_is_the_model_and_a_proxy_without_its_query() -> None:
    assert HostedTarget(GPT).identity == GPT
    assert HostedTarget(GPT, "https://p.example/v1/?key=1").identity == f"{GPT}@https://p.example/v1"


def test_building_imports_nothing_heavy() -> None:
    code = (
        "import sys; from ragc.targets import TargetSpec, build;"
        "assert 'httpx' not in sys.modules;"
        "build(TargetSpec(kind='hosted', model='openai/gpt-4o-mini'));"
        "assert not {'litellm', 'dspy'} & set(sys.modules)"
    )
    path = os.pathsep.join(p for p in sys.path if p)
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": path})


def test_what_the_table_says_is_known_before_the_target_is_opened() -> None:
    target = HostedTarget("openai/gpt-4o-mini")
    assert target.capabilities == {"schema", "logprobs", "seed", "prefix_cache"}
    assert target.context_tokens == 128000
    nobody = HostedTarget("no-provider-has-this", options=HostedOptions(has=("seed",)))
    assert nobody.capabilities == {"seed"}
