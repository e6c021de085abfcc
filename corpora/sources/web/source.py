"""`web`: a web search engine as a source, queried once a query and cached.

    query ──► store: kept? ──► engine, rate-limited, tried again ──► pages (optional) ──► store ──► hits

Results are stored in the call store by engine, region, date window, options and query, with their fetched
pages. A study with the same store thus sees the same web. Failures are not stored.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from collections.abc import Sequence
from dataclasses import astuple
from threading import Lock
from typing import Any

from ragc.core.digest import canonical, digest
from ragc.core.display import describe
from ragc.corpora.chunking import chunk
from ragc.corpora.sources.recorded.source import in_order, rank_by_bm25
from ragc.corpora.sources.terms import ANALYZER
from ragc.corpora.sources.web import fetch as fetching
from ragc.corpora.sources.web import html
from ragc.corpora.sources.web.engine import Ddgs, EngineBusy, SearchEngine, WebResult
from ragc.errors import SourceError, StoreError, TargetUnavailable, UsageError
from ragc.records import Hit, Passage
from ragc.store.calls import CallStore
from ragc.targets.retry import Again, with_tries

log = logging.getLogger("ragc.corpora")

VERSION = 1
"""Increased whenever the same page or result would give other passages."""

MAX_TITLE_CHARS, MAX_SNIPPET_CHARS = 300, 4000
"""The most characters of an engine's title and snippet; longer ones are cut."""

MAX_QUERY_CHARS = 400
"""The most characters of a query sent to the engine; engines refuse longer ones."""


class Spacing:
    """At most `per_second` requests a second, evenly spaced, first come first served. Thread-safe."""

    def __init__(self, per_second: float) -> None:
        self._gap, self._free, self._lock = 1 / per_second, 0.0, Lock()

    async def take(self) -> None:
        """Waits until the next request may be sent."""
        with self._lock:
            now = time.monotonic()
            at = max(now, self._free)
            self._free = at + self._gap
        if at > now:
            await asyncio.sleep(at - now)


class WebSource:
    """The results of `engine` for a query, cached in `store`; by default ddgs, cached in memory.

    Every query requests `results` results. Their snippets are the passages, in the engine's order. With
    `pages` their pages are fetched and cut into chunks of `chunk_size` tokens, ranked by BM25 among
    themselves; a page that cannot be fetched or has no text is replaced by its snippet. The id of a page's
    passage is its URL; that of a snippet also has a digest.

    At most `per_second` requests a second are sent to the engine. A refused or late request is sent up to
    `tries` times in all. The waits are `backoff` seconds, twice that, and so on, each shortened by up to
    half. `seconds` bounds the wall clock of a search, pages included: after it the search fails, or continues
    without the late pages. `allow_loopback` is for tests.

    Equal fingerprints give equal results with the same store. Raises UsageError for a setting out of range,
    or if the extra `web` is needed and not installed.
    """

    kind = "web"

    def __init__(
        self,
        engine: SearchEngine | None = None,
        *,
        store: CallStore | None = None,
        results: int = 10,
        pages: bool = False,
        chunk_size: int = 256,
        overlap: float = 0.0,
        chunk_by: str = "text",
        per_second: float = 1.0,
        tries: int = 4,
        backoff: float = 1.0,
        seconds: float = 60.0,
        allow_loopback: bool = False,
    ) -> None:
        if results < 1 or tries < 1 or not per_second > 0 or not seconds > 0 or backoff < 0:
            raise UsageError(
                "A source of kind 'web' needs results >= 1, tries >= 1, per_second > 0, seconds > 0 and "
                f"backoff >= 0, got {results}, {tries}, {per_second}, {seconds} and {backoff}."
            )
        chunk.check_size(chunk_size, overlap)
        chunk.check(chunk_by)
        if pages:
            html.check_installed()
        self.engine = engine or Ddgs()
        self.results, self.pages, self.tries, self.backoff = results, pages, tries, backoff
        self.seconds, self.chunk_size, self.overlap, self.chunk_by = seconds, chunk_size, overlap, chunk_by
        self._allow_loopback = allow_loopback
        self._store = store or CallStore(None)
        self._spacing = Spacing(per_second)
        self._kept_by = digest([self.kind, VERSION, dict(self.engine.identity), results, pages])
        self._cuts: dict[tuple[int, float], WebSource] = {}
        self.fingerprint = self._fingerprint()

    def __deepcopy__(self, memo: object) -> WebSource:
        return self

    def __repr__(self) -> str:
        return describe(type(self).__name__, results=self.results, pages=self.pages)

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """Returns at most `k` hits, best first. A blank query finds nothing and is not sent.

        Raises SourceError if the engine failed, refused every try or timed out.
        """
        query = " ".join(html.clean(query).split())[:MAX_QUERY_CHARS]
        if not query or k < 1:
            return ()
        key = digest(["search", self._kept_by, query])
        text, _ = await self._store.get_or_call(key, lambda: self._search_and_fetch(query), _is_search)
        passages = _passages(text)
        if not self.pages:
            return in_order(passages)[:k]
        cut = await asyncio.to_thread(
            lambda: rank_by_bm25(query, [part for whole in passages for part in self._parts(whole)])
        )
        return cut[:k]

    def sample(self, n: int, *, seed: str, exclude: frozenset[str] = frozenset()) -> tuple[Passage, ...]:
        """Returns no passages: the web cannot be sampled. Record the searches, and sample the recording."""
        return ()

    def rechunk(self, chunk_size: int, overlap: float) -> WebSource:
        """Returns the same source with its pages cut to `chunk_size` tokens; itself if it has snippets only.

        Both share the rate limit and the cache: no search is made twice.
        """
        chunk.check_size(chunk_size, overlap)
        if not self.pages or (chunk_size, overlap) == (self.chunk_size, self.overlap):
            return self
        source = self._cuts.get((chunk_size, overlap))
        if source is None:
            source = object.__new__(WebSource)
            source.__dict__.update(self.__dict__, chunk_size=chunk_size, overlap=overlap)
            source.fingerprint = source._fingerprint()
            source = self._cuts.setdefault((chunk_size, overlap), source)
        return source

    def _parts(self, whole: Passage) -> tuple[Passage, ...]:
        return chunk.chunk_passage(whole, self.chunk_size, self.overlap, self.chunk_by)

    def _fingerprint(self) -> str:
        cut = [*chunk.settings(self.chunk_size, self.overlap, self.chunk_by), ANALYZER]
        return digest([self._kept_by, cut if self.pages else []])

    async def _search_and_fetch(self, query: str) -> str:
        """Returns the passages of a new search, as JSON for the store."""
        until = time.monotonic() + self.seconds
        try:
            async with asyncio.timeout(self.seconds):
                results = await self._search_engine(query)
        except TimeoutError as error:
            raise SourceError(
                f"The web search for {query!r} was not answered within {self.seconds:g} s; raise `seconds`, "
                "or try again later."
            ) from error
        texts = await self._fetch_pages(results, until) if self.pages else [""] * len(results)
        passages = [_passage(result, text) for result, text in zip(results, texts, strict=True)]
        return canonical([astuple(passage)[:3] for passage in passages if passage.text or passage.title])

    async def _search_engine(self, query: str) -> list[WebResult]:
        """Returns the engine's results without duplicate pages, after as many tries as needed."""

        async def attempt() -> Sequence[WebResult]:
            await self._spacing.take()
            try:
                return await asyncio.to_thread(self.engine.search, query, self.results)
            except EngineBusy as error:
                raise Again(f"failed: {error}") from error
            except SourceError as error:
                raise SourceError(f"The web search for {query!r} failed: {error}.") from error

        try:
            results = await with_tries(
                attempt,
                f"The web search for {query!r}",
                tries=self.tries,
                first_wait_s=self.backoff,
                longest_wait_s=math.inf,
            )
        except TargetUnavailable as error:
            raise SourceError(
                f"{str(error).removesuffix('.')}; try again later, lower `per_second`, or name other engines."
            ) from None
        return _drop_duplicates(results)[: self.results]

    async def _fetch_pages(self, results: Sequence[WebResult], until: float) -> list[str]:
        """Returns the text of every page, "" for those that cannot be fetched in time."""
        if not results:
            return []
        tasks = [asyncio.create_task(self._page(result.url)) for result in results]
        try:
            done, _ = await asyncio.wait(tasks, timeout=max(0.0, until - time.monotonic()))
        finally:
            for task in tasks:
                task.cancel()
        return [task.result() if task in done else "" for task in tasks]

    async def _page(self, url: str) -> str:
        """Returns the text of the page at `url`, shared by all queries; "" if it has none."""
        try:
            text, _ = await self._store.get_or_call(digest(["page", VERSION, url]), lambda: self._read(url))
        except SourceError:
            return ""
        except StoreError:
            raise
        except Exception as error:  # a malformed page must not lose the others
            log.warning("A page that a web search found cannot be read (%s).", type(error).__name__)
            return ""
        return text

    async def _read(self, url: str) -> str:
        page = await fetching.fetch(url, allow_loopback=self._allow_loopback)
        if page.is_html:
            text = await asyncio.to_thread(html.markdown, page.text, url=page.url)
        else:
            text = html.clean(page.text)[: html.MAX_CHARS].strip()
        if not text:
            raise SourceError(f"The page at {page.url!r} holds no text.")
        return text


def _drop_duplicates(results: Sequence[WebResult]) -> list[WebResult]:
    """Returns results with valid URLs, without URL fragments, each page once.

    A result with an invalid URL (another scheme, no host, an invalid port) is dropped and logged.
    """
    unique: dict[str, WebResult] = {}
    dropped = 0
    for result in results:
        try:
            url = html.clean(result.url).strip().partition("#")[0]
            fetching.check_url(url)
            clean_result = WebResult(
                url, _line(result.title, MAX_TITLE_CHARS), _line(result.snippet, MAX_SNIPPET_CHARS)
            )
        except (SourceError, TypeError, AttributeError):
            dropped += 1
            continue
        unique.setdefault(url, clean_result)
    if dropped:
        log.warning("%d of %d results of a web search name no page and were dropped.", dropped, len(results))
    return list(unique.values())


def _line(text: str, most: int) -> str:
    """Returns `text` on one line, without control characters, cut to `most` characters."""
    return " ".join(html.clean(text[: 4 * most]).split())[:most]


def _passage(result: WebResult, page: str) -> Passage:
    if page:
        return Passage(f"{result.url}", result.title, page)
    return Passage(f"{result.url}#{digest(result.snippet)[:12]}", result.title, result.snippet)


def _is_search(text: str) -> bool:
    """Returns whether `text` is a stored search: passages as triples of texts."""
    try:
        rows: Any = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(rows, list) and all(
        isinstance(row, list) and len(row) == 3 and all(isinstance(part, str) for part in row) for row in rows
    )


def _passages(text: str) -> list[Passage]:
    """Returns the passages of a stored search."""
    return [Passage(*row) for row in json.loads(text)]
