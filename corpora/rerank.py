"""Rerankers: cross-encoders, embedders and BM25, chosen by the name in a recipe, KIND or KIND:MODEL.

query ──► inner source ──► pool ──► reranker: a score for each passage ──► the best k
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ragc.core.display import describe
from ragc.core.marks import Keys, Mark, RequestedAccess, Resolve
from ragc.core.plugins import Registry
from ragc.core.progress import Progress
from ragc.corpora import embed
from ragc.corpora.sources.base import Source, SourceWrapper
from ragc.errors import SourceError, UnknownName, UsageError
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
    model, "" for none, loading nothing, and raises UsageError where it cannot.
    """

    id: str
    names: tuple[str, ...]
    build: Callable[[str, Progress | None], Reranker]


_IN = "ragc.corpora.models"

RERANKERS = Registry(
    "ragc.rerankers",
    "reranker",
    RerankerKind,
    {
        "bm25": (f"{_IN}:BM25", "the BM25 score among the hits"),
        "embed": (f"{_IN}:EMBED", "likeness by an embedder, embed:MODEL, or by the default one"),
        "cross": (f"{_IN}:CROSS", "a cross-encoder, cross:MODEL"),
    },
)
"""The kinds of rerankers."""


def make(name: str, *, progress: Progress | None = None) -> Reranker:
    """Returns the reranker called `name`: `bm25`, `embed:MODEL`, or `cross:MODEL`.

    MODEL is a folder with a model in ONNX form, or a model of sentence-transformers by folder or id. Of
    embedders there is a default, which `embed` alone means; of cross-encoders there is none. `progress` is
    notified of the bytes of a download. Raises UnknownName, and UsageError when the folder lacks something or
    a library is not installed.
    """
    kind, model = split(name)
    record = RERANKERS.get(kind) if RERANKERS.is_known(kind) else None
    if record is None or (":" in name and f"{kind}:MODEL" not in record.names):
        raise UnknownName("reranker", name, [form for id in RERANKERS for form in RERANKERS.get(id).names])
    return record.build(model, progress)


def split(name: str) -> tuple[str, str]:
    """Returns the kind and the model in the name of a reranker, stripped."""
    kind, _, model = name.partition(":")
    return kind.strip(), model.strip()


async def rerank(reranker: Reranker, query: str, passages: Sequence[Passage]) -> Sequence[float]:
    """Returns the scores of `reranker`, and shows them to the watcher of the question. Raises SourceError."""
    begun = time.time_ns()
    scores = await reranker.scores(query, passages)
    if (watch := watcher.get()) is not None:
        watch(reranker.name, query, passages, scores, begun)
    return scores


class RerankedSource(SourceWrapper):
    """The best `k` of the first `max(k, pool)` hits of `inner`, ordered by the reranker.

    All else is as in `inner`. Raises UsageError unless `pool >= 1`.
    """

    def __init__(self, inner: Source, reranker: Reranker, *, pool: int = POOL) -> None:
        if pool < 1:
            raise UsageError(f"Reranking needs a pool of at least 1 hit, got {pool}.")
        super().__init__(inner, "reranked", pool, reranker.fingerprint)
        self.reranker, self.pool = reranker, pool

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


class _RerankerMark(Mark):
    """For an option that names a reranker."""

    def accesses(self, keys: Keys, value: Any) -> Iterator[RequestedAccess]:
        """Yields the model that is read, and another package's code that is run."""
        kind, model = split(str(value))
        if kind not in RERANKERS and RERANKERS.is_known(kind):
            yield RequestedAccess("runs", keys, value, "imports the package that adds this reranker")
        if kind == "embed" and model:
            yield from (replace(access, value=value) for access in embed.EMBEDDER.accesses(keys, model))
        elif ":" in str(value):
            yield RequestedAccess("reads", keys, value, "a model", path=model, model="onnx")

    def lacking(self, who: str, value: Any, resolve: Resolve) -> Iterator[str]:
        """Yields why the reranker cannot be made: a missing library, or a file that its folder lacks."""
        kind, model = split(str(value or ""))
        try:
            if value:
                make(f"{kind}:{resolve(model)}" if model and resolve(model).is_dir() else str(value))
        except UsageError as error:
            yield f"{who}, reranked by {value!r}: {error}"


RERANKER = _RerankerMark()
