"""`embed`: reranks by the likeness of vectors."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import Any

import numpy as np

from ragc.core.digest import digest
from ragc.core.extras import lacking
from ragc.core.marks import Keys, Mark, RequestedAccess, Resolve
from ragc.core.progress import Progress
from ragc.corpora import embed
from ragc.corpora.embed.base import DEFAULT, Embedder, Vectors, passage_text
from ragc.corpora.rerank.base import RerankerKind
from ragc.errors import SourceError, UsageError
from ragc.records import Passage

VERSION = 1
"""Increased whenever the same query and passages would get other scores."""

PLACES = 6
"""Decimals to which cosines are rounded.

float32 is no more precise, and later decimals depend on which texts are embedded together.
"""

KEPT = 50_000
"""The most passage vectors cached in memory; 77 MB at 384 dimensions."""


class EmbedReranker:
    """The cosine of the vectors of query and passage, -1 to 1, by `embedder` with its prefixes.

    Vectors of the last `keep` passages stay in memory, by id and text. Raises UsageError unless
    `keep >= 0`.
    """

    def __init__(self, embedder: Embedder, *, keep: int = KEPT) -> None:
        if keep < 0:
            raise UsageError(f"Vectors of at least 0 passages are kept, got {keep}.")
        self.embedder, self.keep = embedder, keep
        self.name = f"embed:{embedder.model}"
        self.fingerprint = digest(["rerank-embed", VERSION, PLACES, embedder.fingerprint])
        self._vectors: OrderedDict[tuple[str, str], Vectors] = OrderedDict()
        self._lock = Lock()

    def __deepcopy__(self, memo: object) -> EmbedReranker:
        return self

    async def scores(self, query: str, passages: Sequence[Passage]) -> Sequence[float]:
        """Returns the cosine of each passage with the query; computed in a thread.

        Raises SourceError when the model cannot be loaded or run, and unless it returns one finite vector for
        each text.
        """
        return await asyncio.to_thread(self._scores, query, passages) if passages else []

    def _scores(self, query: str, passages: Sequence[Passage]) -> list[float]:
        keys = [(passage.id, passage_text(passage)) for passage in passages]
        with self._lock:
            held = {key: self._vectors[key] for key in keys if key in self._vectors}
        lacking = [key for key in dict.fromkeys(keys) if key not in held]
        texts = [self.embedder.query_prefix + query]
        texts += [self.embedder.passage_prefix + text for _, text in lacking]
        vectors = self.embedder.embed(texts)
        if vectors.ndim != 2 or len(vectors) != len(texts) or not np.isfinite(vectors).all():
            raise SourceError(
                f"The embedder {self.embedder.model!r} gave an array of shape {vectors.shape} for "
                f"{len(texts)} texts; one row of finite numbers for each was expected."
            )
        held |= {key: vectors[at].copy() for at, key in enumerate(lacking, 1)}
        self._remember(held)
        ordered = np.stack([held[key] for key in keys])
        return [round(float(cosine), PLACES) for cosine in ordered @ vectors[0]]

    def _remember(self, used: dict[tuple[str, str], Vectors]) -> None:
        with self._lock:
            for key, vector in used.items():
                self._vectors[key] = vector
                self._vectors.move_to_end(key)
            while len(self._vectors) > self.keep:
                self._vectors.popitem(last=False)


class _RerankEmbedderMark(Mark):
    """For the embedder that reranks; "" is the default one."""

    def accesses(self, keys: Keys, value: Any) -> Iterator[RequestedAccess]:
        """Yields what the embedder reads and runs."""
        return embed.EMBEDDER.accesses(keys, value)

    def lacking(self, who: str, value: Any, resolve: Resolve) -> Iterator[str]:
        """Yields the libraries that the embedder needs and that are not installed."""
        if value in ("", "minilm"):
            yield from lacking(who, ("onnxruntime", "tokenizers"))
        yield from embed.lacking(value, resolve)


def _build(model: str, progress: Progress | None) -> EmbedReranker:
    return EmbedReranker(embed.make(model or DEFAULT, progress=progress))


KIND = RerankerKind("embed", ("embed", "embed:MODEL"), _build, _RerankEmbedderMark())
