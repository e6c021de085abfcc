"""A server target: what goes over the wire, and what each kind of failure becomes."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from ragc.core.redact import redact, remember
from ragc.errors import TargetError, TargetUnavailable, UnknownName, UsageError
from ragc.targets import TARGETS, TargetSpec, build
from ragc.targets.base import ChatRequest, Message, Reply, Sampling, TokenLogprob, Usage
from ragc.targets.vllm.options import VllmOptions
from ragc.targets.vllm.target import VllmTarget

pytestmark = pytest.mark.filterwarnings("error")

URL = "http://127.0.0.1:8000/v1"
ASK = ChatRequest((Message("system", "Be brief."), Message("user", "Capital of Peru?")))
Handler = Callable[[httpx.Request], httpx.Response]


def completion(text: str | None = "Lima", **choice: Any) -> dict[str, Any]:
    return {
        "id": "cmpl-1",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, **choice}],
        "usage": {
            "prompt_tokens": 20,
            "completion_tokens": 3,
            "prompt_tokens_details": {"cached_tokens": 16},
        },
    }


class Wire:
    """Answers from a list, the last answer for ever, and keeps requests and waits."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []
        self.slept: list[float] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, httpx.Response):
            return answer
        return httpx.Response(200, json=answer)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def target(self, url: str = URL, **options: Any) -> VllmTarget:
        return VllmTarget(
            url, "m", VllmOptions(**options), transport=httpx.MockTransport(self), sleep=self.sleep
        )

    def ask(self, request: ChatRequest = ASK, **options: Any) -> Reply:
        async def go() -> Reply:
            target = self.target(**options)
            try:
                return await target.complete(request)
            finally:
                await target.aclose()

        return asyncio.run(go())

    def open(self, url: str = URL, **options: Any) -> VllmTarget:
        async def go() -> VllmTarget:
            target = self.target(url, **options)
            try:
                await target.open()
                await target.open()
            finally:
                await target.aclose()
            return target

        return asyncio.run(go())

    @property
    def body(self) -> dict[str, Any]:
        sent: dict[str, Any] = json.loads(self.requests[-1].content)
        return sent


def failing(status: int, message: str, **headers: str) -> httpx.Response:
    return httpx.Response(status, json={"error": {"message": message}}, headers=headers)


def test_a_plain_request_is_sent_exactly_so() -> None:
    wire = Wire(completion(finish_reason="stop"))
    reply = wire.ask()
    assert str(wire.requests[0].url) == f"{URL}/chat/completions"
    assert wire.body == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Capital of Peru?"},
        ],
        "temperature": 0.0,
        "top_p": 1.0,
        "max_tokens": 256,
    }
    assert reply == Reply("Lima", "stop", Usage(20, 3, 16))


def test_everything_that_can_be_asked_reaches_the_wire() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer", "maximum": 5}}, "required": ["a"]}
    sampling = Sampling(0.7, 0.9, 12, top_k=40, min_p=0.05, seed=100, stop=("\n", "END"))
    scored = {"content": [{"token": "Li", "logprob": -0.5}, {"token": "ma", "logprob": -1}]}
    wire = Wire(completion(finish_reason="length", logprobs=scored))
    reply = wire.ask(ChatRequest(ASK.messages, schema, sampling, logprobs=True, sample=3))
    body = wire.body
    assert body.pop("messages")
    assert body == {
        "model": "m",
        "temperature": 0.7,
        "top_p": 0.9,
        "max_tokens": 12,
        "top_k": 40,
        "min_p": 0.05,
        "seed": 103,
        "stop": ["\n", "END"],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "reply", "strict": True, "schema": schema},
        },
        "logprobs": True,
        "top_logprobs": 1,
    }
    assert reply.finish == "length"
    assert reply.logprobs == (TokenLogprob("Li", -0.5), TokenLogprob("ma", -1.0))


def test_extra_body_is_sent_and_is_part_of_the_identity() -> None:
    wire = Wire(completion())
    thinking = {"chat_template_kwargs": {"enable_thinking": False}}
    wire.ask(body=thinking)
    assert wire.body["chat_template_kwargs"] == {"enable_thinking": False}
    assert wire.target().identity == f"m@{URL}"
    assert wire.target(body=thinking).identity != wire.target().identity
    assert wire.target(identity="weights-1").identity == "weights-1"


def test_the_key_is_sent_and_the_query_too_but_neither_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_CRED", "abc-123-very-private")
    wire = Wire(failing(401, "no user abc-123-very-private"))
    target = wire.target("http://me:hushhush@gpu.lab:8000/v1/?api-version=2", api_key_env="LAB_CRED")
    with pytest.raises(TargetError) as caught:
        asyncio.run(target.complete(ASK))
    assert not isinstance(caught.value, TargetUnavailable)
    assert len(wire.requests) == 1
    assert dict(wire.requests[0].url.params) == {"api-version": "2"}
    shown = f"{caught.value} {target!r} {target.identity} {target.name}"
    assert "LAB_CRED" in shown
    assert "private" not in shown
    assert "hushhush" not in shown
    assert "api-version" not in shown
    assert target.identity == "m@http://gpu.lab:8000/v1"


def test_bearer_key_from_the_named_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_CRED", " abc-123-very-private\n")
    wire = Wire(completion())
    wire.ask(api_key_env="LAB_CRED")
    assert wire.requests[0].headers["authorization"] == "Bearer abc-123-very-private"
    monkeypatch.delenv("LAB_CRED")
    with pytest.raises(UsageError, match="LAB_CRED"):
        wire.ask(api_key_env="LAB_CRED")
    assert len(wire.requests) == 1


def test_retry_after_is_honoured() -> None:
    wire = Wire(failing(429, "slow down", **{"retry-after": "7"}), completion())
    assert wire.ask().text == "Lima"
    assert len(wire.slept) == 1
    assert 7 <= wire.slept[0] < 8


def test_a_retry_after_beyond_the_cap_gives_up_at_once() -> None:
    wire = Wire(failing(429, "come back tomorrow", **{"retry-after": "86400"}))
    with pytest.raises(TargetUnavailable, match="come back tomorrow"):
        wire.ask()
    assert (len(wire.requests), wire.slept) == (1, [])


@pytest.mark.parametrize("status", [408, 500, 502, 503, 504])
def test_a_passing_status_is_tried_again(status: int) -> None:
    wire = Wire(failing(status, "oops"), completion())
    assert wire.ask().text == "Lima"
    assert len(wire.slept) == 1


def test_tries_run_out_in_one_sentence_with_status_and_request_id() -> None:
    wire = Wire(failing(503, "overloaded", **{"x-request-id": "req-9"}))
    with pytest.raises(TargetUnavailable) as caught:
        wire.ask()
    assert str(caught.value) == f"{URL} answered 503 to request req-9: overloaded (tried 4 times)."
    assert len(wire.requests) == 4
    assert len(wire.slept) == 3
    assert 0.25 <= wire.slept[0] <= 0.5 <= wire.slept[1] <= 1 <= wire.slept[2] <= 2


@pytest.mark.parametrize(
    "broken",
    [
        httpx.ReadError("reset"),
        httpx.RemoteProtocolError("half a head"),
        httpx.Response(200, content=b'{"choices": [{"mess'),
        {"choices": []},
        {"choices": [{"message": {}}]},
        {"choices": None},
        [],
        completion("half an ans", finish_reason="abort"),
    ],
)
def test_a_broken_exchange_is_tried_again(broken: Any) -> None:
    assert Wire(broken, completion()).ask().text == "Lima"
    with pytest.raises(TargetUnavailable, match="tried 2 times"):
        Wire(broken).ask(tries=2)


def test_failures_carry_endpoint_and_request_id() -> None:
    for status in (400, 503):
        with pytest.raises(TargetError) as caught:
            Wire(failing(status, "no", **{"x-request-id": "req-9"})).ask()
        assert (caught.value.endpoint, caught.value.request_id) == (URL, "req-9")
    with pytest.raises(TargetUnavailable) as silent:
        Wire(httpx.ReadTimeout("slow")).ask()
    assert (silent.value.endpoint, silent.value.request_id) == (URL, "")


def test_a_read_timeout_is_tried_again() -> None:
    wire = Wire(httpx.ReadTimeout("slow"))
    with pytest.raises(TargetUnavailable, match=r"within 5 s \(tried 3 times\)"):
        wire.ask(timeout_s=5.0, tries=3)
    assert len(wire.requests) == 3


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "bad top_p"),
        (400, "This model's maximum context length is 512 tokens"),
        (403, "not yours"),
        (404, "The model `m` does not exist."),
        (500, "the request exceeds the available context size"),
    ],
)
def test_what_another_try_cannot_cure_is_raised_at_once(status: int, message: str) -> None:
    wire = Wire(failing(status, message))
    with pytest.raises(TargetError, match=message.rstrip(".").replace("(", ".")) as caught:
        wire.ask()
    assert not isinstance(caught.value, TargetUnavailable)
    assert len(wire.requests) == 1


def test_the_cap_on_all_tries_together_cuts_a_silent_server_short() -> None:
    async def silent(request: httpx.Request) -> httpx.Response:
        await asyncio.Event().wait()
        raise AssertionError

    target = VllmTarget(URL, "m", VllmOptions(total_s=0.05), transport=httpx.MockTransport(silent))
    with pytest.raises(TargetUnavailable, match=r"within 0\.05 s"):
        asyncio.run(target.complete(ASK))


def test_replies_without_text_or_counts_are_replies() -> None:
    assert Wire(completion(None)).ask().text == ""
    bare = {"choices": [{"message": {"content": "abcde"}}], "timings": {"cache_n": 4}}
    assert Wire(bare).ask().usage == Usage(3 + 4, 2, 4)


def test_missing_logprobs_are_an_error() -> None:
    with pytest.raises(TargetError, match="logprobs"):
        Wire(completion()).ask(ChatRequest(ASK.messages, logprobs=True))
    assert "logprobs" not in Wire(completion()).target(lacks=("logprobs",)).capabilities


def test_open_asks_for_models_and_sends_no_completion() -> None:
    wire = Wire({"data": [{"id": "other"}, {"id": "m", "max_model_len": 2048}]})
    target = wire.open()
    assert [(r.method, r.url.path) for r in wire.requests] == [("GET", "/v1/models")]
    assert target.context_tokens == 2048
    assert Wire({"data": [{"id": "m", "meta": {"n_ctx_train": 8192}}]}).open().context_tokens == 8192
    assert Wire({"data": [{"id": "m", "max_model_len": 9}]}).open(context_tokens=5).context_tokens == 5


def test_open_says_what_is_wrong() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'mm'"):
        Wire({"data": [{"id": "mm"}]}).open()
    with pytest.raises(TargetUnavailable) as caught:
        Wire(httpx.ConnectError("refused")).open()
    assert str(caught.value) == f"{URL} does not answer (refused); start the server or correct base_url."
    with pytest.raises(TargetError, match="/v1"):
        Wire({"hello": 1}).open()
    with pytest.raises(TargetError, match="answered 404"):
        Wire(httpx.Response(404, text="Not Found")).open()


def test_a_reset_on_a_real_socket_is_tried_again_on_a_new_connection() -> None:
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(x.split(b":")[1]) for x in head.split(b"\r\n") if x[:15].lower() == b"content-length:"
        )
        seen.append(await reader.readexactly(length))
        if len(seen) == 1:
            writer.transport.abort()
            return
        out = json.dumps(completion()).encode()
        whole = len(out) if len(seen) > 2 else len(out) + 10
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % whole + out)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async def go() -> Reply:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            target = VllmTarget(f"http://127.0.0.1:{port}/v1", "m", sleep=Wire(0).sleep)
            try:
                return await target.complete(ASK)
            finally:
                await target.aclose()

    assert asyncio.run(go()).text == "Lima"
    assert len(seen) == 3
    assert json.loads(seen[0]) == json.loads(seen[2])


def test_one_target_serves_one_loop_after_another() -> None:
    wire = Wire(completion())
    target = wire.target()
    for _ in range(2):
        assert asyncio.run(target.complete(ASK)).text == "Lima"


def test_copies_are_the_target_itself() -> None:
    target = Wire({}).target()
    assert copy.deepcopy(target) is target


def test_build_checks_kinds_and_options() -> None:
    spec = TargetSpec(
        kind="vllm", model="m", base_url=URL, options={"tries": 2, "timeout_s": 5, "lacks": ["seed"]}
    )
    target = build(spec)
    assert target.capabilities == {"schema", "logprobs", "prefix_cache"}
    assert set(TARGETS) == {"embedded", "vllm", "hosted"}
    with pytest.raises(UnknownName, match="Did you mean 'tries'"):
        build(TargetSpec(kind="vllm", model="m", base_url=URL, options={"tris": 2}))
    with pytest.raises(UsageError, match="whole number"):
        build(TargetSpec(kind="vllm", model="m", base_url=URL, options={"tries": "2"}))
    with pytest.raises(UsageError, match="above 0"):
        build(TargetSpec(kind="vllm", model="m", base_url=URL, options={"tries": 0}))
    with pytest.raises(UsageError, match="api_key"):
        build(TargetSpec(kind="vllm", model="m", base_url=URL, options={"body": {"api_key": "x"}}))
    with pytest.raises(UnknownName, match="capability"):
        build(TargetSpec(kind="vllm", model="m", base_url=URL, options={"lacks": ["shema"]}))
    with pytest.raises(UsageError, match="base_url"):
        build(TargetSpec(kind="vllm", model="m"))
    with pytest.raises(UsageError, match="name of the model"):
        build(TargetSpec(kind="vllm", base_url=URL))
    with pytest.raises(UnknownName, match="target kind"):
        build(TargetSpec(kind="vlm", model="m", base_url=URL))


@pytest.mark.parametrize(
    "text",
    [
        "Incorrect API key provided: sk-proj-abc***789xyz.",
        "Authorization: Bearer abcdefghijkl",
        "https://user:abcdefghijkl@host/v1",
        'api_key="abcdefghijkl"',
        "the value odd#value&99 from the environment",
        "a remembered one: qqqwwweee",
    ],
)
def test_redact_masks_whatever_looks_like_a_key(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_SECRET", "odd#value&99")
    remember("qqqwwweee")
    masked = redact(text)
    assert "[redacted]" in masked
    assert not any(s in masked for s in ("abc***", "abcdefghijkl", "odd#value", "qqqwww"))


def test_redact_leaves_ordinary_words_alone() -> None:
    text = "You asked for 5000 tokens; max tokens: 4096, model m at http://127.0.0.1:8000/v1?x=1"
    assert redact(text) == text
