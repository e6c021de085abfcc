"""`recorded`: search results read from a file."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from ragc.core.marks import HARMLESS
from ragc.core.tables import Choice
from ragc.corpora.sources.base import Source, SourceInputs, SourceKind
from ragc.corpora.sources.options import ChunkOptions, RerankOptions
from ragc.errors import UsageError


class RecordedOptions(ChunkOptions, RerankOptions):
    """Options of a source of kind `recorded`."""

    kind = "recorded"

    unknown: Annotated[str, Choice(("nearest", "nothing", "error")), HARMLESS] = Field(
        default="nearest",
        description="What a query that was not recorded gets: the hits of the nearest, nothing, or an error.",
    )


def _build(inputs: SourceInputs, options: dict[str, Any]) -> Source:
    from ragc.corpora.sources.recorded.source import RecordedSource

    if not inputs.recording:
        raise UsageError("A source of kind 'recorded' needs its recording; add corpus = \"results.jsonl\".")
    return RecordedSource(inputs.resolve(inputs.recording), **options)


KIND = SourceKind("recorded", RecordedOptions, _build, corpus="file")
