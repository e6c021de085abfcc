"""`dense`: vector search with an embedder and FAISS.

    passages ──► cut ──► distinct texts ──► embedder ──► FAISS ──► rows ──► passages

The vectors are on disk and memory-mapped, so that processes share them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragc.core.digest import digest
from ragc.core.extras import require
from ragc.corpora import embed
from ragc.corpora.embed import DEFAULT, Embedder, Vectors, passage_text
from ragc.corpora.sources.base import Source, SourceInputs, best_first
from ragc.corpora.sources.chunked import IndexedSource
from ragc.corpora.sources.options import VectorOptions
from ragc.corpora.storage.corpus import Corpus, key
from ragc.corpora.storage.index_cache import Step
from ragc.errors import SourceError
from ragc.records import Hit, Passage

VERSION = 3
"""Increased whenever the same passages and vectors would give another index or other hits."""

_FILE = "vectors.faiss"
BLOCK = 1024
"""Passages embedded together; an HNSW graph depends on it."""

PLACES = 9
"""Decimals to which scores are rounded."""

_NEAR = 1e-5
"""An upper bound on the difference of float32 inner products of one query with equal vectors."""


class DenseSource(IndexedSource):
    """The passages nearest to a query by inner product; cut like those of `bm25`.

    Every search with a non-blank query finds `k` passages, however distant; scores are -1 to 1. An `index`
    that is `flat` compares all vectors; one that is `hnsw` walks a graph of `m` neighbours a node (from 2),
    with so many candidates while it is built and searched (from 1), and may miss some. Passages with the same
    title and text are embedded once. The index is stored on disk, in the user's cache or under `home`.
    Cutting, embedding and opening run in a thread at the first search.

    Raises DataError for no passages or duplicate ids, UsageError for a setting out of range or if FAISS is
    missing.
    """

    kind, Options = "dense", VectorOptions

    def __init__(
        self,
        passages: Corpus | Iterable[Passage],
        embedder: Embedder,
        *,
        home: Path | None = None,
        **options: Any,
    ) -> None:
        require("faiss", "A source of kind 'dense'")
        super().__init__(passages, home=home, **options | {"model": embedder.model})
        self.embedder, graph = embedder, self.options
        self._with = partial(DenseSource, self.corpus, embedder, home=home)
        used = (graph.m, graph.ef_construction, graph.ef_search) if graph.index == "hnsw" else (0, 0, 0)
        self._graph, self._ef_search = used[:2], used[2]
        self._made_of = {
            "embedder": embedder.fingerprint,
            "cut": self.cutting,
            "version": VERSION,
            "graph": self._graph,
        }
        self.fingerprint = digest([self.kind, self.corpus.fingerprint, self._made_of, self._ef_search])

    @classmethod
    def of(cls, inputs: SourceInputs, options: dict[str, Any]) -> Source:
        """Builds the source over the passages of `inputs`, with the embedder that `model` names; no model is
        loaded.
        """
        model = str(options.get("model", DEFAULT))
        folder = inputs.resolve(model)
        embedder = embed.make(str(folder) if folder.is_dir() else model)
        return cls(inputs.passages, embedder, **options)

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """Returns at most `k` hits, best first, ties by passage id; `()` for a blank query.

        Raises SourceError if the model cannot be loaded or run, or if the stored index cannot be read.
        """
        return await asyncio.to_thread(self._search, query, k) if k > 0 and query.strip() else ()

    def with_embedder(self, embedder: Embedder) -> DenseSource:
        """Returns the same corpus, cut in the same way, searched with `embedder`."""
        return DenseSource(self.corpus, embedder, home=self.home, **self.options.explicit)

    def _search(self, query: str, k: int) -> tuple[Hit, ...]:
        index, positions, starts = self.opened()
        (vector,) = self.embedder.embed([self.embedder.query_prefix + query])
        rows, scores = nearest(index, vector, k, self._ef_search)
        return best_first(
            (
                Hit(self.passages[int(position)], float(score))
                for row, score in zip(rows, scores, strict=True)
                for position in positions[starts[row] : starts[row + 1]]
            ),
            k,
        )

    def _open(self, folder: Path) -> tuple[Any, NDArray[np.int64], NDArray[np.int64]]:
        """Returns the index, and the positions of the passages of row n at `positions[starts[n]:starts[n +
        1]]`.
        """
        faiss = _faiss()
        try:
            index = faiss.read_index(str(folder / _FILE), faiss.IO_FLAG_MMAP_IFC)
        except RuntimeError as error:
            raise SourceError(
                f"The dense index in {folder} cannot be read ({str(error).strip()[-200:]}). Delete the "
                "folder to have it built again."
            ) from error
        positions, starts = (
            np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("positions", "starts")
        )
        return index, positions, starts

    def _write(self, folder: Path, step: Step) -> None:
        """Writes one vector a text, in the order of first appearance; a graph is built by one thread, so that
        the same passages give the same one.
        """
        faiss = _faiss()
        rows: dict[int, list[int]] = {}
        for position, passage in enumerate(self.passages):
            rows.setdefault(key(passage_text(passage)), []).append(position)
        dimensions, (m, ef_construction) = self.embedder.dimensions, self._graph
        index = (
            faiss.IndexHNSWFlat(dimensions, m, faiss.METRIC_INNER_PRODUCT)
            if m
            else faiss.IndexFlatIP(dimensions)
        )
        if m:
            index.hnsw.efConstruction = ef_construction
        threads, groups = faiss.omp_get_max_threads(), list(rows.values())
        for start in range(0, len(groups), BLOCK):
            block = groups[start : start + BLOCK]
            texts = [passage_text(self.passages[group[0]]) for group in block]
            vectors = self.embedder.embed([self.embedder.passage_prefix + text for text in texts])
            if vectors.shape != (len(block), dimensions) or not np.isfinite(vectors).all():
                raise SourceError(
                    f"The embedder {self.embedder.model!r} gave an array of shape {vectors.shape} for "
                    f"{len(block)} texts; {dimensions} finite numbers for each were expected."
                )
            faiss.omp_set_num_threads(1)
            index.add(np.ascontiguousarray(vectors, dtype=np.float32))
            faiss.omp_set_num_threads(threads)
            step(sum(map(len, block)))
        with (folder / _FILE).open("wb") as file:  # FAISS's own file only prints that a full disk refused
            faiss.write_index(index, faiss.PyCallbackIOWriter(file.write))
        np.save(folder / "positions.npy", np.concatenate(groups))
        np.save(folder / "starts.npy", np.cumsum([0, *map(len, groups)]))


def nearest(
    index: Any, query: Vectors, k: int, ef_search: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Returns the `k` rows nearest to `query` and all rows that tie with the last of them, with their scores.

    `query` has shape (dimensions,) and length 1. Rows are unordered. Scores are inner products, -1 to 1,
    equal for equal vectors. A graph may miss rows; `ef_search` are the candidates it holds, 0 for an index
    without a graph.
    """
    wanted = k + 16
    while True:
        params = _faiss().SearchParametersHNSW(efSearch=max(ef_search, wanted)) if ef_search else None
        scores, rows = (
            found[0] for found in index.search(query[None], min(wanted, index.ntotal), params=params)
        )
        scores, rows = scores[rows >= 0], rows[rows >= 0]
        least = scores[:k].min(initial=1.0) - _NEAR
        if wanted >= index.ntotal or len(scores) < wanted or scores[-1] < least:
            break
        wanted *= 4
    near = rows[scores >= least]
    vectors = index.reconstruct_batch(near).astype(np.float64)
    return near, np.round((vectors * query.astype(np.float64)).sum(axis=1), PLACES)


def _faiss() -> Any:
    import faiss  # takes a third of a second

    return faiss
