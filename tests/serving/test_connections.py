"""Connections that attack: parts of a request without an end, and requests that never become whole."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from ragc.serving import connection
from ragc.testing import ScriptedTarget
from tests.serving.server import PartsTarget, Running, running, until

CHAT = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
MUCH = 64 << 20
"""Bytes, more than lie in buffers between client and server."""

BODY = {"model": "colours", "messages": [{"role": "user", "content": "What colour is thing number7?"}]}
WITHOUT_END = {
    "address": (b"GET /", b"a"),
    "name of a header": (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n", b"X"),
    "value of a header": (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ", b"a"),
    "headers": (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n", b"X: a\r\n"),
    "extension of a chunk": (CHAT + b"Transfer-Encoding: chunked\r\n\r\n1;", b"a"),
    "trailer": (CHAT + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX: ", b"a"),
    "trailers": (CHAT + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n", b"X: a\r\n"),
}


@pytest.fixture(scope="module")
def server(colours: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAGC_HOME", str(tmp_path_factory.mktemp("home")))
        with running([colours], {"main": ScriptedTarget(lambda request: {"answer": "red"})}) as served:
            yield served


def opened(server: Running) -> socket.socket:
    host, port = server.address.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=20)


def rest_of(client: socket.socket) -> bytes:
    """What the server still sends before it closes the connection."""
    received = b""
    try:
        while part := client.recv(1 << 16):
            received += part
    except ConnectionError:
        pass
    return received


@pytest.mark.parametrize("what", WITHOUT_END)
def test_what_has_no_end_is_cut_off(server: Running, what: str) -> None:
    begun, more = WITHOUT_END[what]
    with opened(server) as client:
        client.sendall(begun)
        sent, part = 0, more * 10_000
        try:
            while sent < MUCH:
                client.sendall(part)
                sent += len(part)
        except ConnectionError:
            pass
        assert sent < MUCH
        reply = rest_of(client)
    assert not reply or reply.startswith(b"HTTP/1.1 400")
    assert httpx.get(f"{server.address}/healthz", timeout=30).status_code == 200


@pytest.mark.parametrize(
    ("sent", "reply_start"),
    [
        (b"", b""),
        (b"GET /healthz HT", b"HTTP/1.1 400"),
        (CHAT + b"Content-Length: 100\r\n\r\n{", b"HTTP/1.1 400"),
    ],
    ids=["nothing", "half a head", "half a body"],
)
def test_requests_that_never_become_whole_are_left(
    server: Running, monkeypatch: pytest.MonkeyPatch, sent: bytes, reply_start: bytes
) -> None:
    monkeypatch.setattr(connection, "REQUEST_SECONDS", 0.3)
    with opened(server) as client:
        client.sendall(sent)
        begun = time.monotonic()
        assert rest_of(client).startswith(reply_start)
        assert time.monotonic() - begun < 15


def test_an_answer_may_take_longer_than_a_request_may(colours: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "REQUEST_SECONDS", 0.2)
    target = PartsTarget(lambda request: {"answer": "red"})
    with running([colours], {"main": target}) as served:
        replies: list[httpx.Response] = []
        url = f"{served.v1}/chat/completions"
        asking = threading.Thread(target=lambda: replies.append(httpx.post(url, json=BODY, timeout=30)))
        asking.start()
        assert until(lambda: served.service.in_flight == 1)
        time.sleep(0.5)
        target.go.set()
        asking.join()
    assert replies[0].status_code == 200


def test_a_body_in_many_parts_is_one_request(server: Running) -> None:
    text = httpx.Request("POST", server.address, json=BODY).read()
    with opened(server) as client:
        client.sendall(CHAT + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n")
        for number in range(len(text)):
            client.sendall(b"1\r\n" + text[number : number + 1] + b"\r\n")
        client.sendall(b"0\r\n\r\n")
        assert rest_of(client).startswith(b"HTTP/1.1 200")
