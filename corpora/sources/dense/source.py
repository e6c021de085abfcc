"""`dense`: vector search with an embedder and FAISS.

    passages ──► cut ──► distinct texts ──► embedder ──► FAISS ──► rows ──► passages

The vectors are on disk and memory-mapped, so that processes share them.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragc.core.digest import digest
from ragc.core.display import describe, quantity
from ragc.core.extras import require
from ragc.core.progress import Progress, Silent
from ragc.corpora.embed.base import Embedder, Vectors, passage_text
from ragc.corpora.sources.chunked import ChunkedSource
from ragc.corpora.sources.dense.faiss_index import BLOCK, VERSION, DenseIndex, IndexSettings
from ragc.corpora.storage.corpus import Corpus
from ragc.corpora.storage.index_cache import IndexFolder, Step, open_or_build
from ragc.corpora.storage.passages import encode_text, map_array, save_array
from ragc.errors import SourceError
from ragc.records import Hit, Passage

FLAT = IndexSettings()

_ORDER, _STARTS = "order.npy", "starts.npy"


class DenseSource(ChunkedSource):
    """The passages nearest to a query by inner product; cut like those of `bm25`.

    Every search with a non-blank query finds `k` passages, however distant; scores are -1 to 1. Passages with
    the same title and text are embedded once. The index is stored on disk, in the user's cache or under
    `home`; with `keep` False it is in memory. `progress` counts embedded texts. Cutting, embedding and
    opening run in a thread at the first search.

    Raises DataError for no passages or duplicate ids, UsageError for a setting out of range or if FAISS is
    missing.
    """

    kind = "dense"

    def __init__(
        self,
        passages: Corpus | Iterable[Passage],
        embedder: Embedder,
        *,
        settings: IndexSettings = FLAT,
        chunk_size: int | None = None,
        overlap: float = 0.0,
        chunk_by: str = "text",
        keep: bool = True,
        home: Path | None = None,
        progress: Progress | None = None,
    ) -> None:
        require("faiss", "A source of kind 'dense'")
        self.embedder, self.settings = embedder, settings
        self._keep, self._home, self._progress = keep, home, progress or Silent()
        super().__init__(passages, chunk_size, overlap, chunk_by)
        self._made_of = {"embedder": embedder.fingerprint, "cut": self.cutting, "version": VERSION}
        self.fingerprint = digest([self.kind, self.corpus.fingerprint, self._made_of, settings.all()])
        self._opened: tuple[_Rows, DenseIndex] | None = None

    def __repr__(self) -> str:
        size = quantity(len(self.corpus.passages), "passage")
        return describe(type(self).__name__, size, model=self.embedder.model, chunk_size=self.chunk_size)

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """Returns at most `k` hits, best first, ties by passage id; `()` for a blank query.

        Raises SourceError if the model cannot be loaded or run, or if the stored index cannot be read.
        """
        if k < 1 or not query.strip():
            return ()
        return await asyncio.to_thread(self._search, query, k)

    def build(self, progress: Progress | None = None) -> IndexFolder | None:
        """Returns the index on disk, built if it is missing; None with `keep` False. Raises SourceError."""
        if not self._keep:
            return None
        passages = self.passages
        return open_or_build(
            self.kind,
            self.corpus.fingerprint,
            {**self._made_of, "index": self.settings.build_settings()},
            lambda folder, step: self._write(folder, passages, step),
            home=self._home,
            total=len(passages),
            progress=progress or self._progress,
        )

    def with_embedder(self, embedder: Embedder) -> DenseSource:
        """Returns the same corpus, cut in the same way, searched with `embedder`."""
        return self._varied(embedder, self.chunk_size, self.overlap, self.chunk_by)

    def _with_chunks(self, chunk_size: int | None, overlap: float, chunk_by: str) -> DenseSource:
        return self._varied(self.embedder, chunk_size, overlap, chunk_by)

    def _varied(
        self, embedder: Embedder, chunk_size: int | None, overlap: float, chunk_by: str
    ) -> DenseSource:
        return DenseSource(
            self.corpus,
            embedder,
            settings=self.settings,
            chunk_size=chunk_size,
            overlap=overlap,
            chunk_by=chunk_by,
            keep=self._keep,
            home=self._home,
            progress=self._progress,
        )

    def _search(self, query: str, k: int) -> tuple[Hit, ...]:
        rows, index = self._ready()
        (vector,) = self.embedder.embed([self.embedder.query_prefix + query])
        near, scores = index.nearest(vector, k)
        hits = [
            Hit(passage, float(score))
            for row, score in zip(near, scores, strict=True)
            for passage in rows.of(int(row))
        ]
        return tuple(sorted(hits, key=lambda hit: (-hit.score, hit.passage.id))[:k])

    def _ready(self) -> tuple[_Rows, DenseIndex]:
        passages = self.passages
        with self._lock:
            if self._opened is None:
                self._opened = self._open(passages)
            return self._opened

    def _open(self, passages: Sequence[Passage]) -> tuple[_Rows, DenseIndex]:
        if index_folder := self.build():
            rows = _Rows(
                passages, map_array(index_folder.path / _ORDER), map_array(index_folder.path / _STARTS)
            )
            return rows, DenseIndex.open(index_folder.path, self.settings, rows=len(rows))
        self._progress.phase("index dense", len(passages), "passages")
        return self._build_in_memory(passages, self._progress.step)

    def _write(self, folder: Path, passages: Sequence[Passage], step: Step) -> None:
        rows, index = self._build_in_memory(passages, step)
        save_array(folder / _ORDER, rows.order)
        save_array(folder / _STARTS, rows.starts)
        index.save(folder)

    def _build_in_memory(self, passages: Sequence[Passage], step: Step) -> tuple[_Rows, DenseIndex]:
        rows, dimensions = _Rows.of_equal(passages), self.embedder.dimensions
        return rows, DenseIndex.build(self._blocks(rows, dimensions, step), dimensions, self.settings)

    def _blocks(self, rows: _Rows, dimensions: int, step: Step) -> Iterator[Vectors]:
        for start in range(0, len(rows), BLOCK):
            part = [rows.of(row) for row in range(start, min(start + BLOCK, len(rows)))]
            texts = [self.embedder.passage_prefix + passage_text(same[0]) for same in part]
            vectors = self.embedder.embed(texts)
            if vectors.shape != (len(part), dimensions) or not np.isfinite(vectors).all():
                raise SourceError(
                    f"The embedder {self.embedder.model!r} gave an array of shape {vectors.shape} for "
                    f"{len(part)} texts; {dimensions} finite numbers for each were expected."
                )
            step(sum(map(len, part)))
            yield vectors


class _Rows:
    """Passages by row of the index; passages with the same title and text share a row.

    The passages at `order[starts[n]:starts[n + 1]]` are those of row n.
    """

    def __init__(self, passages: Sequence[Passage], order: NDArray[Any], starts: NDArray[Any]) -> None:
        self.passages, self.order, self.starts = passages, order, starts

    @classmethod
    def of_equal(cls, passages: Sequence[Passage]) -> _Rows:
        """Returns the rows of `passages`, grouped by a digest of title and text, in the order of first
        appearance.
        """
        first: dict[bytes, int] = {}
        marks = (
            hashlib.blake2b(encode_text(f"{p.title}\0{p.text}"), digest_size=16).digest() for p in passages
        )
        row = np.fromiter((first.setdefault(mark, len(first)) for mark in marks), np.int64, len(passages))
        order = np.argsort(row, kind="stable")
        return cls(passages, order, np.searchsorted(row[order], np.arange(len(first) + 1)))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def of(self, row: int) -> list[Passage]:
        """Returns the passages of one row."""
        return [self.passages[int(at)] for at in self.order[self.starts[row] : self.starts[row + 1]]]
