"""Pages come from public addresses only, within their limits, through checked redirects."""

from __future__ import annotations

import asyncio
import gzip
import re
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from ragc.corpora.sources.web.fetch import REDIRECTS, FetchedPage, fetch
from ragc.errors import SourceError
from tests.support.server import Answer, ScriptedServer, serving

HTML = "text/html; charset=utf-8"


@pytest.fixture
def site() -> Iterator[ScriptedServer]:
    with serving() as server:
        server.pages["/"] = Answer(b"<p>hello</p>", 200, HTML)
        yield server


def redirect(site: ScriptedServer, path: str, to: str) -> str:
    """An address of `site` that leads to another."""
    site.pages[path] = Answer(b"", 302, headers=(("Location", to),))
    return site.base + path


def gzipped(body: bytes, coding: str = "gzip") -> Answer:
    return Answer(body, 200, HTML, (("Content-Encoding", coding),))


def get(url: str, **more: Any) -> FetchedPage:
    return asyncio.run(fetch(url, **{"allow_loopback": True, **more}))


def refusal(url: str, **more: Any) -> str:
    with pytest.raises(SourceError) as caught:
        get(url, **more)
    return str(caught.value)


def resolving(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> list[str]:
    """Let the n-th look-up find the addresses of the n-th answer; returns the names looked up."""
    hosts: list[str] = []
    left = list(answers)

    def lookup(host: Any, port: Any, *args: Any, **more: Any) -> list[Any]:
        hosts.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (name, port)) for name in left.pop(0)]

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    return hosts


def test_a_page_is_fetched(site: ScriptedServer) -> None:
    assert get(f"{site.base}/#part") == FetchedPage(f"{site.base}/", "text/html", "<p>hello</p>")


def test_loopback_is_refused_unless_it_is_allowed(site: ScriptedServer) -> None:
    assert "a loopback address" in refusal(site.base, allow_loopback=False)
    assert "a loopback address" in refusal(f"http://localhost:{site.port}/", allow_loopback=False)
    assert site.visits == []


INSIDE = [
    *("127.0.0.1", "127.8.8.8", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1"),
    *("0.0.0.0", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255", "192.0.2.1", "198.18.0.1"),
    *("::1", "::", "fe80::1", "fe80::1%eth0", "fec0::1", "fc00::1", "fd12::1", "ff02::1", "2001:db8::1"),
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "64:ff9b::7f00:1"),
    *("64:ff9b::a00:1", "2002:7f00:1::", "2002:c0a8:101::1", "2001:0:4136:e378:8000:63bf:f5ff:fffe", "no"),
]


@pytest.mark.parametrize("address", INSIDE)
def test_addresses_inside_are_refused(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    resolving(monkeypatch, ["93.184.216.34", address])
    assert address in refusal("http://site.example/", allow_loopback=False)


def test_the_checked_address_is_the_one_connected_to(
    site: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = resolving(monkeypatch, ["127.0.0.1"])  # a second look-up would fail
    assert get(f"http://site.example:{site.port}/").url == f"http://site.example:{site.port}/"
    assert hosts == ["site.example"]
    assert [(visit.path, visit.headers["host"]) for visit in site.visits] == [
        ("/", f"site.example:{site.port}")
    ]


@pytest.mark.parametrize(
    "to", ["http://10.0.0.1/", "http://[::1%25lo]/", "http://[fe80::1]/", "file:///etc/passwd", "ftp://127.0.0.1/",
           "http://u:secret@127.0.0.1/", "//169.254.169.254/meta", "gopher://x"]
)  # fmt: skip
def test_every_redirect_is_checked(site: ScriptedServer, monkeypatch: pytest.MonkeyPatch, to: str) -> None:
    real = socket.getaddrinfo

    def numeric(host: Any, *args: Any, **more: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name == "127.0.0.1":
            return real(host, *args, **more)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (name, 80))]

    monkeypatch.setattr(socket, "getaddrinfo", numeric)
    message = refusal(redirect(site, "/go", to), content_types=("text/html",))
    assert "secret" not in message
    assert site.paths == ["/go"]


def test_redirects_are_followed_so_often_and_no_more(site: ScriptedServer) -> None:
    for n in range(REDIRECTS + 1):
        redirect(site, f"/{n}", f"/{n + 1}")
    site.pages[f"/{REDIRECTS + 1}"] = Answer(b"end", 200, HTML)
    assert get(f"{site.base}/1") == FetchedPage(f"{site.base}/{REDIRECTS + 1}", "text/html", "end")
    assert f"more than {REDIRECTS} times" in refusal(f"{site.base}/0")
    assert "more than" in refusal(redirect(site, "/loop", "/loop"))


def test_a_host_without_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    def lookup(*args: Any, **more: Any) -> Any:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    assert "has no address" in refusal("http://gone.example/")


def test_a_dead_server(site: ScriptedServer) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert "cannot be reached" in refusal(f"http://127.0.0.1:{port}/")
    assert "status 404" in refusal(f"{site.base}/absent")


def test_limits_of_size_time_and_type(site: ScriptedServer) -> None:
    site.pages |= {
        "/big": Answer(b"x" * 2000, 200, HTML),
        "/bomb": gzipped(gzip.compress(b"x" * 3_000_000)),
        "/twice": gzipped(b"", "gzip, gzip"),
        "/broken": gzipped(b"no gzip"),
        "/pdf": Answer(b"%PDF", 200, "application/pdf"),
        "/untyped": Answer(b"?", 200, ""),
        "/slow": Answer(ending="stall"),
    }
    assert len(get(f"{site.base}/big", max_bytes=2000).text) == 2000
    assert "larger than 1999 bytes" in refusal(f"{site.base}/big", max_bytes=1999)
    assert len(get(f"{site.base}/bomb").text) == 3_000_000
    assert "larger than" in refusal(f"{site.base}/bomb", max_bytes=100_000)
    assert "gzip, gzip" in refusal(f"{site.base}/twice")
    assert "could not be fetched" in refusal(f"{site.base}/broken")
    assert "application/pdf" in refusal(f"{site.base}/pdf")
    assert "of no stated type" in refusal(f"{site.base}/untyped")
    assert "within 0.1 s" in refusal(f"{site.base}/slow", seconds=0.1)


@pytest.mark.parametrize(
    ("kind", "body", "text"),
    [
        ("text/html; charset=iso-8859-1", b"caf\xe9 \x93", "café “"),
        ("text/html; charset=gb2312", "镕".encode("gb18030"), "镕"),
        ("text/html", "<meta charset='shift_jis'>東京".encode("shift_jis"), "<meta charset='shift_jis'>東京"),
        ("text/html", "東京".encode(), "東京"),
        ("text/html", b"caf\xe9 \x93", "café “"),
        ("text/html; charset=utf-8", "é".encode("utf-16"), "é"),
        ("text/plain; charset=punycode", "é".encode(), "é"),
        ("text/plain; charset=nonsense", b"\xef\xbb\xbfok", "ok"),
    ],
)
def test_text_is_decoded_by_what_is_declared(site: ScriptedServer, kind: str, body: bytes, text: str) -> None:
    site.pages["/text"] = Answer(body, 200, kind)
    assert get(f"{site.base}/text").text == text


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
def test_a_server_that_lies_or_refuses_is_one_error(site: ScriptedServer, reply: bytes, message: str) -> None:
    site.pages["/"] = Answer(reply, raw=True)
    sentence = refusal(site.base)
    assert re.search(message, sentence)
    assert len(sentence) < 600
    assert "\n" not in sentence
