"""Web search engines: their protocol, and an implementation with the library ddgs."""

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
    """One result of a web search: the page's URL, its title, and the engine's snippet."""

    url: str
    title: str
    snippet: str


class EngineBusy(SourceError):
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
    any; `seconds` the timeout of one request. ddgs reads proxies from DDGS_PROXY. Raises UsageError for an
    unknown setting, or if the extra `web` is not installed.
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
        """Returns at most `n` results, best first.

        ddgs reports a refusal and an empty result alike: both raise EngineBusy.
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
    """Returns the results of ddgs; malformed rows are skipped and logged.

    Raises SourceError if `rows` is no list, or has rows but not one result.
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
    """Returns a result of ddgs; None if it is malformed."""
    if not isinstance(row, Mapping) or not isinstance(row.get("href"), str):
        return None
    title, body = (row.get(name) for name in ("title", "body"))
    return WebResult(row["href"], *(text if isinstance(text, str) else "" for text in (title, body)))
