"""`hybrid`: two sources over the same passages, fused by shares or by reciprocal ranks.

    dense  ──► hits ─┐
                     ├─► fused hits
    sparse ──► hits ─┘

Passages are identified by their ids.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Self

from pydantic import Field

from ragc.core.display import describe
from ragc.core.marks import HARMLESS
from ragc.core.tables import Choice
from ragc.corpora.sources import bm25
from ragc.corpora.sources import dense as vectors
from ragc.corpora.sources.base import Source, SourceInputs, SourceKind, SourceWrapper
from ragc.corpora.sources.options import CorpusHalfOptions, FromZero, Positive, RerankOptions, Share
from ragc.records import Hit, Passage

RRF_K = 60
"""The constant of reciprocal-rank fusion in the paper that proposed it (Cormack et al., 2009)."""

VERSION = 1
"""Increased whenever the same hits would be fused differently."""


class HybridOptions(RerankOptions, CorpusHalfOptions):
    """Options of a source of kind `hybrid`."""

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


def fuse_shares(dense: Sequence[Hit], sparse: Sequence[Hit], share: float, k: int) -> tuple[Hit, ...]:
    """Returns `k` hits of two lists: k - round(k * (1 - share)) hits of `dense`, then the rest from `sparse`.

    A passage in both lists counts once, at its first position. If one list is too short, the next hits of the
    other fill up, `dense` before `sparse`. Scores are 1 / rank. With a share of 1 or 0 the result is the
    first `k` hits of that one list, unchanged.
    """
    if share in (0, 1):
        return tuple((dense if share == 1 else sparse)[: max(k, 0)])
    of_sparse = round(k * (1 - share))
    chosen: dict[str, Passage] = {}
    for hits, most in ((dense, k - of_sparse), (sparse, k), (dense, k)):
        for hit in hits:
            if len(chosen) >= most:
                break
            chosen.setdefault(hit.passage.id, hit.passage)
    return tuple(Hit(passage, 1 / rank) for rank, passage in enumerate(chosen.values(), 1))


def fuse_ranks(
    dense: Sequence[Hit], sparse: Sequence[Hit], k: int, *, constant: float = RRF_K
) -> tuple[Hit, ...]:
    """Returns the `k` passages with the highest sum of 1 / (constant + rank) over both lists, ties by id.

    Ranks count from 1; a passage missing from a list gets nothing for it. The order of the lists does not
    matter.
    """
    scores: dict[str, float] = {}
    passages: dict[str, Passage] = {}
    for rank, hit in (*enumerate(dense, 1), *enumerate(sparse, 1)):
        passages.setdefault(hit.passage.id, hit.passage)
        scores[hit.passage.id] = scores.get(hit.passage.id, 0.0) + 1 / (constant + rank)
    best = sorted(scores, key=lambda name: (-scores[name], name))[: max(k, 0)]
    return tuple(Hit(passages[name], scores[name]) for name in best)


class HybridSource(SourceWrapper):
    """The fused hits of `dense` and `sparse`, two sources over the same passages.

    `fusion` is `share`: `share` of the hits, 0 to 1, come from `dense` (RAG-X's ratio), or `rrf`:
    reciprocal-rank fusion of the first `pool` hits of each. A source with a share of 0 is not searched.
    Samples are those of `dense`.
    """

    def __init__(
        self,
        dense: Source,
        sparse: Source,
        *,
        fusion: str = "rrf",
        share: float = 0.5,
        pool: int = 100,
        constant: float = RRF_K,
    ) -> None:
        used = [float(share)] if fusion == "share" else [pool, float(constant)]
        super().__init__(dense, "hybrid", VERSION, fusion, used, sparse.fingerprint)
        self.kind, self.dense, self.sparse = "hybrid", dense, sparse
        self.fusion, self.share, self.pool, self.constant = fusion, share, pool, constant

    def __repr__(self) -> str:
        return describe(type(self).__name__, self.dense, self.sparse, fusion=self.fusion)

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """Returns at most `k` hits, best first. Raises SourceError when either source does."""
        if k < 1:
            return ()
        if self.fusion == "share" and self.share in (0, 1):
            return await (self.dense if self.share == 1 else self.sparse).search(query, k)
        wanted = max(k, self.pool) if self.fusion == "rrf" else k
        dense, sparse = await asyncio.gather(
            self.dense.search(query, wanted), self.sparse.search(query, wanted)
        )
        if self.fusion == "rrf":
            return fuse_ranks(dense, sparse, k, constant=self.constant)
        return fuse_shares(dense, sparse, self.share, k)

    def around(self, change: Callable[[Source], Source]) -> Self:
        """Returns the same fusion of what `change` makes of both sources."""
        return type(self)(
            change(self.dense),
            change(self.sparse),
            fusion=self.fusion,
            share=self.share,
            pool=self.pool,
            constant=self.constant,
        )


def _build(inputs: SourceInputs, options: dict[str, Any]) -> Source:
    from ragc.corpora.sources.bm25.source import build as build_sparse

    dense, sparse = (dict(options.pop(name, {})) for name in ("dense", "sparse"))
    return HybridSource(vectors.build(inputs, dense), build_sparse(inputs, sparse), **options)


KIND = SourceKind("hybrid", HybridOptions, _build, vectors.KIND.modules, "passages")
