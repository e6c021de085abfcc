"""`hybrid`: two sources over the same passages, fused by shares or by reciprocal ranks.

    dense  ──► hits ─┐
                     ├─► fused hits
    sparse ──► hits ─┘

Passages are identified by their ids.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Self

from ragc.core.display import describe
from ragc.corpora.sources.base import Source, SourceInputs, SourceWrapper, best_first
from ragc.corpora.sources.bm25 import Bm25Source
from ragc.corpora.sources.dense import DenseSource
from ragc.corpora.sources.options import FusionOptions
from ragc.records import Hit, Passage

VERSION = 1
"""Increased whenever the same hits would be fused differently."""


def fuse_shares(dense: Sequence[Hit], sparse: Sequence[Hit], share: float, k: int) -> tuple[Hit, ...]:
    """Returns `k` >= 1 hits of two lists: k - round(k * (1 - share)) of `dense`, then the rest from `sparse`.

    A passage in both lists counts once, at its first position. If one list is too short, the next hits of the
    other fill up, `dense` before `sparse`. Scores are 1 / rank.
    """
    chosen: dict[str, Passage] = {}
    for hit in (*dense[: k - round(k * (1 - share))], *sparse[:k], *dense):
        chosen.setdefault(hit.passage.id, hit.passage)
    return tuple(Hit(passage, 1 / rank) for rank, passage in enumerate(chosen.values(), 1))[:k]


def fuse_ranks(dense: Sequence[Hit], sparse: Sequence[Hit], k: int, *, constant: float) -> tuple[Hit, ...]:
    """Returns the `k` passages with the highest sum of 1 / (constant + rank) over both lists, ties by id.

    Ranks count from 1; a passage missing from a list gets nothing for it. The order of the lists does not
    matter.
    """
    fused: dict[str, Hit] = {}
    for rank, hit in (*enumerate(dense, 1), *enumerate(sparse, 1)):
        score = 1 / (constant + rank)
        first = fused.get(hit.passage.id)
        fused[hit.passage.id] = Hit(first.passage, first.score + score) if first else Hit(hit.passage, score)
    return best_first(fused.values(), k)


class HybridSource(SourceWrapper):
    """The fused hits of `dense` and `sparse`, two sources over the same passages.

    `options` are `FusionOptions`: `fusion` is `share`, so that `share` of the hits, 0 to 1, come from
    `dense` (RAG-X's ratio), or `rrf`, reciprocal-rank fusion of the first `pool` hits of each. A source with
    a share of 0 is not searched, and the hits of the other are returned as they are. Samples are those of
    `dense`.
    """

    def __init__(self, dense: Source, sparse: Source, **options: Any) -> None:
        fusion = self.options = FusionOptions.of(options)
        used = [fusion.share] if fusion.fusion == "share" else [fusion.pool, float(fusion.constant)]
        super().__init__(dense, "hybrid", VERSION, fusion.fusion, used, sparse.fingerprint)
        self.kind, self.dense, self.sparse = "hybrid", dense, sparse

    @classmethod
    def of(cls, inputs: SourceInputs, options: dict[str, Any]) -> Source:
        """Builds the source over the passages of `inputs`; nothing is loaded or indexed."""
        dense, sparse = (dict(options.pop(name, {})) for name in ("dense", "sparse"))
        return cls(DenseSource.of(inputs, dense), Bm25Source.of(inputs, sparse), **options)

    def __repr__(self) -> str:
        return describe(type(self).__name__, self.dense, self.sparse, fusion=self.options.fusion)

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """Returns at most `k` hits, best first. Raises SourceError when either source does."""
        share = self.options.share if self.options.fusion == "share" else None
        if k < 1:
            return ()
        if share in (0, 1):
            return await (self.sparse if share == 0 else self.dense).search(query, k)
        most = max(k, self.options.pool) if share is None else k
        dense, sparse = await asyncio.gather(self.dense.search(query, most), self.sparse.search(query, most))
        if share is None:
            return fuse_ranks(dense, sparse, k, constant=self.options.constant)
        return fuse_shares(dense, sparse, share, k)

    def around(self, change: Callable[[Source], Source]) -> Self:
        """Returns the same fusion of what `change` makes of both sources."""
        return type(self)(change(self.dense), change(self.sparse), **self.options.explicit)
