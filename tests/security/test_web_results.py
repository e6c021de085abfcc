"""What search engines, pages and APIs of strangers hand over: the bad part is dropped, the rest is kept."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragc.corpora.sources.base import current_question
from ragc.corpora.sources.crag_api.source import ApiSource
from ragc.corpora.sources.web.engine import WebResult, results
from ragc.corpora.sources.web.fetch import check_url, fetch, why_unreachable
from ragc.corpora.sources.web.source import MAX_TITLE_CHARS, WebSource
from ragc.errors import SourceError
from ragc.records import Question
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


@pytest.mark.parametrize("bad", ["{}", "[1]", '[["a", "b"]]', '[["a", "b", null]]', "no JSON", "[" * 100_000])
def test_a_stored_row_that_is_no_search_is_searched_again(tmp_path: Path, bad: str) -> None:
    right = searched(GOOD, store=CallStore(tmp_path))
    with closing(sqlite3.connect(tmp_path / "cache.db")) as rows:
        ((key,),) = rows.execute("SELECT key FROM Cache WHERE key <> 'version'")
    CallStore(tmp_path).put(key, bad)
    assert searched(GOOD, store=CallStore(tmp_path)) == right
    assert CallStore(tmp_path).get(key) != bad


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


def test_rows_of_the_library_that_are_no_results_are_passed_over() -> None:
    rows = [{"href": 3}, None, {"title": "x"}, {"href": "http://a.example/", "title": 1, "body": ["b"]}]
    assert results(rows) == [WebResult("http://a.example/", "", "")]
    assert results([]) == []
    for garbage in (None, "text", {"href": "x"}, [None, 3]):
        with pytest.raises(SourceError, match="no list of results"):
            results(garbage)


@settings(max_examples=examples(200))
@given(url=st.text(st.characters(), max_size=60).map(lambda rest: f"http://{rest}") | st.text(max_size=40))
def test_any_text_as_a_url_is_taken_apart_or_one_error(url: str) -> None:
    try:
        parsed = check_url(url)
    except SourceError:
        return
    assert parsed.host
    assert parsed.port is None or 0 < parsed.port < 65_536


@pytest.mark.parametrize("url", HOSTILE.values(), ids=list(HOSTILE))
def test_a_hostile_address_is_not_fetched(url: str) -> None:
    with pytest.raises(SourceError):
        asyncio.run(fetch(url))


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
    "address", ["1.1.1.1", "93.184.216.34", "192.0.1.1", "2606:4700::1111", "2a00:1450::5"]
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


FIELDS = [
    *(
        "name",
        "title",
        "oscar_awards",
        "year_ceremony",
        "acted_movies",
        "crew",
        "cast",
        "order",
        "summary_text",
    ),
    *("summary_structured", "game_date", "date", "team", "team_name_home", "game_id", "GF", "Open", "id"),
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=12),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(FIELDS) | st.text(max_size=4),
            inner,
            max_size=5,
        )
    ),
    max_leaves=15,
)
ASKED = {
    "finance": "What were closing price, dividend, market cap, EPS and P/E of Ford on 2024-03-04, 10:30?",
    "music": "Which songs did Ford release in 2010, how many Grammys, which first in the Billboard chart?",
    "movie": "Which movies did Ford star in or direct, and which Oscars of 2010 did he win?",
    "sports": "Who won the soccer match of Ford on 2024-03-04?",
    "open": "What is Ford?",
}


@settings(max_examples=examples(100))
@given(data=st.data(), domain=st.sampled_from(sorted(ASKED)), nba=st.booleans())
def test_an_api_may_answer_anything(data: Any, domain: str, nba: bool) -> None:
    """Names are known, so that what is looked up with them is reached; all else is of any type."""

    def answer(request: httpx.Request) -> httpx.Response:
        named = data.draw(st.sampled_from([["Ford"], [{"name": "Ford", "title": "Ford"}], "Ford"]) | JSON)
        if isinstance(named, list) and named and isinstance(named[0], dict):
            named = [{**data.draw(st.dictionaries(st.text(max_size=3), JSON, max_size=3)), **named[0]}]
            more = data.draw(JSON)
            named[0] |= (
                {k: v for k, v in more.items() if k not in ("name", "title")}
                if isinstance(more, dict)
                else {}
            )
        return httpx.Response(200, content=json.dumps({"result": named}).encode())

    question = Question("q", ASKED[domain].replace("soccer ", "" if nba else "soccer "), ("x",),
                        query_time="03/05/2024, 10:00:00 PT", extra={"domain": domain})  # fmt: skip
    source = ApiSource("http://api.test/", tries=1, transport=httpx.MockTransport(answer))

    async def go() -> tuple[Any, ...]:
        current_question.set(question)
        try:
            return await source.search("Lakers" if nba else "Ford", 5)
        finally:
            await source.aclose()

    try:
        hits = asyncio.run(go())
    except SourceError:
        return
    for hit in hits:
        (hit.passage.id + hit.passage.title + hit.passage.text).encode()


@pytest.mark.parametrize("depth", [100, 900, 100_000])
def test_an_api_that_nests_deeply_is_one_error(depth: int) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=b'{"result": ' + b"[" * depth + b"]" * depth + b"}")

    source = ApiSource("http://api.test/", tries=1, transport=httpx.MockTransport(answer))
    with pytest.raises(SourceError, match=r"nested more than 50 deep|not JSON"):
        asyncio.run(source.search("Ford", 3))
