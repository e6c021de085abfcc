"""Dead, refusing and lying servers, and engines and APIs that answer with garbage: one SourceError each."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import httpx
import pytest

from ragc.corpora.sources.crag_api.client import ApiClient, Limits
from ragc.corpora.sources.web.engine import EngineBusy, WebResult
from ragc.corpora.sources.web.fetch import fetch
from ragc.corpora.sources.web.source import WebSource
from ragc.errors import SourceError

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"


class Raw:
    """A server of one reply, byte for byte, after which it hangs up."""

    def __init__(self) -> None:
        self.reply = b""
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}/"
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self) -> None:
        while True:
            client, _ = self.socket.accept()
            with client:
                if client.recv(65_536) == b"stop":
                    return
                try:
                    client.sendall(self.reply)
                except OSError:
                    continue  # the client had enough

    def close(self) -> None:
        with socket.create_connection(self.socket.getsockname()) as last:
            last.sendall(b"stop")
        self.thread.join()
        self.socket.close()


@pytest.fixture
def server() -> Iterator[Raw]:
    raw_server = Raw()
    yield raw_server
    raw_server.close()


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (b"", "could not be fetched"),
        (b"garbage, no HTTP\r\n\r\n", "could not be fetched"),
        (HEAD + b"Content-Length: 100\r\n\r\nshort", "could not be fetched"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", "could not be fetched"),
        (
            HEAD
            + b"Content-Encoding: gzip\r\n\r\n\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff",
            "could not be fetched",
        ),
        (HEAD + b"X: " + b"a" * 1_000_000 + b"\r\n\r\n", "could not be fetched"),
        (HEAD + b"\r\n" + b"x" * 6_000_000, "larger than 5000000 bytes"),
        (b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3600\r\n\r\n", "status 429"),
        (b"HTTP/1.1 429 Too Many Requests\r\n\r\n", "status 429"),
        (b"HTTP/1.1 503 Unavailable\r\nRetry-After: nonsense\r\n\r\n", "status 503"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://[::bad\r\n\r\n", "no URL|could not be fetched"),
        (b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n", "neither http nor https"),
        (b"HTTP/1.1 302 Found\r\n\r\n", "status 302"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", "status 204"),
    ],
    ids=range(14),
)
def test_a_server_that_lies_or_refuses_is_one_error(server: Raw, reply: bytes, message: str) -> None:
    server.reply = reply
    with pytest.raises(SourceError, match=message) as caught:
        asyncio.run(fetch(server.url, allow_loopback=True))
    assert len(str(caught.value)) < 600
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("error", [EngineBusy("429"), SourceError("garbage")])
def test_a_search_that_fails_leaves_the_next_one_whole(error: Exception) -> None:
    failures = [error]

    class Fake:
        def __init__(self) -> None:
            self.identity: Mapping[str, Any] = {"library": "fake"}

        def search(self, query: str, n: int) -> Sequence[WebResult]:
            if failures:
                raise failures.pop()
            return [WebResult("http://a.example/", "A", "cats")]

    web = WebSource(Fake(), per_second=1000.0, backoff=0.0, tries=1)
    with pytest.raises(SourceError):
        asyncio.run(web.search("cats", 3))
    assert [hit.passage.text for hit in asyncio.run(web.search("cats", 3))] == ["cats"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (json.dumps({"result": list(range(100))}).encode()[:-20], "not JSON"),
        (b"<!DOCTYPE html><html><body>502 Bad Gateway</body></html>", "not JSON"),
        (b"\x00" * 100, "not JSON"),
        (b'{"result": 1} {"result": 2}', "not JSON"),
        (b"null", "without `result`"),
        (b'"result"', "without `result`"),
        (b'{"result": ' + b"1" * 5000 + b"}", "not JSON"),
        (b" " * 10_000_000, "not JSON"),
    ],
    ids=range(8),
)
def test_an_api_that_answers_with_garbage_fails_at_once(body: bytes, message: str) -> None:
    requests: list[Any] = []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return httpx.Response(200, content=body)

    client = ApiClient("http://api.test/", Limits(), transport=httpx.MockTransport(answer))
    with pytest.raises(SourceError, match=message):
        asyncio.run(client.ask("/movie/get_movie_info", query="x"))
    assert len(requests) == 1
