"""`lucene`: Lucene's BM25 over an index on disk, with pyserini's jar.

With the default analyzer `ragc`, terms, lengths and formula are those of the source `bm25`. Scores then
differ only by Lucene's 32-bit rounding, unless the corpus has passages without any term, which Lucene does
not count. With `english` it behaves like pyserini's default.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ragc.core.digest import digest
from ragc.core.display import describe, quantity
from ragc.core.progress import Progress
from ragc.corpora.sources.bm25.source import K1, B, settings_fingerprint
from ragc.corpora.sources.chunked import ChunkedSource
from ragc.corpora.sources.lucene import jvm
from ragc.corpora.sources.lucene.index import ANALYZERS, FORMAT, LuceneIndex, write
from ragc.corpora.sources.terms import ANALYZER
from ragc.corpora.storage.corpus import Corpus
from ragc.corpora.storage.index_cache import IndexFolder, open_or_build
from ragc.errors import UnknownName, UsageError
from ragc.records import Hit, Passage


class LuceneSource(ChunkedSource):
    """Keyword search by Lucene over `passages`, cut to `chunk_size` tokens if that is set.

    `title_boost` >= 0 is the weight of the title's own BM25 score, which is added; with 0 title and text are
    searched as one. `analyzer` is one of `ANALYZERS`. The index is under `home`, by default in the cache; it
    is built at the first search if it is missing, and shared by all settings of k1, b and title_boost. Java
    starts at the first search. Raises DataError for no passages or duplicate ids, UsageError for a setting
    out of range or if pyserini is not installed.
    """

    kind = "lucene"

    def __init__(
        self,
        passages: Corpus | Iterable[Passage],
        *,
        k1: float = K1,
        b: float = B,
        title_boost: float = 0.0,
        analyzer: str = "ragc",
        chunk_size: int | None = None,
        overlap: float = 0.0,
        chunk_by: str = "text",
        home: Path | None = None,
    ) -> None:
        if analyzer not in ANALYZERS:
            raise UnknownName("analyzer", analyzer, ANALYZERS)
        if not 0 <= title_boost < math.inf:
            raise UsageError(f"Lucene needs title_boost >= 0, got {title_boost}.")
        self.k1, self.b, self.title_boost, self.analyzer = k1, b, title_boost, analyzer
        self.home = home
        super().__init__(passages, chunk_size, overlap, chunk_by)
        self._jar = jvm.jar().name
        scored = settings_fingerprint(self.kind, self.corpus, k1, b, self.cutting)
        self.fingerprint = digest([scored, float(title_boost), self._index_settings()])
        self._index: LuceneIndex | None = None

    def __repr__(self) -> str:
        size = quantity(len(self.corpus.passages), "passage")
        return describe(type(self).__name__, size, k1=self.k1, b=self.b, chunk_size=self.chunk_size)

    def build(self, progress: Progress | None = None) -> IndexFolder:
        """Returns the index on disk, built if it is missing. Raises SourceError if it cannot be written."""
        return open_or_build(
            self.kind,
            self.corpus.fingerprint,
            self._index_settings(),
            lambda folder, step: write(folder, self.passages, self.analyzer, step),
            home=self.home,
            total=len(self.passages) if self.chunk_size is None else None,
            progress=progress,
        )

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """Returns at most `k` hits with a score above 0, best first, ties by passage id.

        Does not block the event loop. Raises SourceError if the index cannot be built or Lucene fails.
        """
        index = self._index
        if index is None:
            index = await asyncio.to_thread(self._ready)
        return await index.search(query, k)

    def _with_chunks(self, chunk_size: int | None, overlap: float, chunk_by: str) -> LuceneSource:
        return LuceneSource(
            self.corpus,
            k1=self.k1,
            b=self.b,
            title_boost=self.title_boost,
            analyzer=self.analyzer,
            chunk_size=chunk_size,
            overlap=overlap,
            chunk_by=chunk_by,
            home=self.home,
        )

    def _index_settings(self) -> dict[str, Any]:
        """Returns the settings that determine the files of the index, without the corpus."""
        terms = ANALYZER if self.analyzer == "ragc" else 0
        built = {"format": FORMAT, "jar": self._jar, "analyzer": self.analyzer, "terms": terms}
        return {**built, "cut": self.cutting}

    def _ready(self) -> LuceneIndex:
        if self._index is None:
            folder = self.build()
            with self._lock:
                if self._index is None:
                    self._index = LuceneIndex(folder.path, self.analyzer, self.k1, self.b, self.title_boost)
        return self._index
