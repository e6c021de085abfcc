"""A hosted target: LiteLLM against a local server, and nothing else."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ragc.errors import TargetError, TargetUnavailable, UsageError
from ragc.targets import TargetSpec, build
from ragc.targets.base import ChatRequest, Message, Reply, Sampling, TokenLogprob, Usage
from ragc.targets.hosted.options import HostedOptions
from ragc.targets.hosted.target import HostedTarget

pytestmark = [pytest.mark.filterwarnings("error"), pytest.mark.usefixtures("only_our_key")]

KEY = "sk-test-0123456789abcdef"
ASK = ChatRequest((Message("user", "Capital of Peru?"),))
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}
OK = {
    "id": "x",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-4o-mini",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Lima"}}],
    "usage": {
        "prompt_tokens": 1000,
        "completion_tokens": 100,
        "total_tokens": 1100,
        "prompt_tokens_details": {"cached_tokens": 0},
    },
}


class Stub:
    """An OpenAI-compatible server: answers (status, body, headers) in order, the last one for ever."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.bodies: list[dict[str, Any]] = []
        self.heads: list[str] = []
        self.slept: list[float] = []
        self.models: dict[str, Any] = {}
        self.models_status = 200
        self.listings, self.listing_head = 0, ""

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            if head.startswith("GET"):
                self.listings += 1
                out = json.dumps(self.models).encode()
                status = self.models_status if self.models else 404
                start = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nConnection: close\r\n"
                writer.write(f"{start}Content-Length: {len(out)}\r\n\r\n".encode() + out)
                await writer.drain()
                self.listing_head = head
                return
            lines = head.lower().split("\r\n")
            length = next(int(x.split(":")[1]) for x in lines if x.startswith("content-length:"))
            self.bodies.append(json.loads(await reader.readexactly(length)))
            self.heads.append(head)
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            if answer is None:
                writer.transport.abort()
                return
            status, body, headers = answer if isinstance(answer, tuple) else (200, answer, {})
            out = body if isinstance(body, bytes) else json.dumps(body).encode()
            extra = "".join(f"{k}: {v}\r\n" for k, v in headers.items())
            start = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nConnection: close\r\n{extra}"
            writer.write(f"{start}Content-Length: {len(out)}\r\n\r\n".encode() + out)
            await writer.drain()
        finally:
            writer.close()

    @asynccontextmanager
    async def target(self, model: str, **options: Any) -> AsyncIterator[HostedTarget]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        target = HostedTarget(model, url, HostedOptions(**options), sleep=self.sleep)
        try:
            yield target
        finally:
            await target.aclose()
            server.close()
            await server.wait_closed()

    def ask(self, request: ChatRequest = ASK, model: str = "openai/gpt-4o-mini", **options: Any) -> Reply:
        reply: Reply = self.use(lambda target: target.complete(request), model, **options)
        return reply

    def use(
        self,
        act: Callable[[HostedTarget], Coroutine[Any, Any, Any]],
        model: str = "openai/gpt-4o-mini",
        **options: Any,
    ) -> Any:
        async def go() -> Any:
            async with self.target(model, **options) as target:
                return await act(target)

        return asyncio.run(go())


def error(status: int, message: str, **headers: str) -> tuple[int, Any, dict[str, str]]:
    return status, {"error": {"message": message, "type": "t", "code": None}}, headers


def test_a_request_on_the_wire_and_its_price() -> None:
    stub = Stub(OK)
    reply = stub.ask(
        ChatRequest(ASK.messages, SCHEMA, Sampling(0.5, 0.9, 12, seed=3, stop=("END",)), sample=4)
    )
    assert stub.bodies == [
        {
            "model": "gpt-4o-mini",
            "messages": [{"role": "user", "content": "Capital of Peru?"}],
            "temperature": 0.5,
            "top_p": 0.9,
            "max_tokens": 12,
            "seed": 7,
            "stop": ["END"],
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "reply", "strict": True, "schema": SCHEMA},
            },
        }
    ]
    assert f"authorization: bearer {KEY}" in stub.heads[0].lower()
    assert reply.text == "Lima"
    assert reply.usage == Usage(1000, 100, 0)
    assert reply.usd == pytest.approx(1000 * 0.15e-6 + 100 * 0.6e-6)


def test_logprobs_come_back() -> None:
    scored = {"content": [{"token": "Lima", "logprob": -0.25, "bytes": None, "top_logprobs": []}]}
    body = {**OK, "choices": [{**OK["choices"][0], "logprobs": scored}]}  # type: ignore[index]
    stub = Stub(body)
    assert stub.ask(ChatRequest(ASK.messages, logprobs=True)).logprobs == (TokenLogprob("Lima", -0.25),)
    assert stub.bodies[0]["logprobs"] is True
    with pytest.raises(TargetError, match="no logprobs"):
        Stub(OK).ask(ChatRequest(ASK.messages, logprobs=True))


def test_structured_output_follows_the_models_capability() -> None:
    stub = Stub(OK)
    request = ChatRequest(ASK.messages, SCHEMA)
    stub.ask(request, model="openai/house-model")
    assert stub.bodies[-1]["response_format"] == {"type": "json_object"}
    stub.ask(request, model="openai/house-model", has=("schema",))
    assert stub.bodies[-1]["response_format"]["type"] == "json_schema"
    stub.ask(ChatRequest(ASK.messages, {"type": "object"}))
    assert stub.bodies[-1]["response_format"] == {"type": "json_object"}


def test_unknown_prices_count_nothing_and_are_said_once(caplog: pytest.LogCaptureFixture) -> None:
    async def twice(target: HostedTarget) -> tuple[float, bool]:
        await target.complete(ASK)
        return (await target.complete(ASK)).usd, target.priced

    body = {**OK, "model": "house-model"}
    assert Stub(body).use(twice, "openai/house-model") == (0.0, False)
    assert [r.getMessage() for r in caplog.records if "no price" in r.getMessage()].__len__() == 1


def test_parameters_the_model_does_not_take_are_left_out_and_named(caplog: pytest.LogCaptureFixture) -> None:
    async def ask(target: HostedTarget) -> set[str]:
        await target.complete(ChatRequest(ASK.messages, sampling=Sampling(stop=("END",))))
        return target.dropped

    stub = Stub(OK)
    assert stub.use(ask, "openai/gpt-5-mini") == {"temperature", "stop"}
    assert set(stub.bodies[0]) == {"model", "messages", "max_completion_tokens"}
    assert "does not take temperature=0.0" in caplog.text


def test_capabilities_and_context_come_from_the_table() -> None:
    async def look(target: HostedTarget) -> HostedTarget:
        await target.open()
        return target

    target = Stub(OK).use(look)
    assert target.capabilities == {"schema", "logprobs", "seed", "prefix_cache"}
    assert target.context_tokens == 128000
    assert Stub(OK).use(look, lacks=("seed",)).capabilities == {"schema", "logprobs", "prefix_cache"}


def test_rate_limits_wait_as_asked_and_litellm_itself_does_not_retry() -> None:
    stub = Stub(error(429, "slow down", **{"retry-after": "7"}), OK)
    assert stub.ask().text == "Lima"
    assert len(stub.bodies) == 2
    assert 7 <= stub.slept[0] < 8


@pytest.mark.parametrize(
    "broken", [None, error(500, "oops"), (200, b'{"choices": [{', {}), {**OK, "choices": []}]
)
def test_a_broken_exchange_is_tried_again(broken: Any) -> None:
    stub = Stub(broken, OK)
    assert stub.ask().text == "Lima"
    assert len(stub.bodies) == 2
    with pytest.raises(TargetUnavailable, match="tried 2 times"):
        Stub(broken).ask(tries=2)


@pytest.mark.parametrize("body", [b"<html>Log in</html>", b"", b'{"choices": [{', b"[1]"])
def test_a_body_that_is_no_completion_is_said_to_be_none(body: bytes) -> None:
    with pytest.raises(TargetUnavailable, match="sent a reply that is no chat completion") as caught:
        Stub((200, body, {})).ask(tries=2)
    assert "500" not in str(caught.value)


def test_an_error_page_keeps_its_status() -> None:
    with pytest.raises(TargetUnavailable, match="answered 502"):
        Stub((502, b"<html>Bad gateway</html>", {})).ask(tries=2)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "maximum context length is 10 tokens"),
        (401, f"Incorrect API key provided: {KEY}"),
        (403, "forbidden"),
        (404, "no such model"),
        (429, "You exceeded your current quota"),
    ],
)
def test_final_errors_are_raised_at_once_without_the_key(status: int, message: str) -> None:
    stub = Stub(error(status, message, **{"x-request-id": "req-7"}))
    with pytest.raises(TargetError) as caught:
        stub.ask()
    assert not isinstance(caught.value, TargetUnavailable)
    assert len(stub.bodies) == 1
    assert caught.value.endpoint.startswith("openai/gpt-4o-mini at http://127.0.0.1:")
    assert caught.value.request_id == "req-7"
    assert f"answered {status} to request req-7: {message[:9]}" in str(caught.value)
    assert KEY not in str(caught.value)
    assert KEY[:12] not in str(caught.value)


def test_a_silent_server_times_out() -> None:
    async def go() -> None:
        release = asyncio.Event()

        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await release.wait()
            writer.close()

        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        options = HostedOptions(timeout_s=0.2, connect_timeout_s=0.2, tries=2)
        target = HostedTarget("openai/gpt-4o-mini", url, options)
        try:
            await target.complete(ASK)
        finally:
            release.set()
            await target.aclose()
            server.close()
            await server.wait_closed()

    with pytest.raises(TargetUnavailable, match=r"within 0\.[25] s"):
        asyncio.run(go())


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
    monkeypatch.setenv("MY_CRED", "abcdef-123456")
    stub = Stub(error(400, "echo abcdef-123456"))
    with pytest.raises(TargetError, match=r"echo \[redacted\]"):
        stub.ask(api_key_env="MY_CRED")
    assert "bearer abcdef-123456" in stub.heads[0].lower()


def opened(stub: Stub, model: str = "openai/gpt-4o-mini", **options: Any) -> None:
    async def twice(target: HostedTarget) -> None:
        await target.open()
        await target.open()

    stub.use(twice, model, **options)


def test_open_asks_once_whether_the_model_is_there_and_sends_no_completion() -> None:
    stub = Stub(OK)
    stub.models = {"data": [{"id": "gpt-4o-mini"}, {"id": "gpt-4o"}]}
    opened(stub)
    assert (stub.listings, stub.bodies) == (1, [])
    assert f"authorization: bearer {KEY}" in stub.listing_head.lower()
    with pytest.raises(UsageError, match=r"no model named 'gpt-4o-mni'. Did you mean 'gpt-4o-mini'\?"):
        opened(stub, "openai/gpt-4o-mni")
    stub.models = {"data": [{"id": "openai/*"}]}
    opened(stub, "openai/gpt-4o-mni")


def test_open_at_anthropic_speaks_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-0123456789")
    stub = Stub(OK)
    stub.models = {"data": [{"id": "claude-sonnet-4-5-20250929"}]}
    opened(stub, "anthropic/claude-sonnet-4-5")
    assert stub.listing_head.startswith("GET /v1/models?")
    assert "x-api-key: sk-ant-0123456789" in stub.listing_head.lower()
    with pytest.raises(UsageError, match="no model named 'claude-sonnet-3'"):
        opened(stub, "anthropic/claude-sonnet-3")


def test_a_refused_key_is_said_before_a_completion_is_sent() -> None:
    stub = Stub(OK)
    stub.models = {"error": {"message": f"Incorrect API key provided: {KEY}"}}
    for status in (401, 403):
        stub.models_status = status
        with pytest.raises(
            TargetError, match=f"refused the key with {status}.*Check OPENAI_API_KEY"
        ) as caught:
            opened(stub)
        assert KEY not in str(caught.value)
    assert stub.bodies == []
    stub.models = {"error": {"message": "Missing scopes: api.model.read"}}
    opened(stub)


def test_a_proxy_that_is_not_there_is_said_before_a_completion_is_sent() -> None:
    target = HostedTarget("openai/gpt-4o-mini", "http://127.0.0.1:9/v1")
    with pytest.raises(TargetUnavailable, match="start the server or correct base_url"):
        asyncio.run(target.open())


def test_a_proxy_without_a_key_is_asked_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    stub = Stub(OK)
    assert stub.ask().text == "Lima"
    assert "bearer none" in stub.heads[0].lower()


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


def test_identity_says_what_answers() -> None:
    def identity(url: str = "", **options: Any) -> str:
        where = {"base_url": url} if url else {}
        return build(TargetSpec(kind="hosted", model="openai/gpt-4o-mini", **where, options=options)).identity

    assert identity() == "openai/gpt-4o-mini"
    assert identity("https://p.example/v1/?key=1") == "openai/gpt-4o-mini@https://p.example/v1"
    assert identity(identity="mine") == "mine"


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
    without = HostedTarget("openai/gpt-4o-mini", options=HostedOptions(lacks=("logprobs",)))
    assert "logprobs" not in without.capabilities
    nobody = HostedTarget("no-provider-has-this", options=HostedOptions(has=("seed",)))
    assert nobody.capabilities == {"seed"}


def test_a_hosted_target_that_is_only_named_does_not_import_litellm() -> None:
    program = (
        "import sys; from ragc.targets.hosted.target import HostedTarget; "
        "HostedTarget('openai/gpt-4o-mini'); "
        "sys.exit('litellm' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
