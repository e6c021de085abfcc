"""`bm25`: keyword search over a corpus with the scores of Lucene's BM25."""

from __future__ import annotations

from pydantic import Field

from ragc.corpora.sources.base import SourceKind
from ragc.corpora.sources.options import (
    Bm25Parameters,
    CorpusHalfOptions,
    Positive,
    RerankOptions,
    TitleOptions,
)


class SparseOptions(Bm25Parameters):
    """Keyword search: what `bm25` and the sparse part of `hybrid` share."""

    title_boost: Positive = Field(
        default=1, description="How many times a title counts in the term frequency of its passage. From 1."
    )


class Bm25Options(SparseOptions, TitleOptions, RerankOptions, CorpusHalfOptions):
    """Options of a source of kind `bm25`."""


KIND = SourceKind("bm25", Bm25Options, "ragc.corpora.sources.bm25.source:build", corpus="passages")
