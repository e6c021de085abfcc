"""`lucene`: keyword search by Lucene over an index on disk, through the Java of pyserini."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from ragc.core.extras import EXTRAS
from ragc.core.marks import HARMLESS
from ragc.core.tables import Choice
from ragc.corpora.sources.base import Source, SourceInputs, SourceKind
from ragc.corpora.sources.lucene.index import ANALYZERS
from ragc.corpora.sources.options import (
    Bm25Parameters,
    CorpusHalfOptions,
    FromZero,
    RerankOptions,
    TitleOptions,
)


class LuceneOptions(Bm25Parameters, TitleOptions, RerankOptions, CorpusHalfOptions):
    """Options of a source of kind `lucene`."""

    kind = "lucene"

    title_boost: FromZero = Field(
        default=0.0, description="Weight of a match in the title beside one in the text. From 0."
    )
    analyzer: Annotated[str, Choice(ANALYZERS), HARMLESS] = Field(
        default="ragc",
        description="How texts become terms: ragc (as bm25 does), english or standard (Lucene's own).",
    )


def _build(inputs: SourceInputs, options: dict[str, Any]) -> Source:
    from ragc.corpora.sources.lucene.source import LuceneSource

    return LuceneSource(inputs.passages, **options)


KIND = SourceKind("lucene", LuceneOptions, _build, lambda options: EXTRAS["lucene"], "passages")
