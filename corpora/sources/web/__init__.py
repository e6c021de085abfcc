"""`web`: search engines of the web, their snippets or whole pages."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from ragc.core.extras import EXTRAS
from ragc.core.marks import HARMLESS
from ragc.core.tables import Choice
from ragc.corpora.sources.base import Source, SourceInputs, SourceKind
from ragc.corpora.sources.options import (
    Above,
    CutBy,
    Flag,
    FromZero,
    Overlap,
    Positive,
    RerankOptions,
    Words,
)


class WebOptions(RerankOptions):
    """Options of a source of kind `web`."""

    kind = "web"

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


def _build(inputs: SourceInputs, options: dict[str, Any]) -> Source:
    from ragc.corpora.sources.web.engine import Ddgs
    from ragc.corpora.sources.web.source import WebSource

    names: tuple[str, ...] = ("engines", "region", "window")
    engine: Any = Ddgs(**{name: options.pop(name) for name in names if name in options})
    return WebSource(engine, store=inputs.store, **options)


KIND = SourceKind(
    "web",
    WebOptions,
    _build,
    lambda options: EXTRAS["web"] if options.get("pages") else ("ddgs",),
    speaks="asks public search engines, and may fetch pages from public addresses",
)
