"""A target at a server: what it puts on the wire, reads and says beyond what every kind does."""

from __future__ import annotations

import asyncio
import json
import shutil
import ssl
import subprocess
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ragc.errors import (
    RequestRefused,
    TargetError,
    TargetStopped,
    TargetUnavailable,
    UnknownName,
    UsageError,
)
from ragc.targets import build
from ragc.targets.base import ChatRequest, Message, Reply, Sampling, Usage, parts_taker
from ragc.targets.chat import ChatTarget, proxy_of
from ragc.targets.options import TargetSpec, VllmOptions
from ragc.targets.wire import bound_tokens
from tests.support.server import (
    MODEL,
    Answer,
    Asked,
    ScriptedServer,
    build_answer,
    completion,
    failing,
    in_order,
    models,
    serving,
    streaming,
)
from tests.support.targets import KINDS, Waits, finished, target_of

pytestmark = pytest.mark.usefixtures("only_our_key")

URL = "http://127.0.0.1:8000/v1"
ASK = ChatRequest((Message("user", "Capital of Peru?"),))
LIMA = build_answer("Lima")
JSON = '{"answer": "Lima"}'


def ask(server: ScriptedServer, request: ChatRequest = ASK, **options: Any) -> Reply:
    target = target_of("vllm", server.url, Waits(), **options)
    return finished(target, target.complete(request))


def test_what_only_such_servers_take_is_sent_and_defaults_are() -> None:
    thinking: Any = {"reasoning_effort": "low", "chat_template_kwargs": {"enable_thinking": False}}
    with serving(in_order(LIMA)) as server:
        ask(server)
        ask(server, ChatRequest(ASK.messages, sampling=Sampling(0.7, top_k=40, min_p=0.05)), **thinking)
        plain, drawn = server.bodies
    assert plain.keys() == {"model", "messages", "temperature", "top_p", "max_tokens"}
    assert (plain["temperature"], plain["top_p"], plain["max_tokens"]) == (0.0, 1.0, 256)
    assert (drawn["top_k"], drawn["min_p"]) == (40, 0.05)
    assert thinking.items() <= drawn.items()


def test_credentials_and_query_of_the_address_are_sent_and_never_shown() -> None:
    with serving(in_order(failing(401, "no user me"))) as server:
        target: Any = target_of("vllm", f"http://me:hushhush@127.0.0.1:{server.port}/v1/", Waits())
        with pytest.raises(TargetError, match="api_key_env") as caught:
            finished(target, target.complete(ASK))
        assert server.requests[0].headers["authorization"].startswith("Basic ")
    asked = ChatTarget("http://me:hushhush@gpu.lab:8000/v1/?api-version=2", "m")
    shown = f"{caught.value} {target!r} {asked!r} {asked.identity} {asked.name}"
    assert "hushhush" not in shown
    assert "api-version" not in shown
    assert asked.identity == "m@http://gpu.lab:8000/v1"


def test_counts_that_are_not_sent_are_estimated_and_those_of_llama_cpp_read() -> None:
    bare = {"choices": [{"message": {"content": "abcde"}}], "timings": {"cache_n": 4}}
    with serving(in_order(Answer(json.dumps(bare).encode()))) as server:
        assert ask(server).usage == Usage(6, 2, 4)  # a bound by scripts


def opened(answer: Answer) -> ChatTarget:
    with serving() as server:
        server.pages["/v1/models"] = answer
        target = ChatTarget(server.url, MODEL, VllmOptions())
        finished(target, target.open())
        return target


def test_the_card_of_the_model_says_its_context() -> None:
    other = {"id": "other"}
    assert opened(models(other, {"id": MODEL, "max_model_len": 2048})).context_tokens == 2048
    assert opened(models({"id": MODEL, "meta": {"n_ctx_train": 8192}})).context_tokens == 8192


def test_opening_says_what_is_wrong_with_the_address() -> None:
    with pytest.raises(TargetError, match="/v1"):
        opened(Answer(b'{"hello": 1}'))
    opened(Answer(b"Not Found", 404))  # such as a deployment of Azure: the first request says more
    with pytest.raises(TargetStopped, match="redirect to /login; write the address"):
        opened(Answer(b"", 302, headers=(("Location", "/login"),)))


def test_one_target_serves_one_loop_after_another() -> None:
    with serving(in_order(LIMA)) as server:
        target = target_of("vllm", server.url, Waits())

        async def once() -> str:
            text = (await target.complete(ASK)).text
            await target.aclose()
            return text

        assert [asyncio.run(once()), asyncio.run(once())] == ["Lima", "Lima"]


def test_what_a_table_must_say_is_asked_for() -> None:
    with pytest.raises(UsageError, match="base_url"):
        build(TargetSpec(kind="vllm", model="m"))
    with pytest.raises(UsageError, match="name of the model"):
        build(TargetSpec(kind="vllm", base_url=URL))
    with pytest.raises(UnknownName, match="target kind"):
        build(TargetSpec(kind="vlm", model="m", base_url=URL))


CREDIT = "Your credit balance is too low to access the Anthropic API."
BOTH = "`temperature` and `top_p` cannot both be specified for this model."
FORMAT = "This response_format type is unavailable now"
LIMIT = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'."
EXTRA = {
    "detail": [{"loc": ["body", "stop"], "msg": "Extra inputs are not permitted", "input": "billing hard"}]
}
THOUGHT = {"choices": [{"message": {"content": "", "reasoning_content": "Lima"}, "finish_reason": "stop"}]}
ADVICE: list[tuple[int, Any, type[TargetError], str]] = [
    (401, {"error": {"message": "no key"}}, TargetStopped, "api_key_env"),
    (400, [{"error": {"message": "API key not valid. Please pass one."}}], TargetStopped, "api_key_env"),
    (402, {"error": {"message": "Insufficient credits"}}, TargetStopped, "Top up"),
    (400, {"error": {"message": CREDIT}}, TargetStopped, "Top up"),
    (
        404,
        {"error": {"message": "model 'x' not found"}},
        TargetStopped,
        f". Check the model's name '{MODEL}'.",
    ),
    (404, {"detail": "Not Found"}, TargetStopped, "/v1"),
    (405, {"detail": "Method Not Allowed"}, TargetStopped, "base_url"),
    (400, {"error": "the input length exceeds the context length"}, RequestRefused, "a longer context"),
    (400, {"error": {"message": BOTH}}, RequestRefused, 'omit = ["t'),
    (422, EXTRA, RequestRefused, 'omit = ["stop"]'),
    (400, {"error": {"message": FORMAT}}, RequestRefused, 'lacks = ["schema"]'),
    (400, {"error": {"message": LIMIT}}, RequestRefused, "body = { max_completion_tokens = N }"),
    (200, [1], TargetUnavailable, "no chat completion: [1]"),
    (200, {"choices": []}, TargetUnavailable, "no chat completion: {'choices': []}"),
    (200, {"choices": [None]}, TargetUnavailable, "no chat completion: {'choices': [None]}"),
    (200, {"choices": [{"message": None}]}, TargetUnavailable, "{'message': None}"),
    (200, {"choices": [{"message": {"content": 7}}]}, TargetUnavailable, "{'content': 7}"),
    (413, {"error": {"message": "Request too large for model on TPM"}}, RequestRefused, "max_tokens"),
    (200, THOUGHT, TargetUnavailable, "enable_thinking = false"),
    (200, THOUGHT, TargetUnavailable, "without a reasoning parser"),
]


@pytest.mark.parametrize(("status", "body", "kind", "advice"), ADVICE)
def test_an_error_names_what_to_set(status: int, body: Any, kind: type[TargetError], advice: str) -> None:
    with serving(in_order(Answer(json.dumps(body).encode(), status))) as server:
        with pytest.raises(kind) as caught:
            ask(server, tries=1)
        assert len(server.requests) == 1
    assert advice in str(caught.value)


def test_a_body_that_is_no_json_is_shown_by_its_type_and_first_words() -> None:
    page = Answer(b"<html>Log in, please" + b" " * 99, content_type="text/html")
    with (
        serving(in_order(page)) as server,
        pytest.raises(TargetUnavailable, match="no JSON but text/html: <html>Log in, please"),
    ):
        ask(server, tries=1)


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/", "/v1/chat/completions", "/v1/chat"])
def test_an_address_may_be_written_as_people_copy_it(path: str) -> None:
    with serving(in_order(LIMA)) as server:
        server.pages["/models"] = Answer(b'{"error": "Unexpected endpoint or method. (GET /models)"}')
        target = target_of("vllm", server.url.removesuffix("/v1") + path, Waits())

        async def go() -> str:
            await target.open()
            return (await target.complete(ASK)).text

        assert finished(target, go()) == "Lima"


def test_headers_query_and_fields_left_out_are_as_the_options_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_GATE", "secret-of-the-lab")
    options: dict[str, Any] = {
        "headers": {"X-Api-Key": "$LAB_GATE", "X-Team": "a-${LAB_GATE}"},
        "query": {"api-version": "2024-10-21"},
        "omit": ("temperature", "top_p", "max_tokens", "response_format"),
    }
    with serving(in_order(failing(400, "secret-of-the-lab is wrong"), LIMA)) as server:
        with pytest.raises(RequestRefused) as caught:
            ask(server, ChatRequest(ASK.messages, {"type": "object"}), **options)
        assert "secret" not in str(caught.value)
        ask(server, **options)
        request = server.requests[1]
        target = target_of("vllm", server.url, Waits(), **options)
        server.pages[""] = models(MODEL)
        finished(target, target.open())
        assert server.paths == ["/v1/models?api-version=2024-10-21"]
    assert request.headers["x-api-key"] == "secret-of-the-lab"
    assert request.headers["x-team"] == "a-secret-of-the-lab"
    assert request.body.keys() == {"model", "messages"}
    monkeypatch.delenv("LAB_GATE")
    with serving(in_order(LIMA)) as server, pytest.raises(UsageError, match="LAB_GATE is not set"):
        ask(server, **options)
    plain, other = ChatTarget(URL, "m"), ChatTarget(URL, "m", VllmOptions(omit=("top_p",)))
    assert plain.identity != other.identity


def test_a_proxy_of_the_environment_is_used_but_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "lab.example")
    for spelled in ("http://proxy.example:3128", "proxy.example:3128"):
        monkeypatch.setenv("HTTP_PROXY", spelled)
        assert proxy_of("http://gpu.example/v1") == ("http://proxy.example:3128", "HTTP_PROXY")
    assert proxy_of("http://127.0.0.1:8000/v1") == proxy_of("http://lab.example/v1") == ("", "")


def test_a_proxy_that_does_not_answer_is_named_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "me:hushhush@127.0.0.1:9")
    target = ChatTarget("http://gpu.example/v1", "m")
    with pytest.raises(TargetStopped, match=r"the proxy http://\S+@127\.0\.0\.1:9 of ALL_PROXY") as caught:
        finished(target, target.open())
    assert "hushhush" not in str(caught.value)


def test_a_server_without_tls_is_not_said_to_have_a_bad_certificate() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async def go() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        target = ChatTarget(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", "m")
        with pytest.raises(TargetStopped, match=r"speaks no TLS .*; write http://") as caught:
            await target.open()
        assert "certificate" not in str(caught.value)
        await target.aclose()
        server.close()

    asyncio.run(go())


@pytest.mark.parametrize("headers", [{"X-Key": "$BAD"}, {"X-K\x01ey": "v"}])
def test_a_header_that_cannot_be_sent_is_refused_before_anything_is(
    headers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BAD", "a\x01b")
    with serving(in_order(LIMA)) as server:
        with pytest.raises(UsageError, match=r"The header 'x-k\S*ey' holds characters that no header has"):
            ask(server, headers=headers)
        assert not server.requests


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate with openssl")
def test_authorities_of_the_environment_are_trusted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-addext",
            "subjectAltName=DNS:localhost", "-keyout", "key.pem", "-out", "ca.pem"]  # fmt: skip
    subprocess.run(made, cwd=tmp_path, check=True, capture_output=True)
    secure = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    secure.load_cert_chain(tmp_path / "ca.pem", tmp_path / "key.pem")

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(LIMA.body) + LIMA.body)
        await writer.drain()

    async def go() -> None:
        server = await asyncio.start_server(answer, "localhost", 0, ssl=secure)
        url = f"https://localhost:{server.sockets[0].getsockname()[1]}/v1"
        plain = ChatTarget(url, "m", VllmOptions(tries=1))
        with pytest.raises(TargetStopped, match="SSL_CERT_FILE"):
            await plain.complete(ASK)
        await plain.aclose()
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        target = ChatTarget(url, "m", VllmOptions(tries=1))
        assert (await target.complete(ASK)).text == "Lima"
        await target.aclose()
        server.close()

    asyncio.run(go())


@pytest.mark.parametrize("owner", ["vllm", "llamacpp"])
def test_tokens_of_other_scripts_are_counted_by_the_server_once_a_text(owner: str) -> None:
    with serving(in_order(LIMA)) as server:
        server.pages["/v1/models"] = models({"id": MODEL, "owned_by": owner})
        body = {"count": 7} if owner == "vllm" else {"tokens": [1] * 7}
        server.pages["/tokenize"] = Answer(json.dumps(body).encode())
        target = target_of("vllm", server.url, Waits())
        finished(target, target.open())
        assert [target.count_tokens(text) for text in ("ลิมา", "ลิมา", "Lima", "")] == [7, 7, 2, 0]
        assert server.paths.count("/tokenize") == 1
        server.pages["/tokenize"] = Answer(b"Not Found", 404)
        assert [target.count_tokens("เปรู"), target.count_tokens("และ")] == [12, 9]
        assert server.paths.count("/tokenize") == 2


TEXTS = {
    "English": ("The quick brown fox jumps over the lazy dog.", 10),
    "Chinese": ("\u79d8\u9c81\u7684\u9996\u90fd\u662f\u5229\u9a6c\u3002", 11),
    "digits": ("3.14159265358979", 12),
    "code": ("def f(x): return {'a': [x, x**2]}", 16),
    "emoji": ("\U0001f600\U0001f680", 4),
}


@pytest.mark.parametrize(("text", "tokens"), TEXTS.values(), ids=list(TEXTS))
def test_a_bound_of_tokens_holds_in_every_script(text: str, tokens: int) -> None:
    assert bound_tokens(text) >= tokens


@pytest.mark.parametrize("kind", KINDS)
def test_parts_of_a_reply_are_shown_as_they_come_and_it_is_the_same_reply(kind: str) -> None:
    def script(request: Asked) -> Answer:
        if not request.body.get("stream"):
            return completion({"content": JSON, "reasoning_content": "Peru, hm"})
        deltas = [{"role": "assistant", "reasoning_content": "Peru, "}, {"reasoning_content": "hm"}]
        deltas += [{"content": JSON[:9]}, {"content": JSON[9:]}]
        return streaming(*({"delta": delta} for delta in deltas), {"delta": {}, "finish_reason": "stop"})

    with serving(script) as server, warnings.catch_warnings():  # of LiteLLM, about its own types
        warnings.simplefilter("ignore")
        (whole, streamed), shown = both(server, kind)
    assert shown == [JSON[:9], JSON[9:]]
    assert streamed == whole
    assert (streamed.text, streamed.reasoning) == (JSON, "Peru, hm")


def both(server: ScriptedServer, kind: str = "vllm") -> tuple[list[Reply], list[str]]:
    """The reply at once and in parts, and the parts."""
    target, shown = target_of(kind, server.url, Waits(), tries=2), list[str]()

    async def go() -> list[Reply]:
        whole = await target.complete(ASK)
        token = parts_taker.set(shown.append)
        try:
            return [whole, await target.complete(ASK)]
        finally:
            parts_taker.reset(token)

    return finished(target, go()), shown


def test_a_server_that_does_not_stream_answers_all_the_same() -> None:
    with serving(in_order(LIMA)) as server:
        (whole, streamed), shown = both(server)
    assert whole == streamed
    assert shown == []


def in_part(answer: Answer, request: Asked) -> Answer:
    return answer if request.body.get("stream") else LIMA


def test_a_stream_that_breaks_off_is_not_begun_again_once_something_was_shown() -> None:
    parts = streaming({"delta": {"content": "Lim"}})
    silent = streaming({"delta": {"content": ""}})
    for answer, said in ((parts, "ended the stream before"), (silent, "tried 2 times")):
        script = partial(in_part, answer)
        with serving(script) as server, pytest.raises(TargetUnavailable, match=said):
            both(server)
        assert len(server.requests) == (2 if answer is parts else 3)


def test_calls_of_tools_come_in_mixed_parts_too() -> None:
    parts = [
        {"index": 0, "id": "c", "function": {"name": "search", "arguments": '{"q"'}},
        {"index": 1, "id": "d", "function": {"name": "open", "arguments": "{"}},
        {"index": 0, "function": {"arguments": ': "x"}'}},
        {"index": 1, "function": {"arguments": "}"}},
    ]
    deltas = [{"delta": {"tool_calls": [part]}} for part in parts]
    answer = streaming(*deltas, {"delta": {}, "finish_reason": "tool_calls"})
    with serving(partial(in_part, answer)) as server:
        (_, streamed), _ = both(server)
    assert (streamed.text, streamed.finish) == ('search({"q": "x"})\nopen({})', "tool_calls")
