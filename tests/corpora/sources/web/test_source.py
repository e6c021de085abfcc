"""A web search is asked once, at its pace, tried again when refused, and kept with its pages."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ragc.corpora.sources.base import Source
from ragc.corpora.sources.web.source import Ddgs, EngineBusy, WebResult, WebSource
from ragc.errors import SourceError, UsageError
from ragc.records import Hit
from ragc.store.calls import CallStore
from tests.support.server import Answer, Visit, serving

RESULTS = (
    WebResult("http://a.example/x#top", "A \x00 page", "about  cats"),
    WebResult("http://a.example/x", "A again", "twice"),
    WebResult("", "no url", ""),
    WebResult("http://b.example/#0", "B", "about dogs"),
)
ARTICLE = "<html><body><article><h1>{0}</h1><p>{1}</p></article></body></html>"
FILLER = "Nothing of what was asked stands in this sentence, which is here to fill the page. " * 12


class Fake:
    """An engine that first raises `failures`, then gives `results`."""

    def __init__(
        self, *failures: Exception, results: Sequence[WebResult] = RESULTS, name: str = "fake"
    ) -> None:
        self.failures, self.results, self.queries = list(failures), results, list[tuple[str, int]]()
        self.identity: Mapping[str, Any] = {"library": name}

    def search(self, query: str, n: int) -> Sequence[WebResult]:
        self.queries.append((query, n))
        if self.failures:
            raise self.failures.pop(0)
        return self.results


def source(engine: Fake, **more: Any) -> WebSource:
    return WebSource(engine, **{"per_second": 1000.0, "backoff": 0.0, **more})


def ask(web: Source, query: str = "cats", k: int = 10) -> tuple[Hit, ...]:
    return asyncio.run(web.search(query, k))


@pytest.fixture
def site() -> Iterator[str]:
    pytest.importorskip("markdownify")

    def page(visit: Visit) -> Answer:
        body = ARTICLE.format(visit.path, FILLER + f"The needle of {visit.path}. " + FILLER).encode()
        return Answer(body, 404 if "gone" in visit.path else 200, "text/html")

    with serving() as server:
        server.pages[""] = page
        yield server.base


def test_web_snippets_are_passages_in_the_order_of_the_engine() -> None:
    hits = ask(source(Fake()))
    assert [(h.passage.title, h.passage.text, h.score) for h in hits] == [
        ("A page", "about cats", 1.0),
        ("B", "about dogs", 0.5),
    ]
    assert [h.passage.id.partition("#")[0] for h in hits] == ["http://a.example/x", "http://b.example/"]
    assert all(h.passage.parent == h.passage.id for h in hits)
    assert ask(source(Fake()), k=1) == hits[:1]


def test_web_sends_a_query_once_and_blank_ones_never() -> None:
    engine = Fake()
    web = source(engine)
    assert ask(web) == ask(web, " cats\n") == ask(web)
    assert ask(web, " \n\x00") == ask(web, "cats", 0) == ()
    assert engine.queries == [("cats", 10)]
    ask(web, "x" * 5000)
    assert len(engine.queries[1][0]) == 400


def test_web_searches_are_repeated_from_the_store(tmp_path: Path) -> None:
    hits = ask(source(Fake(), store=CallStore(tmp_path)))
    again, other, fewer = Fake(), Fake(name="other"), Fake()
    assert ask(source(again, store=CallStore(tmp_path))) == hits
    ask(source(other, store=CallStore(tmp_path)))
    ask(source(fewer, results=3, store=CallStore(tmp_path)))
    assert [len(engine.queries) for engine in (again, other, fewer)] == [0, 1, 1]


def test_web_tries_again_what_is_refused_and_not_what_fails() -> None:
    engine = Fake(EngineBusy("429"), EngineBusy("429"))
    assert ask(source(engine, tries=3))
    assert len(engine.queries) == 3
    with pytest.raises(SourceError, match=r"failed: 429.* \(tried 2 times\); try again later"):
        ask(source(Fake(*[EngineBusy("429")] * 3), tries=2))
    broken = Fake(SourceError("garbage"))
    web = source(broken)
    with pytest.raises(SourceError, match="garbage"):
        ask(web)
    assert len(broken.queries) == 1
    assert ask(web)  # a failure is not kept


def test_web_gives_up_a_late_engine() -> None:
    free = threading.Event()

    class Late(Fake):
        def search(self, query: str, n: int) -> Sequence[WebResult]:
            free.wait(10)
            return ()

    try:
        with pytest.raises(SourceError, match=r"within 0\.05 s"):
            ask(source(Late(), seconds=0.05, tries=1))
    finally:
        free.set()


def test_web_requests_keep_their_pace_over_chunkings(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    web = source(Fake(EngineBusy("429")), per_second=0.5, backoff=8.0)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    ask(web, "one")
    assert len(slept) == 2
    assert 4 <= slept[0] <= 12  # the backoff, half more or less
    assert 1 < slept[1] <= 2  # the next turn
    ask(web.rechunk(64, 0.0), "two")
    assert 2 < slept[2] <= 4


def test_web_pages_are_fetched_cut_and_ranked(site: str, tmp_path: Path) -> None:
    results = [WebResult(f"{site}/{name}", name, f"snippet of {name}") for name in ("one", "gone", "two")]
    store, engine = CallStore(tmp_path), Fake(results=results)
    web = source(engine, store=store, pages=True, chunk_size=64, allow_loopback=True)
    hits = ask(web, "the needle of two", 50)
    assert "needle of /two" in hits[0].passage.text
    assert hits[0].passage.parent == f"{site}/two"
    assert [(-h.score, h.passage.id) for h in hits] == sorted((-h.score, h.passage.id) for h in hits)
    (lost,) = [h.passage for h in hits if "gone" in h.passage.id]
    assert lost.text == "snippet of gone"
    larger = {h.passage.id: h.passage.text for h in ask(web.rechunk(4000, 0.0), "the needle of two")}
    assert set(larger) == {f"{site}/one", f"{site}/two", lost.id}
    assert all(h.passage.text in larger[h.passage.parent] for h in hits)
    assert len(engine.queries) == 1
    replayed = source(Fake(SourceError("down")), store=store, pages=True, chunk_size=64)  # no loopback now
    assert ask(replayed, "the needle of two", 50) == hits
    store.close()


def test_web_reaches_no_private_page(site: str) -> None:
    web = source(Fake(results=[WebResult(f"{site}/one", "T", "the snippet")]), pages=True)
    assert [hit.passage.text for hit in ask(web)] == ["the snippet"]


@pytest.mark.parametrize(
    "wrong",
    [{"results": 0}, {"tries": 0}, {"per_second": 0}, {"seconds": 0}, {"backoff": -1}, {"chunk_size": 0}],
    ids=str,
)
def test_web_refuses_settings_out_of_range(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        WebSource(Fake(), **wrong)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The library, with its network replaced: `answer` is what it returns or raises, `asked` what it got."""
    library = pytest.importorskip("ddgs.ddgs")  # ddgs.DDGS stands in for the class there
    exchange: dict[str, Any] = {}

    def text(self: Any, query: str, **more: Any) -> Any:
        exchange["asked"] = (query, more)
        if isinstance(exchange["answer"], Exception):
            raise exchange["answer"]
        return exchange["answer"]

    monkeypatch.setattr(library.DDGS, "text", text)
    return exchange


def test_ddgs_gets_its_settings_and_its_results_come_back(answers: dict[str, Any]) -> None:
    answers["answer"] = [{"href": "http://a.example/", "title": None, "body": "b"}, None, "text"]
    engine = Ddgs(engines="brave,mojeek", region="de-de", window="m")
    assert engine.search("q", 3) == [WebResult("http://a.example/", "", "b")]
    more = {"region": "de-de", "timelimit": "m", "max_results": 3, "backend": "brave,mojeek"}
    assert answers["asked"] == ("q", more)
    assert Ddgs().identity != engine.identity
    with pytest.raises(UsageError, match="brave"):
        Ddgs(engines="brav")


@pytest.mark.parametrize("rows", [None, "text", ["text"], {"href": "http://a.example/"}], ids=str)
def test_ddgs_without_results_is_a_failed_search(rows: Any, answers: dict[str, Any]) -> None:
    answers["answer"] = rows
    with pytest.raises(SourceError, match="no list of results"):
        Ddgs().search("q", 3)


@pytest.mark.parametrize(
    ("name", "says", "again"),
    [
        ("RatelimitException", "x", True),
        ("TimeoutException", "x", True),
        ("DDGSException", "No results found.", True),
        ("DDGSException", "broken", False),
    ],
)
def test_ddgs_refusals_are_tried_again_and_failures_are_not(
    name: str, says: str, again: bool, answers: dict[str, Any]
) -> None:
    exceptions: Any = pytest.importorskip("ddgs.exceptions")
    answers["answer"] = getattr(exceptions, name)(says)
    with pytest.raises(SourceError) as caught:
        Ddgs().search("q", 3)
    assert isinstance(caught.value, EngineBusy) is again


def test_web_names_its_extra_when_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ddgs", None)
    with pytest.raises(UsageError, match=r"ragc\[web\]"):
        WebSource()
    monkeypatch.setitem(sys.modules, "markdownify", None)
    with pytest.raises(UsageError, match=r"ragc\[web\]"):
        WebSource(Fake(), pages=True)
