"""`dense`: passages by the likeness of meaning, with an embedder and FAISS.

    passages ──► cut ──► distinct texts ──► embedder ──► FAISS ──► rows ──► passages

The vectors lie on disk and are mapped into memory, so that processes share them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from threading import Lock

import numpy as np

from ragc.corpora import chunking
from ragc.corpora.bm25 import Corpus, drawn
from ragc.corpora.dense_index import BLOCK, VERSION, DenseIndex, IndexSettings
from ragc.corpora.embedders import Embedder, Vectors, passage_text, require
from ragc.corpora.index_folder import Step, open_or_build
from ragc.errors import SourceError
from ragc.fingerprint import digest
from ragc.progress import Progress, Silent
from ragc.records import Hit, Passage

FLAT = IndexSettings()


class DenseSource:
    """The passages nearest to a query, by the inner product of their vectors; cut like those of `bm25`.

    Every search that asks something finds `k` passages, however far; scores are -1 to 1. Passages with
    the same title and text are embedded once. The index is kept on disk, in the user's cache or under
    `home`; with `keep` False it stays in memory. `progress` is told of every text that is embedded.
    Cutting, embedding and opening wait for the first search, and run in a thread.

    Raises DataError when there is no passage or an id appears twice, UsageError for a setting out of range
    or when FAISS is missing.
    """

    kind = "dense"

    def __init__(
        self,
        passages: Iterable[Passage],
        embedder: Embedder,
        *,
        settings: IndexSettings = FLAT,
        chunk_size: int | None = None,
        overlap: float = 0.0,
        keep: bool = True,
        home: Path | None = None,
        progress: Progress | None = None,
    ) -> None:
        require("faiss", "A source of kind 'dense'", "'ragc[dense]'")
        if chunk_size is not None:
            chunking.check(chunk_size, overlap)
        self.embedder, self.settings = embedder, settings
        self.chunk_size, self.overlap = chunk_size, overlap
        self._keep, self._home, self._progress = keep, home, progress or Silent()
        self._corpus = passages if isinstance(passages, Corpus) else Corpus(passages)
        cut = [] if chunk_size is None else [chunk_size, float(overlap), chunking.VERSION]
        self._made_of = {"embedder": embedder.fingerprint, "cut": cut, "version": VERSION}
        self.fingerprint = digest([self.kind, self._corpus.fingerprint, self._made_of, settings.all()])
        self._lock = Lock()
        self._cut: tuple[Passage, ...] = ()
        self._opened: tuple[_Rows, DenseIndex] | None = None
        self._cuts: dict[tuple[int | None, float], DenseSource] = {(chunk_size, overlap): self}
        self._cuts_lock = Lock()

    def __deepcopy__(self, memo: object) -> DenseSource:
        return self

    @property
    def passages(self) -> tuple[Passage, ...]:
        """What is searched, after cutting."""
        with self._lock:
            self._cut = self._cut or self._corpus.cut(self.chunk_size, self.overlap)
            return self._cut

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """At most `k` hits, best first, ties by passage id; `()` for a blank query.

        Raises SourceError when the model cannot be had or run, or when the kept index cannot be read.
        """
        if k < 1 or not query.strip():
            return ()
        return await asyncio.to_thread(self._search, query, k)

    def sample(self, n: int, *, seed: str, exclude: frozenset[str] = frozenset()) -> tuple[Passage, ...]:
        """`n` passages drawn uniformly without replacement, none with an id or parent id in `exclude`."""
        return drawn(self.passages, n, seed, exclude)

    def rechunked(self, chunk_size: int, overlap: float) -> DenseSource:
        """The same corpus in chunks of at most `chunk_size` tokens; same arguments, same source."""
        with self._cuts_lock:
            made = self._cuts.get((chunk_size, overlap))
            if made is None:
                made = DenseSource(
                    self._corpus,
                    self.embedder,
                    settings=self.settings,
                    chunk_size=chunk_size,
                    overlap=overlap,
                    keep=self._keep,
                    home=self._home,
                    progress=self._progress,
                )
                made._cuts, made._cuts_lock = self._cuts, self._cuts_lock
                self._cuts[chunk_size, overlap] = made
            return made

    def prepare(self) -> None:
        """Build or open the index now, instead of at the first search. Raises SourceError."""
        self._ready()

    def _search(self, query: str, k: int) -> tuple[Hit, ...]:
        rows, index = self._ready()
        (vector,) = self.embedder.embed([self.embedder.query_prefix + query])
        near, scores = index.nearest(vector, k)
        found = [
            Hit(passage, float(score))
            for row, score in zip(near, scores, strict=True)
            for passage in rows.of(int(row))
        ]
        return tuple(sorted(found, key=lambda hit: (-hit.score, hit.passage.id))[:k])

    def _ready(self) -> tuple[_Rows, DenseIndex]:
        passages = self.passages
        with self._lock:
            if self._opened is None:
                rows = _Rows(passages)
                self._opened = rows, self._index(rows.texts)
            return self._opened

    def _index(self, texts: Sequence[Passage]) -> DenseIndex:
        if not self._keep:
            self._progress.phase("index dense", len(texts))
            return self._build(texts, self._progress.step)
        made_of = {**self._made_of, "index": self.settings.built()}
        kept = open_or_build(
            self.kind,
            self._corpus.fingerprint,
            made_of,
            lambda folder, step: self._build(texts, step).save(folder),
            home=self._home,
            total=len(texts),
            progress=self._progress,
        )
        return DenseIndex.open(kept.path, self.settings, rows=len(texts))

    def _build(self, texts: Sequence[Passage], step: Step) -> DenseIndex:
        dimensions = self.embedder.dimensions
        return DenseIndex.build(self._blocks(texts, dimensions, step), dimensions, self.settings)

    def _blocks(self, texts: Sequence[Passage], dimensions: int, step: Step) -> Iterator[Vectors]:
        for start in range(0, len(texts), BLOCK):
            part = texts[start : start + BLOCK]
            vectors = self.embedder.embed([self.embedder.passage_prefix + passage_text(p) for p in part])
            if vectors.shape != (len(part), dimensions) or not np.isfinite(vectors).all():
                raise SourceError(
                    f"The embedder {self.embedder.model!r} gave an array of shape {vectors.shape} for "
                    f"{len(part)} texts; {dimensions} finite numbers for each were expected."
                )
            step(len(part))
            yield vectors


class _Rows:
    """Passages by row: those with the same title and text share one."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        first: dict[tuple[str, str], int] = {}
        row = [first.setdefault((p.title, p.text), len(first)) for p in passages]
        self._passages = passages
        self._order = np.argsort(row, kind="stable")
        self._starts = np.searchsorted(np.asarray(row)[self._order], np.arange(len(first) + 1))
        self.texts = [passages[at] for at in self._order[self._starts[:-1]]]

    def of(self, row: int) -> list[Passage]:
        """The passages of one row."""
        return [self._passages[at] for at in self._order[self._starts[row] : self._starts[row + 1]]]
