"""What the pooled connections put on a real wire, and what they make of replies."""

from __future__ import annotations

import asyncio
import base64
import gzip
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress

import httpx
import pytest

from ragc.core.http import Pool, Response, never_connected
from tests.support.loopback import Loopback


class Wire:
    """A server on this machine that keeps what it was sent and answers each request with `reply`."""

    def __init__(self, reply: bytes) -> None:
        self.reply = reply
        self.heads: list[bytes] = []
        self._open: list[asyncio.Task[None] | None] = []

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.append(asyncio.current_task())
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                lengths = [
                    line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")
                ]
                await reader.readexactly(int(lengths[0].split(b":")[1]) if lengths else 0)
                self.heads.append(head)
                writer.write(self.reply)
                await writer.drain()
        writer.close()
        await writer.wait_closed()

    def fetch(
        self, path: str, *, url: str = "http://127.0.0.1:{port}/v1", headers: Mapping[str, str] | None = None
    ) -> Response:
        """What a pool gets for one request with a body."""

        async def go() -> Response:
            server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
            async with server:
                address = httpx.URL(url.format(port=server.sockets[0].getsockname()[1]))
                pool = Pool(address, httpx.Timeout(5), 2, lambda: headers or {})
                try:
                    return await pool.send("POST", path, b"{}")
                finally:
                    await pool.aclose()
                    await asyncio.gather(*filter(None, self._open))

        return asyncio.run(go())

    def sent(self, name: str) -> list[str]:
        """The values of one header of the last request."""
        lines = [line.decode().partition(": ") for line in self.heads[-1].split(b"\r\n")[1:]]
        return [value for field, _, value in lines if field.lower() == name]


def build_response(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    """A whole response."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def test_path_query_credentials_and_headers_are_sent() -> None:
    wire = Wire(build_response(b"{}"))
    url = "http://me:p%40ss@127.0.0.1:{port}/a%20b/v1/?key=a%2Fb"
    wire.fetch("/chat/completions", url=url, headers={"content-type": "application/json", "x-own": "1"})
    assert wire.heads[0].startswith(b"POST /a%20b/v1/chat/completions?key=a%2Fb HTTP/1.1\r\n")
    known = base64.b64encode(b"me:p@ss").decode()
    assert wire.sent("authorization") == [f"Basic {known}"]
    assert (wire.sent("content-type"), wire.sent("x-own")) == (["application/json"], ["1"])
    assert (wire.sent("user-agent"), wire.sent("content-length")) == (["ragc"], ["2"])


def test_a_body_is_decoded_and_headers_are_found_by_any_spelling() -> None:
    wire = Wire(
        build_response(gzip.compress(b'{"a":1}'), "429 Busy", "Content-Encoding: gzip", "Retry-After: 3")
    )
    response = wire.fetch("/x")
    assert (response.status_code, response.content, response.headers.get("retry-after")) == (
        429,
        b'{"a":1}',
        "3",
    )


def test_a_redirect_is_not_followed_and_a_cookie_not_kept() -> None:
    wire = Wire(build_response(b"", "307 Elsewhere", "Location: /other", "Set-Cookie: a=b"))
    assert wire.fetch("/x").status_code == 307
    assert len(wire.heads) == 1


def test_a_body_that_cannot_be_decoded_is_a_broken_exchange() -> None:
    wire = Wire(build_response(b"no gzip", "200 OK", "Content-Encoding: gzip"))
    with pytest.raises(httpx.HTTPError):
        wire.fetch("/x")


def test_nobody_at_the_other_end_is_an_error_of_connecting() -> None:
    pool = Pool(httpx.URL("http://127.0.0.1:9/v1"), httpx.Timeout(5), 2, dict)

    async def go() -> None:
        try:
            await pool.send("GET", "/models")
        finally:
            await pool.aclose()

    with pytest.raises(httpx.HTTPError) as caught:
        asyncio.run(go())
    assert never_connected(caught.value)


DROPPED = """
import gc, sys, threading
import httpx
from ragc.core import event_loop as loop
from ragc.core.http import Pool

pool = Pool(httpx.URL(sys.argv[1]), httpx.Timeout(5), 2, dict)
loop.run(pool.send("POST", "/chat/completions", b"{}"))
cycle = [pool]
cycle.append(cycle)
del pool, cycle
gc.collect()
loop.release()
assert not loop._orphans
"""


def test_connections_of_a_pool_that_was_dropped_in_a_cycle_are_closed() -> None:
    with Loopback(latency_s=0.0) as server:
        done = subprocess.run(
            [sys.executable, "-c", DROPPED, server.url],
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
