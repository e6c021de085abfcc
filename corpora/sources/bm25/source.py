"""`bm25`: keyword search with the scores of Lucene's BM25. A large corpus and its index are stored on disk.

For a query of terms t (a repeated term counts each time) and a passage of `length` terms

    score = sum over t of idf(t) * tf / (tf + k1 * (1 - b + b * length / mean length))
    idf(t) = ln(1 + (N - df + 0.5) / (df + 0.5))

The defaults k1 = 0.9 and b = 0.4 are pyserini's. Differs from Lucene: lengths are exact, where Lucene rounds
them to one byte; words are not stemmed; stop words are indexed and removed from queries only, so that a query
of stop words alone still has results.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ragc.core.digest import digest
from ragc.core.progress import Progress
from ragc.corpora.sources.base import SourceInputs
from ragc.corpora.sources.bm25.index import FORMAT, PLACES, Bm25Index, build_in_memory
from ragc.corpora.sources.chunked import ChunkedSource
from ragc.corpora.sources.terms import ANALYZER
from ragc.corpora.storage.corpus import Corpus, StoredCorpus
from ragc.corpora.storage.index_cache import IndexFolder, Step, open_or_build
from ragc.errors import UsageError
from ragc.records import Hit, Passage

K1, B = 0.9, 0.4


def bm25_scores(
    query: Sequence[str], documents: Sequence[Sequence[str]], k1: float = K1, b: float = B
) -> list[float]:
    """Returns the score of every document, with these documents as the corpus; all are lists of terms. For
    few documents.
    """
    mean = sum(map(len, documents)) / len(documents) if documents else 0.0
    counts = [Counter(document) for document in documents]
    scores = [0.0] * len(documents)
    for term, times in Counter(query).items():
        df = sum(term in count for count in counts)
        idf = math.log(1 + (len(documents) - df + 0.5) / (df + 0.5))
        for at, count in enumerate(counts):
            if tf := count[term]:
                scores[at] += times * idf * tf / (tf + k1 * (1 - b + b * len(documents[at]) / mean))
    return [round(score, PLACES) for score in scores]


def settings_fingerprint(kind: str, corpus: Corpus, k1: float, b: float, cut: list[str | int | float]) -> str:
    """Returns the fingerprint of a source over `corpus` with the chunk settings `cut`.

    Raises UsageError for a setting out of range.
    """
    if not (0 <= k1 < math.inf and 0 <= b <= 1):
        raise UsageError(f"BM25 needs k1 >= 0 and 0 <= b <= 1, got k1 = {k1} and b = {b}.")
    return digest([kind, corpus.fingerprint, float(k1), float(b), ANALYZER, cut])


class Bm25Source(ChunkedSource):
    """Keyword search over `passages`, cut to `chunk_size` tokens if that is set.

    The index of a corpus in memory is in memory too; that of a stored corpus is under `home`, by default in
    the cache. A title counts `title_boost` times, in term frequency and length; 3 finds more of the
    supporting passages of HotpotQA, 2Wiki, MuSiQue and NQ. Cutting and indexing run in a thread at the first
    search or sample. Raises DataError for no passages or duplicate ids, UsageError for a setting out of
    range.
    """

    kind = "bm25"

    def __init__(
        self,
        passages: Corpus | Iterable[Passage],
        *,
        k1: float = K1,
        b: float = B,
        chunk_size: int | None = None,
        overlap: float = 0.0,
        chunk_by: str = "text",
        title_boost: int = 1,
        home: Path | None = None,
    ) -> None:
        if title_boost < 1:
            raise UsageError(f"BM25 counts a title 1 or more times, got title_boost = {title_boost}.")
        self.k1, self.b, self.title_boost, self.home = k1, b, title_boost, home
        super().__init__(
            passages, chunk_size, overlap, chunk_by, k1=k1, b=b, title_boost=title_boost, home=home
        )
        # What decides the terms of a passage, and the place of an index in the cache.
        self._cut = self.cutting if title_boost == 1 else [*self.cutting, "title", title_boost]
        self.fingerprint = settings_fingerprint(self.kind, self.corpus, k1, b, self._cut)
        self._index: Bm25Index | None = None

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """At most `k` hits with a score above 0, best first, ties by passage id; scored in a thread.

        Raises SourceError if an index on disk cannot be written.
        """
        return await asyncio.to_thread(self._search, query, k)

    def build(self, progress: Progress | None = None) -> IndexFolder | None:
        """Returns the index on disk, built if it is missing; None for a corpus in memory."""
        if not isinstance(self.corpus, StoredCorpus):
            return None
        passages = self.passages

        def write(folder: Path, step: Step) -> None:
            build_in_memory(passages, self.k1, self.b, self.title_boost, step).save(folder)

        settings = {
            "k1": float(self.k1),
            "b": float(self.b),
            "terms": ANALYZER,
            "cut": self._cut,
            "format": FORMAT,
        }
        return open_or_build(
            self.kind,
            self.corpus.fingerprint,
            settings,
            write,
            home=self.home,
            total=len(passages),
            progress=progress,
        )

    def _search(self, query: str, k: int) -> tuple[Hit, ...]:
        with self._lock:
            if self._index is None:
                if (folder := self.build()) is not None:
                    self._index = Bm25Index.open(folder.path, self.passages)
                else:
                    self._index = build_in_memory(self.passages, self.k1, self.b, self.title_boost)
        return self._index.search(query, k)


def build(inputs: SourceInputs, options: dict[str, Any]) -> Bm25Source:
    """Builds the source over the passages of `inputs`."""
    return Bm25Source(inputs.passages, **options)
