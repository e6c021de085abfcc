"""Dead, refusing and lying servers: one SourceError each."""

from __future__ import annotations

import asyncio

import pytest

from ragc.corpora.sources.web.fetch import fetch
from ragc.errors import SourceError
from tests.support.server import Answer, serving

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"


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
def test_a_server_that_lies_or_refuses_is_one_error(reply: bytes, message: str) -> None:
    with serving() as server:
        server.pages[""] = Answer(reply, raw=True)
        with pytest.raises(SourceError, match=message) as caught:
            asyncio.run(fetch(server.base, allow_loopback=True))
    assert len(str(caught.value)) < 600
    assert "\n" not in str(caught.value)
