"""What the pooled connections put on a real wire, and what they make of replies."""

from __future__ import annotations

import asyncio
import base64
import gzip
import subprocess
import sys

import httpx
import pytest

from ragc.core.http import Pool, Response, never_connected
from tests.support.loopback import Loopback
from tests.support.server import Answer, Visit, serving


def fetch(
    answer: Answer, *, path: str = "/x", url: str = "http://127.0.0.1:{port}/v1", **headers: str
) -> tuple[Response, Visit]:
    """What a pool gets for its only request with a body, and what the server saw of it."""
    with serving() as server:
        server.pages[""] = answer

        async def go() -> Response:
            pool = Pool(httpx.URL(url.format(port=server.port)), httpx.Timeout(5), 2, lambda: headers)
            try:
                return await pool.send("POST", path, b"{}")
            finally:
                await pool.aclose()

        response = asyncio.run(go())
        (visit,) = server.visits
        return response, visit


def test_path_query_credentials_and_headers_are_sent() -> None:
    url = "http://me:p%40ss@127.0.0.1:{port}/a%20b/v1/?key=a%2Fb"
    own = {"content-type": "application/json", "x-own": "1"}
    _, visit = fetch(Answer(b"{}"), path="/chat/completions", url=url, **own)
    assert visit.path == "/a%20b/v1/chat/completions?key=a%2Fb"
    known = {"authorization": f"Basic {base64.b64encode(b'me:p@ss').decode()}", "user-agent": "ragc"}
    assert (known | own | {"content-length": "2"}).items() <= visit.headers.items()


def test_a_body_is_decoded_and_headers_are_found_by_any_spelling() -> None:
    named = (("Content-Encoding", "gzip"), ("Retry-After", "3"))
    response, _ = fetch(Answer(gzip.compress(b'{"a":1}'), 429, headers=named))
    assert (response.status_code, response.content) == (429, b'{"a":1}')
    assert response.headers.get("retry-after") == "3"


def test_a_redirect_is_not_followed_and_a_cookie_not_kept() -> None:
    response, _ = fetch(Answer(b"", 307, headers=(("Location", "/other"), ("Set-Cookie", "a=b"))))
    assert response.status_code == 307


def test_a_body_that_cannot_be_decoded_is_a_broken_exchange() -> None:
    with pytest.raises(httpx.HTTPError):
        fetch(Answer(b"no gzip", headers=(("Content-Encoding", "gzip"),)))


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
