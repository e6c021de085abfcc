"""Requests that come in many parts."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from ragc.testing import ScriptedTarget
from tests.serving.server import Running, running

CHAT = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
BODY = {"model": "colours", "messages": [{"role": "user", "content": "What colour is thing number7?"}]}


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


def test_a_body_in_many_parts_is_one_request(server: Running) -> None:
    text = httpx.Request("POST", server.address, json=BODY).read()
    with opened(server) as client:
        client.sendall(CHAT + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n")
        for number in range(len(text)):
            client.sendall(b"1\r\n" + text[number : number + 1] + b"\r\n")
        client.sendall(b"0\r\n\r\n")
        assert rest_of(client).startswith(b"HTTP/1.1 200")
