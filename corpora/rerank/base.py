"""The protocol of rerankers, and the source that uses one.

query ──► inner source ──► pool ──► reranker: a score for each passage ──► the best k
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

from ragc.core.digest import digest
from ragc.core.display import describe
from ragc.core.progress import Progress
from ragc.corpora.sources.base import Source, parts_of, with_titles
from ragc.errors import SourceError, UsageError
from ragc.records import Hit, Passage

POOL = 50
"""The default number of hits of the inner source that are reranked."""


watcher: ContextVar[Callable[[str, str, Sequence[Passage], Sequence[float], int], None] | None] = ContextVar(
    "ragc_watcher", default=None
)
"""Who is told of a reranking in this context: model, query, passages, scores, and when it began (ns)."""


class Reranker(Protocol):
    """Scores how well each of a few passages fits a query.

    `name` is for people. `fingerprint` identifies model and settings: equal fingerprints give equal scores,
    up to the last bits of a float between machines. The constructor loads no model; the first use does.
    `__deepcopy__` returns the reranker itself.
    """

    name: str
    fingerprint: str

    async def scores(self, query: str, passages: Sequence[Passage]) -> Sequence[float]:
        """Returns one finite number for each passage, in their order, higher for one that fits better.

        Only comparable within one call. Safe to call for several queries at once. Raises SourceError when
        the model cannot be loaded or run.
        """
        ...


@dataclass(frozen=True, slots=True)
class RerankerKind:
    """The record of a kind of reranker.

    `names` are the forms of its name, such as ("embed", "embed:MODEL"). `build` makes the reranker of a
    model, "" for none, loading nothing. `modules` must be installed for a model that is no folder.
    """

    id: str
    names: tuple[str, ...]
    build: Callable[[str, Progress | None], Reranker]
    modules: tuple[str, ...] = ()


async def rerank(reranker: Reranker, query: str, passages: Sequence[Passage]) -> Sequence[float]:
    """Returns the scores of `reranker`, and shows them to watchers of the question. Raises SourceError."""
    watching = watcher.get()
    if watching is None:
        return await reranker.scores(query, passages)
    begun = time.time_ns()
    scores = await reranker.scores(query, passages)
    watching(reranker.name, query, passages, scores, begun)
    return scores


class RerankedSource:
    """The best `k` of the first `max(k, pool)` hits of `inner`, ordered by the reranker.

    All else is as in `inner`. Raises UsageError unless `pool >= 1`.
    """

    def __init__(self, inner: Source, reranker: Reranker, *, pool: int = POOL) -> None:
        if pool < 1:
            raise UsageError(f"Reranking needs a pool of at least 1 hit, got {pool}.")
        self.inner, self.reranker, self.kind, self.pool = inner, reranker, inner.kind, pool
        self.fingerprint = digest(["reranked", pool, reranker.fingerprint, inner.fingerprint])

    def __deepcopy__(self, memo: object) -> RerankedSource:
        return self

    def __repr__(self) -> str:
        return describe(
            type(self).__name__, self.inner, reranker=type(self.reranker).__name__, pool=self.pool
        )

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """Returns at most `k` hits, the highest reranker scores first, ties by passage id.

        Raises SourceError when `inner` or the reranker does, and when there is not one finite score for
        each passage.
        """
        hits = await self.inner.search(query, max(k, self.pool)) if k > 0 else ()
        if not hits:
            return ()
        scores = [float(s) for s in await rerank(self.reranker, query, [hit.passage for hit in hits])]
        if len(scores) != len(hits) or not all(map(math.isfinite, scores)):
            raise SourceError(
                f"The reranker {self.reranker.name!r} gave {len(scores)} scores for {len(hits)} passages, "
                f"{sum(map(math.isfinite, scores))} of them finite; one finite score for each is needed."
            )
        reranked = [Hit(hit.passage, score, hit.source) for hit, score in zip(hits, scores, strict=True)]
        return tuple(sorted(reranked, key=lambda hit: (-hit.score, hit.passage.id))[:k])

    def sample(self, n: int, *, seed: str, exclude: frozenset[str] = frozenset()) -> tuple[Passage, ...]:
        """Returns `n` passages drawn uniformly without replacement, none with an id or parent id in
        `exclude`.
        """
        return self.inner.sample(n, seed=seed, exclude=exclude)

    def parts_of(self, ids: Sequence[str]) -> tuple[Passage, ...]:
        """Returns the parts from the wrapped source."""
        return parts_of(self.inner, ids)

    def rechunk(self, chunk_size: int, overlap: float) -> RerankedSource:
        """Returns the same reranking over `inner` in chunks of at most `chunk_size` tokens."""
        return self._over(self.inner.rechunk(chunk_size, overlap))

    def with_titles(self, sections: bool | None, columns: bool | None) -> RerankedSource:
        """Returns the same reranking over `inner` with other titles of chunks."""
        return self._over(with_titles(self.inner, sections, columns))

    def _over(self, inner: Source) -> RerankedSource:
        return self if inner is self.inner else RerankedSource(inner, self.reranker, pool=self.pool)
