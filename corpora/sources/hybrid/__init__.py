"""`hybrid`: two sources over the same passages, fused by shares or by reciprocal ranks."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from ragc.core.marks import HARMLESS
from ragc.core.tables import Choice
from ragc.corpora.sources import bm25
from ragc.corpora.sources import dense as vectors
from ragc.corpora.sources.base import Source, SourceInputs, SourceKind
from ragc.corpora.sources.options import CorpusHalfOptions, FromZero, Positive, RerankOptions, Share


class HybridOptions(RerankOptions, CorpusHalfOptions):
    """Options of a source of kind `hybrid`."""

    kind = "hybrid"

    fusion: Annotated[str, Choice(("share", "rrf")), HARMLESS] = Field(
        default="rrf",
        description="How hits are fused: rrf (reciprocal ranks), or share (a share of the hits each).",
    )
    share: Share = Field(
        default=0.5, description="Share of the hits that are dense, with fusion = share. From 0 to 1."
    )
    pool: Positive = Field(
        default=100, description="Hits of each part that are fused, with fusion = rrf. From 1."
    )
    constant: FromZero = Field(default=60, description="Constant of reciprocal-rank fusion. From 0.")
    dense: vectors.VectorOptions = Field(
        default_factory=vectors.VectorOptions,
        description="Options of the dense part, as of a source of kind dense.",
    )
    sparse: bm25.SparseOptions = Field(
        default_factory=bm25.SparseOptions,
        description="Options of the sparse part, as of a source of kind bm25.",
    )


def _build(inputs: SourceInputs, options: dict[str, Any]) -> Source:
    from ragc.corpora.sources.bm25.source import build as build_sparse
    from ragc.corpora.sources.hybrid.source import HybridSource

    dense, sparse = (dict(options.pop(name, {})) for name in ("dense", "sparse"))
    return HybridSource(vectors.build(inputs, dense), build_sparse(inputs, sparse), **options)


KIND = SourceKind("hybrid", HybridOptions, _build, vectors.KIND.modules, "passages")
