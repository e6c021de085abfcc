"""Reranking: a source finds a pool of passages, a model puts them in a better order.

    query ──► inner source ──► pool ──► reranker: a score for each passage ──► the best k

A reranker is a cross-encoder (`rerank_cross`), an embedder or BM25 (`rerank_embed`), or a language model
that orders lists (`rerank_listwise`). `make` turns the name in a recipe into one of the first three.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol

from ragc.core.digest import digest
from ragc.core.display import describe
from ragc.core.progress import Progress
from ragc.corpora.sources.base import Source
from ragc.errors import SourceError, UnknownName, UsageError
from ragc.records import Hit, Passage

VERSION = 1
"""Raised whenever the same hits and scores would be put in another order."""

POOL = 50
"""Hits of the inner source that are put in order, where a recipe does not say."""

NAMES = ("bm25", "embed", "embed:MODEL", "cross:MODEL")
"""What `make` knows; MODEL is a folder or an id."""


class Reranker(Protocol):
    """Says how well each of a few passages fits a query.

    `name` is for people. `fingerprint` identifies model and settings: equal fingerprints give equal
    scores, up to the last bits of a float between machines. Making a reranker loads no model; its first
    use does. `__deepcopy__` returns the reranker itself.
    """

    name: str
    fingerprint: str

    async def scores(self, query: str, passages: Sequence[Passage]) -> Sequence[float]:
        """One finite number for each passage, in their order, higher for one that fits better.

        Only comparable within one call. Safe to call for several queries at once. Raises SourceError when
        the model cannot be loaded or run.
        """
        ...


class RerankedSource:
    """The best `k` of the first `pool` hits of `inner` (of the first `k`, when those are more).

    Hits carry the score of the reranker, or still that of `inner` with `keep_score`. Everything else is
    as in `inner`. Raises UsageError unless `pool >= 1`.
    """

    def __init__(
        self, inner: Source, reranker: Reranker, *, pool: int = POOL, keep_score: bool = False
    ) -> None:
        if pool < 1:
            raise UsageError(f"Reranking needs a pool of at least 1 hit, got {pool}.")
        self.inner, self.reranker, self.kind = inner, reranker, inner.kind
        self.pool, self.keep_score = pool, keep_score
        settings = [VERSION, pool, bool(keep_score)]
        self.fingerprint = digest(["reranked", settings, reranker.fingerprint, inner.fingerprint])

    def __deepcopy__(self, memo: object) -> RerankedSource:
        return self

    def __repr__(self) -> str:
        return describe(
            type(self).__name__, self.inner, reranker=type(self.reranker).__name__, pool=self.pool
        )

    def scope(self) -> str:
        """What a search depends on beside its query: what `inner` says, else nothing."""
        said: Callable[[], str] | None = getattr(self.inner, "scope", None)
        return said() if said is not None else ""

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """At most `k` hits, those that the reranker scores highest first, ties by passage id.

        Raises SourceError when `inner` or the reranker does, and when there is not one finite score for
        each passage.
        """
        if k < 1:
            return ()
        hits = await self.inner.search(query, max(k, self.pool))
        if not hits:
            return ()
        scores = [float(s) for s in await self.reranker.scores(query, [hit.passage for hit in hits])]
        if len(scores) != len(hits) or not all(map(math.isfinite, scores)):
            raise SourceError(
                f"The reranker {self.reranker.name!r} gave {len(scores)} scores for {len(hits)} passages, "
                f"{sum(map(math.isfinite, scores))} of them finite; one finite score for each is needed."
            )
        order = sorted(range(len(hits)), key=lambda at: (-scores[at], hits[at].passage.id))[:k]
        if self.keep_score:
            return tuple(hits[at] for at in order)
        return tuple(Hit(hits[at].passage, scores[at], hits[at].source) for at in order)

    def sample(self, n: int, *, seed: str, exclude: frozenset[str] = frozenset()) -> tuple[Passage, ...]:
        """`n` passages drawn uniformly without replacement, none with an id or parent id in `exclude`."""
        return self.inner.sample(n, seed=seed, exclude=exclude)

    def rechunked(self, chunk_size: int, overlap: float) -> RerankedSource:
        """The same reranking over `inner` in chunks of at most `chunk_size` tokens."""
        cut = self.inner.rechunked(chunk_size, overlap)
        if cut is self.inner:
            return self
        return RerankedSource(cut, self.reranker, pool=self.pool, keep_score=self.keep_score)


def make(name: str, *, progress: Progress | None = None) -> Reranker:
    """The reranker called `name`: `bm25`, `embed:MODEL`, or `cross:MODEL`.

    MODEL is a folder with a model in ONNX form, or a model of sentence-transformers by folder or id. Of
    embedders there is a default, which `embed` alone means; of cross-encoders there is none. `progress` is
    told of the bytes of a download. Raises UnknownName, and UsageError when the folder lacks something or
    a library is not installed.
    """
    kind, colon, model = name.strip().partition(":")
    model = model.strip()
    if (kind, colon) == ("bm25", ""):
        from ragc.corpora.rerank.embedding import Bm25Reranker

        return Bm25Reranker()
    if kind == "embed":
        from ragc.corpora.embed import base
        from ragc.corpora.rerank.embedding import EmbedReranker

        return EmbedReranker(base.make(model or base.DEFAULT, progress=progress))
    if kind == "cross":
        from ragc.corpora.rerank.cross_encoder import cross

        return cross(model)
    raise UnknownName("reranker", name, NAMES)
