"""Search engines of the web: what one is, and the one that the library ddgs offers."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ragc.core.text import first_line
from ragc.errors import SourceError, UsageError

log = logging.getLogger("ragc.corpora")


@dataclass(frozen=True, slots=True)
class WebResult:
    """One result of a web search: where the page is, its title, and what the engine shows of it."""

    url: str
    title: str
    snippet: str


class EngineBusy(SourceError):
    """An engine that refused for now (too many requests) or did not answer in time; trying again may help."""


class Engine(Protocol):
    """Something that searches the web. `identity` says which, with every setting that changes results."""

    identity: Mapping[str, Any]

    def search(self, query: str, n: int) -> Sequence[WebResult]:
        """At most `n` results, best first. Called in a thread, by several at once.

        Raises EngineBusy when another try may succeed, and SourceError when it will not.
        """
        ...


class Ddgs:
    """Web search through the library ddgs, which asks public search engines without a key.

    `engines` is one name, several with commas between, or "auto"; `region` a country and a language
    ("us-en"); `window` the age of results: "d", "w", "m", "y" for a day, week, month or year, "" for any;
    `seconds` how long one request may take. Proxies are those that ddgs itself reads from DDGS_PROXY.
    Raises UsageError for a setting that is not known, or when the extra `web` is not installed.
    """

    def __init__(
        self, *, engines: str = "auto", region: str = "us-en", window: str = "", seconds: int = 10
    ) -> None:
        if window not in ("", "d", "w", "m", "y"):
            raise UsageError(f"window = {window!r} is not known; choose one of '', 'd', 'w', 'm' and 'y'.")
        try:
            import ddgs
            from ddgs.engines import ENGINES
        except ImportError as error:
            raise UsageError(
                f"A source of kind 'web' needs ddgs, which cannot be imported ({error}); "
                "install it with: pip install 'ragc[web]'"
            ) from error
        known = ("auto", *sorted(ENGINES["text"]))
        if lost := [name for name in (part.strip() for part in engines.split(",")) if name not in known]:
            raise UsageError(f"No search engine is named {lost[0]!r}. Known: {', '.join(known)}.")
        self._ddgs = ddgs
        self._engines, self._region, self._window, self._seconds = engines, region, window, seconds
        self.identity = {"library": "ddgs", "engines": engines, "region": region, "window": window}

    def search(self, query: str, n: int) -> Sequence[WebResult]:
        """At most `n` results, best first.

        ddgs gives no results alike when an engine refuses and when it knows nothing: both raise EngineBusy.
        """
        from ddgs.exceptions import DDGSException, RatelimitException, TimeoutException

        try:
            rows = self._ddgs.DDGS(timeout=self._seconds).text(
                query,
                region=self._region,
                timelimit=self._window or None,
                max_results=n,
                backend=self._engines,
            )
        except (RatelimitException, TimeoutException) as error:
            raise EngineBusy(f"the search engine refused or was late ({first_line(error)})") from error
        except DDGSException as error:
            if "No results found" in str(error) or "429" in str(error) or "timed out" in str(error):
                raise EngineBusy(
                    f"the search engine found nothing or refused ({first_line(error)})"
                ) from error
            raise SourceError(f"the search engine failed ({first_line(error)})") from error
        return results(rows)[:n]


def results(rows: object) -> list[WebResult]:
    """What ddgs found; a row that is no result is passed over, and the others are kept.

    Raises SourceError when `rows` is no list, or holds rows and not one result.
    """
    listed = rows if isinstance(rows, list | tuple) else None
    hits = [one for row in listed or () if (one := parse_result(row)) is not None]
    if listed is None or (listed and not hits):
        raise SourceError("the search engine answered with something that is no list of results")
    if len(hits) < len(listed):
        log.warning("%d of %d results of a web search are no results and were passed over.",
                    len(listed) - len(hits), len(listed))  # fmt: skip
    return hits


def parse_result(row: object) -> WebResult | None:
    """A result of ddgs; None when it is not shaped like one."""
    if not isinstance(row, Mapping) or not isinstance(row.get("href"), str):
        return None
    title, body = (row.get(name) for name in ("title", "body"))
    return WebResult(row["href"], *(text if isinstance(text, str) else "" for text in (title, body)))
