"""What search engines, pages and APIs of strangers hand over: the bad part is dropped, the rest is kept."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragc.corpora.sources.web.fetch import check_url, why_unreachable
from ragc.corpora.sources.web.source import MAX_TITLE_CHARS, WebResult, WebSource
from ragc.errors import SourceError
from ragc.store.calls import CallStore
from tests.examples import examples

GOOD = WebResult("http://a.example/", "A", "about cats")


class Engine:
    """A search engine that finds what it is given."""

    identity: Mapping[str, Any] = {"library": "fake"}

    def __init__(self, *results: Any) -> None:
        self.results = results

    def search(self, query: str, n: int) -> Sequence[WebResult]:
        return list(self.results)


def searched(*results: Any, pages: bool = False, store: CallStore | None = None) -> tuple[Any, ...]:
    source = WebSource(Engine(*results), store=store, pages=pages, per_second=1000.0, backoff=0.0, tries=1)
    return asyncio.run(source.search("cats", 10))


HOSTILE = {
    "a port too great": "http://b.example:99999/",
    "port 0": "http://b.example:0/",
    "a negative port": "http://b.example:-1/",
    "a port of letters": "http://b.example:http/",
    "Punycode that is none": "http://xn--a/",
    "empty Punycode": "http://xn--/",
    "half an IPv6 address": "http://[::1/",
    "no IPv6 address": "http://[v1.x]/",
    "no host": "http:///x",
    "no scheme": "b.example",
    "another scheme": "javascript:alert(1)",
    "a file": "file:///etc/passwd",
    "a password": "http://me:secret@b.example/",
    "a user name": "http://me@b.example/",
    "a very long one": "http://b.example/" + "a" * 5000,
    "a host no resolver takes": "http://" + "\u2024" * 3 + "/",
    "nothing": "",
}


@pytest.mark.parametrize("pages", [False, True])
@pytest.mark.parametrize("url", HOSTILE.values(), ids=list(HOSTILE))
def test_a_hostile_result_is_dropped_and_the_others_kept(
    url: str, pages: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        hits = searched(WebResult(url, "B", "cats and dogs"), GOOD, pages=pages)
    assert [hit.passage.text for hit in hits] == ["about cats"]
    assert "1 of 2 results of a web search name no page" in caplog.text


def test_what_an_engine_says_is_cleaned_and_bounded(tmp_path: Any) -> None:
    store = CallStore(tmp_path)
    odd = WebResult(
        "http://b.example/\x00\ud800x", "T\x1b[2J\ud800" + "t" * 1_000_000, "\ud800cats\x00" * 100_000
    )
    for _ in range(2):
        first, second = searched(odd, GOOD, store=store)
        assert first.passage.id.startswith("http://b.example/x#")
        assert len(first.passage.title) == MAX_TITLE_CHARS
        assert len(first.passage.text) <= 4000
        (first.passage.id + first.passage.title + first.passage.text).encode()
        assert "\x1b" not in first.passage.title
        assert second.passage.text == "about cats"


@pytest.mark.parametrize(
    "bad",
    [
        WebResult(3, "B", "b"),  # type: ignore[arg-type]
        WebResult("http://b.example/", None, "b"),  # type: ignore[arg-type]
        None,
        "text",
    ],
)
def test_a_result_of_wrong_types_is_dropped_and_the_others_kept(bad: Any) -> None:
    assert [hit.passage.text for hit in searched(bad, GOOD)] == ["about cats"]


@settings(max_examples=examples(200))
@given(url=st.text(st.characters(), max_size=60).map(lambda rest: f"http://{rest}") | st.text(max_size=40))
def test_any_text_as_a_url_is_taken_apart_or_one_error(url: str) -> None:
    try:
        parsed = check_url(url)
    except SourceError:
        return
    assert parsed.host
    assert parsed.port is None or 0 < parsed.port < 65_536


REFUSED = [
    *(
        "192.0.0.9",
        "192.0.0.10",
        "192.0.0.170",
        "192.88.99.1",
        "192.31.196.1",
        "192.52.193.1",
        "192.175.48.1",
    ),
    *("198.19.255.255", "198.51.100.7", "203.0.113.7", "100.127.255.254", "0.1.2.3", "255.255.255.255"),
    *(
        "3fff::1",
        "3fff:fff::1",
        "2001:db8::1",
        "2001:2::1",
        "2001:10::1",
        "2001:20::1",
        "2001:1::1",
        "5f00::1",
    ),
    *("100::1", "100:0:0:1::1", "64:ff9b:1::1", "2620:4f:8000::1", "::ffff:0:7f00:1", "4000::1", "fec0::1"),
    # Private addresses inside others: ISATAP, 6to4, NAT64, Teredo (client and server), mapped, compatible.
    *("2a00::5efe:10.0.0.1", "2a00::200:5efe:192.168.1.1", "fe80::5efe:8.8.8.8", "fd00::200:5efe:8.8.8.8"),
    *("2002:a00:1::", "2002:a9fe:a9fe::", "64:ff9b::169.254.169.254", "64:ff9b::192.88.99.1"),
    *(
        "2001:0:808:808:8000:63bf:f5ff:fffe",
        "2001:0:a00:1:8000:63bf:f7f7:f7f7",
        "::ffff:192.0.0.9",
        "::10.0.0.1",
    ),
]


@pytest.mark.parametrize("address", REFUSED)
def test_what_is_not_reachable_from_everywhere_is_refused(address: str) -> None:
    assert why_unreachable(address)
    assert why_unreachable(address, allow_loopback=True)


@pytest.mark.parametrize(
    "address",
    [
        *("1.1.1.1", "93.184.216.34", "192.0.1.1", "2606:4700::1111", "2a00:1450::5"),
        *("::ffff:8.8.8.8", "64:ff9b::808:808"),
    ],
)
def test_addresses_of_everyone_are_fit(address: str) -> None:
    assert why_unreachable(address) == ""


@settings(max_examples=examples(300))
@given(address=st.ip_addresses())
def test_nothing_that_python_calls_private_is_fit(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    if not why_unreachable(str(address)):
        assert address.is_global or address in ipaddress.ip_network("2002::/16")
        assert not address.is_private
        assert not address.is_multicast
