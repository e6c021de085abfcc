"""`web`: a web search engine as a source, queried once a query and cached.

    query ──► store: cached? ──► engine, rate-limited, tried again ──► pages (optional) ──► store ──► hits

Results are stored in the call store by engine, region, date window, options and query, with their fetched
pages. A study with the same store thus sees the same web. Failures are not stored.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import math
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from typing import Annotated, Any, Protocol

from pydantic import Field, TypeAdapter, ValidationError

from ragc.core.digest import canonical, digest
from ragc.core.extras import EXTRAS, require
from ragc.core.marks import HARMLESS
from ragc.core.tables import Choice
from ragc.core.text import first_line
from ragc.corpora.chunking import chunk
from ragc.corpora.documents.base import printable
from ragc.corpora.documents.html import MAX_CHARS, read_web_page
from ragc.corpora.sources.base import BaseSource, SourceKind
from ragc.corpora.sources.options import Above, CutBy, Flag, FromZero, Overlap, Positive, RerankOptions, Words
from ragc.corpora.sources.recorded import in_order, rank_by_bm25
from ragc.corpora.sources.terms import ANALYZER
from ragc.corpora.sources.web.fetch import HTML_TYPES, check_url, fetch
from ragc.corpora.storage.corpus import cut
from ragc.errors import SourceError, TargetUnavailable, UnknownName
from ragc.records import Hit, Passage
from ragc.store.calls import CallStore
from ragc.targets.retry import Again, with_tries

log = logging.getLogger("ragc.corpora")

VERSION = 3
"""Increased whenever the same page or result would give other passages."""

MAX_TITLE_CHARS, MAX_SNIPPET_CHARS, MAX_QUERY_CHARS = 300, 4000, 400
"""The most characters of an engine's title and snippet, and of a query; longer ones are cut."""

_STORED = TypeAdapter(list[tuple[str, str, str]])
"""A search in the store: id, title and text of each passage."""

ENGINE_SECONDS = 10
"""Seconds of one request of ddgs."""


class WebOptions(RerankOptions):
    """Options of a source of kind `web`."""

    results: Positive = Field(default=10, description="Results of one search that are read. From 1.")
    pages: Flag = Field(
        default=False,
        description="Whether whole pages are fetched and cut; else the snippets are the passages.",
    )
    chunk_size: Positive = Field(default=256, description="Tokens of a chunk of a page at most. From 1.")
    overlap: Overlap = Field(
        default=0.0, description="Share of a chunk that the next one repeats. From 0 to below 1."
    )
    chunk_by: CutBy = Field(default="text", description="Where pages are cut: text, markdown or sections.")
    per_second: Above = Field(default=1.0, description="Requests a second at most. Above 0.")
    tries: Positive = Field(default=4, description="Tries of one request, the first included. From 1.")
    backoff: FromZero = Field(
        default=1.0, description="Seconds before the second try, doubled for each further one. From 0."
    )
    seconds: Above = Field(default=60.0, description="Seconds for all tries of one search. Above 0.")
    engines: Words = Field(
        default="auto", description="Search engines of ddgs, separated by commas; auto chooses."
    )
    region: Words = Field(default="us-en", description="Region of the search, as ddgs names it.")
    window: Annotated[str, Choice(("", "d", "w", "m", "y")), HARMLESS] = Field(
        default="",
        description="Age of results at most: d, w, m or y for a day, week, month or year; empty for any.",
    )


@dataclass(frozen=True, slots=True)
class WebResult:
    """One result of a web search: the page's URL, its title, and the engine's snippet."""

    url: str
    title: str
    snippet: str


class EngineBusy(Again, SourceError):
    """An engine refused a request (too many requests) or timed out; a retry may help."""


class SearchEngine(Protocol):
    """Searches the web. `identity` names the engine and every setting that changes results."""

    identity: Mapping[str, Any]

    def search(self, query: str, n: int) -> Sequence[WebResult]:
        """Returns at most `n` results, best first. Called in threads, several at once.

        Raises EngineBusy if a retry may succeed, and SourceError if it will not.
        """
        ...


class Ddgs:
    """Web search with the library ddgs, which queries public search engines without a key.

    `engines` is one name, several separated by commas, or "auto"; `region` a country and a language
    ("us-en"); `window` the greatest age of results: "d", "w", "m", "y" for a day, week, month or year, "" for
    any. ddgs reads proxies from DDGS_PROXY. Raises UsageError for an unknown engine, or if the extra `web` is
    not installed.
    """

    def __init__(self, *, engines: str = "auto", region: str = "us-en", window: str = "") -> None:
        require("ddgs", "A source of kind 'web'")
        from ddgs.engines import ENGINES

        known = {"auto", *ENGINES["text"]}
        if lost := [name for name in map(str.strip, engines.split(",")) if name not in known]:
            raise UnknownName("search engine", lost[0], sorted(known))
        self._settings = {"backend": engines, "region": region, "timelimit": window or None}
        self.identity = {"library": "ddgs", "engines": engines, "region": region, "window": window}

    def search(self, query: str, n: int) -> Sequence[WebResult]:
        """Returns at most `n` results, best first.

        ddgs reports a refusal and an empty result alike: both raise EngineBusy.
        """
        from ddgs import DDGS
        from ddgs.exceptions import DDGSException

        try:
            rows: Any = DDGS(timeout=ENGINE_SECONDS).text(query, max_results=n, **self._settings)
        except DDGSException as error:
            may_pass = re.search("Ratelimit|Timeout|No results found|429|timed out", repr(error))
            kind = EngineBusy if may_pass else SourceError
            raise kind(f"the search engine found nothing or refused ({first_line(error)})") from error
        if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows[:1]):
            raise SourceError("the search engine answered with something that is no list of results")
        return [
            WebResult(row.get("href", ""), row.get("title") or "", row.get("body") or "")
            for row in rows
            if isinstance(row, Mapping)
        ][:n]


class Spacing:
    """At most `per_second` requests a second, evenly spaced, first come first served."""

    def __init__(self, per_second: float) -> None:
        self._gap, self._free = 1 / per_second, 0.0

    async def take(self) -> None:
        """Waits until the next request may be sent."""
        turn = max(time.monotonic(), self._free)
        self._free = turn + self._gap
        if (wait := turn - time.monotonic()) > 0:
            await asyncio.sleep(wait)


class WebSource(BaseSource):
    """The results of `engine` for a query, cached in `store`; by default ddgs, cached in memory.

    `options` are those of `WebOptions`. Every query requests `results` results. Their snippets are the
    passages, in the engine's order. With `pages` their pages are fetched and cut into chunks, ranked by BM25
    among themselves; a page that cannot be fetched or has no text is replaced by its snippet. The id of a
    page's passage is its URL; that of a snippet also has a digest. After `seconds` a search fails, or
    continues without the late pages. `allow_loopback` is for tests.

    Equal fingerprints give equal results with the same store. Raises UsageError for a setting out of range,
    or if the extra `web` is needed and not installed.
    """

    kind = "web"

    def __init__(
        self,
        engine: SearchEngine | None = None,
        *,
        store: CallStore | None = None,
        allow_loopback: bool = False,
        **options: Any,
    ) -> None:
        self.options = WebOptions.of(options)
        if self.options.pages:
            require("markdownify", "A source of kind 'web' with pages")
        asked = {name: getattr(self.options, name) for name in ("engines", "region", "window")}
        self.engine, self._store = engine or Ddgs(**asked), store or CallStore(None)
        self._spacing, self._allow_loopback = Spacing(self.options.per_second), allow_loopback
        self._found_by = digest(
            [self.kind, VERSION, dict(self.engine.identity), self.options.results, self.options.pages]
        )
        self._configure(self.options)

    def _configure(self, options: WebOptions) -> None:
        self.options = options
        self._cut = options.chunk_size, options.overlap, options.chunk_by
        ranked_by = [*chunk.settings(*self._cut), ANALYZER] if options.pages else []
        self.fingerprint = digest([self._found_by, ranked_by])

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """Returns at most `k` hits, best first. A blank query finds nothing and is not sent.

        Raises SourceError if the engine failed, refused every try or timed out.
        """
        query = " ".join(printable(query).split())[:MAX_QUERY_CHARS]
        if not query or k < 1:
            return ()
        key = digest(["search", self._found_by, query])
        passages, _ = await self._store.get_or_make(
            key,
            lambda: self._find(query),
            _read_stored,
            lambda made: canonical([astuple(passage)[:3] for passage in made]),
        )
        if not self.options.pages:
            return in_order(passages)[:k]
        hits = await asyncio.to_thread(rank_by_bm25, query, cut(passages, *self._cut))  # cut in the thread
        return hits[:k]

    def rechunk(self, chunk_size: int, overlap: float) -> WebSource:
        """Returns the same source with its pages cut to `chunk_size` tokens; itself if it has snippets only.

        Both share the rate limit and the cache: no search is made twice.
        """
        if not self.options.pages:
            return self
        source = copy.copy(self)
        source._configure(
            WebOptions.of({**self.options.explicit, "chunk_size": chunk_size, "overlap": overlap})
        )
        return source

    async def _find(self, query: str) -> list[Passage]:
        """Returns the passages of a new search."""
        end = asyncio.get_running_loop().time() + self.options.seconds

        async def attempt() -> Sequence[WebResult]:
            await self._spacing.take()
            return await asyncio.to_thread(self.engine.search, query, self.options.results)

        try:
            results = await with_tries(
                attempt,
                f"The web search for {query!r} failed:",
                tries=self.options.tries,
                total_s=self.options.seconds,
                first_wait_s=self.options.backoff,
                longest_wait_s=math.inf,
            )
        except TargetUnavailable as error:
            raise SourceError(
                f"{str(error).removesuffix('.')}; try again later, lower `per_second`, or name other engines."
            ) from None
        results = _drop_duplicates(results)[: self.options.results]
        pages = [""] * len(results)
        if self.options.pages:
            pages = await asyncio.gather(*(self._page(result.url, end) for result in results))
        passages = [
            Passage(result.url, result.title, page)
            if page
            else Passage(f"{result.url}#{digest(result.snippet)[:12]}", result.title, result.snippet)
            for result, page in zip(results, pages, strict=True)
        ]
        return [passage for passage in passages if passage.text or passage.title]

    async def _page(self, url: str, end: float) -> str:
        """Returns the text of the page at `url`, shared by all queries; "" if it has none until `end`, a time
        of the loop.
        """

        async def read() -> str:
            page = await fetch(url, allow_loopback=self._allow_loopback)
            if page.content_type in HTML_TYPES:
                return await asyncio.to_thread(read_web_page, page.text)
            return printable(page.text)[:MAX_CHARS].strip()

        with suppress(Exception):  # no page may lose the others; a broken store fails the search itself
            async with asyncio.timeout_at(end):
                return (await self._store.get_or_call(digest(["page", VERSION, url]), read))[0]
        return ""


def _drop_duplicates(results: Sequence[WebResult]) -> list[WebResult]:
    """Returns results with valid URLs, without URL fragments, each page once; others are logged."""
    unique, valid = dict[str, WebResult](), 0
    for result in results:
        with suppress(SourceError, TypeError, AttributeError):
            url = str(check_url(printable(result.url).strip()))
            title, snippet = _line(result.title, MAX_TITLE_CHARS), _line(result.snippet, MAX_SNIPPET_CHARS)
            unique.setdefault(url, WebResult(url, title, snippet))
            valid += 1
    if lost := len(results) - valid:
        log.warning("%d of %d results of a web search name no page and were dropped.", lost, len(results))
    return list(unique.values())


def _line(text: str, most: int) -> str:
    """Returns `text` on one line, without control characters, cut to `most` characters."""
    return " ".join(printable(text[: 4 * most]).split())[:most]


def _read_stored(text: str) -> list[Passage] | None:
    """Returns the passages of a stored search; None if it is none."""
    try:
        return [Passage(*row) for row in _STORED.validate_json(text)]
    except ValidationError:
        return None


KIND = SourceKind(
    "web",
    WebOptions,
    lambda inputs, options: WebSource(store=inputs.store, **options),
    lambda options: EXTRAS["web"] if options.get("pages") else ("ddgs",),
    speaks="asks public search engines, and may fetch pages from public addresses",
)
