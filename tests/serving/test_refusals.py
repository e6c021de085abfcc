"""What is refused, and how: OpenAI-shaped errors that disturb nothing else."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import ragc
from ragc.errors import RagcError, RequestRefused, TargetStopped, TargetUnavailable
from ragc.serving.settings import Settings, key_digests
from ragc.targets.base import ChatRequest
from ragc.testing import ScriptedTarget
from tests.examples import thorough
from tests.serving.server import KEY, OTHER, PartsTarget, Running, running, until

QUESTION = "What colour is thing number7?"
USER = {"role": "user", "content": QUESTION}
BODY: dict[str, Any] = {"model": "colours", "messages": [USER]}


def red(request: ChatRequest) -> dict[str, str]:
    return {"answer": "red"}


@pytest.fixture(scope="module")
def target() -> ScriptedTarget:
    return ScriptedTarget(red)


@pytest.fixture(scope="module")
def server(
    colours: Path, target: ScriptedTarget, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAGC_HOME", str(tmp_path_factory.mktemp("home")))
        with running([colours], {"main": target}) as served:
            yield served


def refusal(reply: httpx.Response, status: int) -> dict[str, Any]:
    """The error of `reply`, which has OpenAI's shape and nothing beside it."""
    assert reply.status_code == status, reply.text
    body = reply.json()
    assert body.keys() == {"error"}
    assert body["error"].keys() == {"message", "type", "param", "code"}
    return dict(body["error"])


CHAT = [
    ({"tools": [{"type": "function"}]}, "tools"),
    ({"n": 2}, "n"),
    ({"logprobs": True}, "logprobs"),
    ({"response_format": {"type": "json_object"}}, "response_format"),
    ({"stream": "yes"}, "stream"),
    ({"model": None}, "model"),
    ({"messages": []}, "messages"),
    ({"messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content"),
    ({"messages": [USER, {"role": "assistant", "content": "x"}]}, "messages"),
    ({"messages": [{"role": "user", "content": " "}]}, "messages"),
    ({"messages": ["x"]}, "messages[0]"),
    ({"ragc": {"steps": 1}}, "ragc.steps"),
    ({"ragc": {"step": True}}, "ragc"),
    ({"ragc": {"stream": "never"}}, "ragc.stream"),
]


@pytest.mark.parametrize(("change", "param"), CHAT, ids=[str(change)[:50] for change, _ in CHAT])
def test_parameters_of_chat(
    server: Running, target: ScriptedTarget, change: dict[str, Any], param: str
) -> None:
    before = len(target.requests)
    error = refusal(httpx.post(f"{server.v1}/chat/completions", json={**BODY, **change}), 400)
    assert (error["type"], error["param"]) == ("invalid_request_error", param)
    assert len(target.requests) == before


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"text": {"format": {"type": "json_schema"}}}, "text.format"),
        ({"input": [{"type": "function_call_output"}]}, "input[0].type"),
        ({"input": None}, "input"),
    ],
)
def test_parameters_of_responses(server: Running, change: dict[str, Any], param: str) -> None:
    body = {"model": "colours", "input": QUESTION, **change}
    assert refusal(httpx.post(f"{server.v1}/responses", json=body), 400)["param"] == param


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b"\xff", b"[" * 100_000], ids=range(5))
def test_what_is_no_json_object(server: Running, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    reply = httpx.post(f"{server.v1}/chat/completions", content=body, headers=headers)
    assert refusal(reply, 400)["code"] == "invalid_json"


def test_ten_megabytes(server: Running) -> None:
    body = {"model": "colours", "messages": [{"role": "user", "content": "x" * 10_000_000}]}
    try:
        error = refusal(httpx.post(f"{server.v1}/chat/completions", json=body), 413)
        assert error["code"] == "too_large"
    except httpx.WriteError:  # the server does not read what it refuses
        pass
    assert httpx.get(f"{server.address}/healthz").json() == {"status": "ok"}


def test_a_body_without_a_length_is_measured_as_it_comes(server: Running) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(40):
            yield b" " * 100_000

    headers = {"Content-Type": "application/json"}
    try:
        reply = httpx.post(f"{server.v1}/chat/completions", content=chunks(), headers=headers)
        refusal(reply, 413)
    except httpx.WriteError:
        pass
    assert httpx.get(f"{server.address}/healthz").status_code == 200


def test_other_types_are_not_read(server: Running) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        reply = httpx.post(
            f"{server.v1}/chat/completions", content=json.dumps(BODY), headers={"Content-Type": kind}
        )
        assert refusal(reply, 415)["code"] == "content_type"


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Host": "evil.example"},
        {"Host": "evil.example:8080", "Origin": "http://evil.example:8080"},
        {"Host": "127.0.0.1.evil.example"},
    ],
    ids=str,
)
def test_pages_of_other_origins_and_rebound_names(
    server: Running, target: ScriptedTarget, headers: dict[str, str]
) -> None:
    before = len(target.requests)
    reply = httpx.post(f"{server.v1}/chat/completions", json=BODY, headers=headers)
    assert refusal(reply, 403)["type"] == "permission_error"
    assert "access-control-allow-origin" not in reply.headers
    assert httpx.get(f"{server.v1}/models", headers=headers).status_code == 403
    assert len(target.requests) == before


def test_no_preflight_succeeds(server: Running) -> None:
    asking = {"Origin": server.address, "Access-Control-Request-Method": "POST"}
    reply = httpx.options(f"{server.v1}/chat/completions", headers=asking)
    assert refusal(reply, 405)["code"] == "method_not_allowed"
    assert not [name for name in reply.headers if name.startswith("access-control")]


def test_unknown_addresses(server: Running) -> None:
    for path in ("/docs", "/openapi.json", "/v1", "/v1/embeddings"):
        assert refusal(httpx.get(server.address + path), 404)["code"] == "not_found"


def test_keys(colours: Path, home: Path) -> None:
    target = ScriptedTarget(red)
    settings = Settings(port=0, key_digests=key_digests([KEY, OTHER]))
    with running([colours], {"main": target}, settings) as served:
        url = f"{served.v1}/chat/completions"
        for wrong in (
            {},
            {"Authorization": "Bearer wrong"},
            {"Authorization": KEY},
            {"Authorization": "Basic x"},
        ):
            assert refusal(httpx.post(url, json=BODY, headers=wrong), 401)["code"] == "invalid_api_key"
            assert httpx.get(f"{served.v1}/models", headers=wrong).status_code == 401
        assert target.requests == []
        assert httpx.get(f"{served.address}/healthz").status_code == 200

        def replayed(key: str) -> bool:
            reply = httpx.post(url, json=BODY, headers={"Authorization": f"Bearer {key}"})
            return bool(reply.json()["ragc"]["replayed"])

        # What one key brought is not replayed to another.
        assert [replayed(key) for key in (KEY, KEY, OTHER, OTHER)] == [False, True, False, True]
        assert len(target.requests) == 2
    assert not [path for path in home.rglob("*") if path.is_file() and QUESTION.encode() in path.read_bytes()]


def test_replies_are_written_with_keep_only(colours: Path, home: Path) -> None:
    sent = []
    for keep in (False, True, True):
        target = ScriptedTarget(red)
        with running([colours], {"main": target}, Settings(port=0, keep=keep)) as served:
            httpx.post(f"{served.v1}/chat/completions", json=BODY)
        sent.append(len(target.requests))
    assert sent == [1, 1, 0]


def test_a_host_beyond_loopback_needs_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for host in ("0.0.0.0", "192.0.2.1", "::", "example.org"):
        with pytest.raises(ragc.UsageError, match="RAGC_SERVE_KEYS"):
            Settings(host=host)
    for host in ("127.0.0.1", "localhost", "::1", "127.1.2.3"):
        Settings(host=host)
    monkeypatch.setenv("RAGC_SERVE_KEYS", f"{KEY}, {OTHER}")
    assert len(Settings(host="0.0.0.0", key_digests=key_digests()).key_digests) == 2
    assert KEY not in repr(Settings(host="0.0.0.0", key_digests=key_digests()))
    monkeypatch.setenv("RAGC_SERVE_KEYS", "short")
    with pytest.raises(ragc.UsageError, match="under 16 characters"):
        key_digests()


def test_too_many_in_flight_and_too_slow_answers(colours: Path) -> None:
    target = PartsTarget(red)
    with running([colours], {"main": target}, Settings(port=0, in_flight=1, time_out=1.5)) as served:
        url, slow = f"{served.v1}/chat/completions", list[httpx.Response]()
        thread = threading.Thread(target=lambda: slow.append(httpx.post(url, json=BODY, timeout=20)))
        thread.start()
        assert until(lambda: served.service.in_flight == 1)
        reply = httpx.post(url, json=BODY)
        assert (refusal(reply, 429)["type"], reply.headers["retry-after"]) == ("rate_limit_error", "1")
        thread.join()
        assert refusal(slow[0], 504)["code"] == "timeout"
        assert served.service.in_flight == 0
        target.go.set()
        assert httpx.post(url, json=BODY).status_code == 200


def test_earlier_turns_and_system_messages_may_be_refused(colours: Path) -> None:
    target = ScriptedTarget(red)
    with running([colours], {"main": target}, Settings(port=0, history="refuse", system="refuse")) as served:
        url = f"{served.v1}/chat/completions"
        for more in ([USER, {"role": "assistant", "content": "x"}], [{"role": "system", "content": "x"}]):
            body = {**BODY, "messages": [*more, USER]}
            assert refusal(httpx.post(url, json=body), 400)["param"] == "messages"
        assert target.requests == []
        assert httpx.post(url, json=BODY).status_code == 200


def test_failed_models_are_errors_of_the_server(colours: Path) -> None:
    def refuses(request: ChatRequest) -> Any:
        raise ragc.TargetUnavailable("the model is away")

    for script, status, code in (
        (refuses, 503, "unavailable"),
        (lambda request: "", 502, "unreadable_reply"),
    ):
        with running([colours], {"main": ScriptedTarget(script)}) as served:
            for stream in (False, True):
                reply = httpx.post(f"{served.v1}/chat/completions", json={**BODY, "stream": stream})
                assert refusal(reply, status)["code"] == code


@thorough
def test_sigterm_ends_the_command_with_exit_0(colours: Path, home: Path) -> None:
    options = ["--port", "0", "--json", "--base", str(colours.parent)]
    command = [sys.executable, "-m", "ragc", "serve", str(colours), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        message = "".join(process.stdout.readline() for _ in range(3))
        address = json.loads(message)["address"]
        assert httpx.get(f"{address}/v1/models").json()["data"][0]["id"] == "colours"
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (0, "")


def test_a_port_that_is_taken_is_one_sentence(colours: Path, home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [
            sys.executable,
            "-m",
            "ragc",
            "serve",
            str(colours),
            "--port",
            port,
            "--base",
            str(colours.parent),
        ]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert f"cannot listen on 127.0.0.1, port {port}" in done.stderr


def test_a_program_from_elsewhere_is_refused(stranger: Path) -> None:
    with pytest.raises(ragc.Untrusted):
        ragc.serve(stranger, port=0)


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (RequestRefused("A content filter refused the prompt.", "filtered"), 400, "content_filter"),
        (RequestRefused("The prompt has 9000 tokens.", "too long"), 400, "context_length_exceeded"),
        (RequestRefused("The server refuses a parameter.", "failed"), 502, "refused"),
        (TargetUnavailable("The server does not answer (HTTP 529)."), 503, "unavailable"),
        (TargetStopped("The key is refused (HTTP 401)."), 503, "unavailable"),
    ],
)
def test_a_request_that_fails_is_one_questions_error_and_the_server_goes_on(
    colours: Path, error: RagcError, status: int, code: str
) -> None:
    def reply(request: ChatRequest) -> dict[str, str]:
        if "number7?" in request.messages[-1].content:
            raise error
        return {"answer": "red"}

    fine = {**BODY, "messages": [{"role": "user", "content": "What colour is thing number8?"}]}
    with running([colours], {"main": ScriptedTarget(reply)}) as served:
        for _ in range(6):  # more than end a run
            refused = refusal(httpx.post(f"{served.v1}/chat/completions", json=BODY), status)
            assert (refused["message"], refused["code"]) == (str(error), code)
        answered = httpx.post(f"{served.v1}/chat/completions", json=fine)
        assert answered.json()["choices"][0]["message"]["content"].startswith("red")
