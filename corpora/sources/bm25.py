"""`bm25`: keyword search with the scores of Lucene's BM25. A large corpus and its index are stored on disk.

For a query of terms t (a repeated term counts each time) and a passage of `length` terms

    score = sum over t of idf(t) * tf / (tf + k1 * (1 - b + b * length / mean length))
    idf(t) = ln(1 + (N - df + 0.5) / (df + 0.5))

The defaults k1 = 0.9 and b = 0.4 are pyserini's. Differs from Lucene: lengths are exact, where Lucene rounds
them to one byte; words are not stemmed; stop words are indexed and removed from queries only, so that a query
of stop words alone still has results.

The index has the score of every term in every passage, computed once, in memory or mapped from files:

    terms                       the keys of all terms, ascending
    starts                      where the postings of each term begin, and where the last ones end
    numbers, scores             the passage and the score of each posting, by term
    ranks                       the place of each passage in the order of ids

The build reads passages one at a time and holds every posting in memory.
"""

from __future__ import annotations

import asyncio
import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragc.core.digest import digest
from ragc.core.progress import Progress
from ragc.corpora.sources.base import current_question
from ragc.corpora.sources.chunked import ChunkedSource, IndexedSource
from ragc.corpora.sources.options import Bm25Parameters, SparseOptions
from ragc.corpora.sources.terms import ANALYZER, passage_terms, query_terms
from ragc.corpora.storage.corpus import Corpus, StoredCorpus, key
from ragc.corpora.storage.index_cache import IndexFolder, Step
from ragc.errors import SourceError
from ragc.records import Hit, Passage

K1, B = 0.9, 0.4

FORMAT = 2
"""Format version: increased whenever the same passages would give other files."""

PLACES = 9
"""Decimals to which scores are rounded, so that the order of query terms does not break a tie."""

_ARRAYS = {
    "terms": np.uint64,
    "starts": np.int64,
    "numbers": np.int32,
    "scores": np.float64,
    "ranks": np.int32,
}
_GROUP = 256  # scores whose maximum lets most groups be skipped: .4 ms instead of 1.8 for 100,000 passages


class Bm25Index:
    """Searches `passages` by the `arrays` above. Thread-safe."""

    def __init__(self, passages: Sequence[Passage], arrays: Mapping[str, NDArray[Any]]) -> None:
        self.passages, self.arrays = passages, arrays

    @classmethod
    def open(cls, folder: Path, passages: Sequence[Passage]) -> Bm25Index:
        """Opens the index of `passages` in `folder`, memory-mapped."""
        return cls(
            passages, {name: np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r")) for name in _ARRAYS}
        )

    def save(self, folder: Path) -> None:
        """Writes the index into `folder`. Raises OSError."""
        for name, dtype in _ARRAYS.items():
            np.save(folder / f"{name}.npy", self.arrays[name].astype(dtype, copy=False))

    def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """At most `k` hits with a score above 0, best first, ties by passage id."""
        terms, starts, numbers, posting_scores, ranks = (self.arrays[name] for name in _ARRAYS)
        times = Counter(map(key, query_terms(query)))
        scores = np.zeros(len(ranks))
        for term, at in zip(
            times, np.searchsorted(terms, np.fromiter(times, np.uint64)).tolist(), strict=True
        ):
            if at < len(terms) and terms[at] == term and k > 0:
                postings = slice(starts[at], starts[at + 1])
                np.add.at(scores, numbers[postings], times[term] * posting_scores[postings])
        near = nearly_best(scores, k)
        rounded = np.round(scores[near], PLACES)
        best = np.lexsort((ranks[near], -rounded))[:k]
        return tuple(Hit(self.passages[int(near[at])], float(rounded[at])) for at in best if rounded[at] > 0)


def nearly_best(scores: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """Returns the positions of the `k` best scores above 0, and of those that tie with the last after
    rounding.
    """
    tie, least = 10.0**-PLACES, 0.0
    maxima = scores[: len(scores) // _GROUP * _GROUP].reshape(-1, _GROUP).max(axis=1)
    if len(maxima) > k > 0:  # the k-th greatest maximum is at most the k-th score
        least = float(np.partition(maxima, -k)[-k])
    near = np.flatnonzero(scores >= least - tie if least > 0 else scores > 0)
    if len(near) > k > 0:
        near = near[scores[near] >= np.partition(scores[near], -k)[-k] - tie]
    return near


def build_in_memory(
    passages: Sequence[Passage],
    k1: float,
    b: float,
    title_boost: int = 1,
    step: Callable[[int], None] = lambda n: None,
) -> Bm25Index:
    """Builds the index of `passages` in memory, scored by the formula of the source `bm25`; `step` counts
    them.
    """
    vocabulary: defaultdict[str, int] = defaultdict()
    vocabulary.default_factory = vocabulary.__len__  # numbers a new term
    numbers, frequencies, lengths, distinct, ids = array("I"), array("I"), array("I"), array("I"), list[str]()
    for passage in passages:
        terms = passage_terms(passage, title_boost)
        counts = Counter(terms)
        numbers.extend(map(vocabulary.__getitem__, counts))
        frequencies.extend(counts.values())
        lengths.append(len(terms))
        distinct.append(len(counts))
        ids.append(passage.id)
        step(1)
    keys = np.fromiter(map(key, vocabulary), np.uint64, len(vocabulary))
    by_key = np.argsort(keys)
    term_of_posting = np.argsort(by_key).astype(np.int32)[np.frombuffer(numbers, np.uint32)]
    order = np.argsort(term_of_posting, kind="stable")
    passage_of_posting = np.repeat(np.arange(len(ids), dtype=np.int32), np.frombuffer(distinct, np.uint32))[
        order
    ]
    df = np.bincount(term_of_posting, minlength=len(keys))
    idf = np.log(1 + (len(ids) - df + 0.5) / (df + 0.5))
    size = np.frombuffer(lengths, np.uint32)
    norm = k1 * (1 - b + b * size / (size.mean() if size.any() else 1.0))
    tf = np.frombuffer(frequencies, np.uint32)[order]
    arrays = {
        "terms": keys[by_key],
        "starts": np.concatenate([[0], np.cumsum(df)]),
        "numbers": passage_of_posting,
        "scores": np.repeat(idf, df) * (tf / (tf + norm[passage_of_posting])),
        "ranks": np.argsort(sorted(range(len(ids)), key=ids.__getitem__)).astype(np.int32),
    }
    return Bm25Index(passages, arrays)


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


class Bm25Source(IndexedSource):
    """Keyword search over `passages`, cut to `chunk_size` tokens if that is set.

    The index of a corpus in memory is in memory too; that of a stored corpus is under `home`, by default in
    the cache. A title counts `title_boost` times, in term frequency and length; 3 finds more of the
    supporting passages of HotpotQA, 2Wiki, MuSiQue and NQ. Cutting and indexing run in a thread at the first
    search or sample. Raises DataError for no passages or duplicate ids, UsageError for an option out of
    range.
    """

    kind, Options = "bm25", SparseOptions

    def __init__(
        self, passages: Corpus | Iterable[Passage], *, home: Path | None = None, **options: Any
    ) -> None:
        super().__init__(passages, home=home, **options)
        k1, b, title_boost = self._scoring = self.options.k1, self.options.b, self.options.title_boost
        # What decides the terms of a passage, and the place of an index in the cache.
        cut = self.cutting if title_boost == 1 else [*self.cutting, "title", title_boost]
        self.fingerprint = digest([self.kind, self.corpus.fingerprint, k1, b, ANALYZER, cut])
        self._made_of = {"k1": k1, "b": b, "terms": ANALYZER, "cut": cut, "format": FORMAT}

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """At most `k` hits with a score above 0, best first, ties by passage id; scored in a thread.

        Raises SourceError if an index on disk cannot be written.
        """
        return await asyncio.to_thread(lambda: self.opened().search(query, k))

    def build(self, progress: Progress | None = None) -> IndexFolder | None:
        """Returns the index on disk, built if it is missing; None for a corpus in memory."""
        return super().build(progress) if isinstance(self.corpus, StoredCorpus) else None

    def _write(self, folder: Path, step: Step) -> None:
        build_in_memory(self.passages, *self._scoring, step).save(folder)

    def _open(self, folder: Path | None) -> Bm25Index:
        if folder is None:
            return build_in_memory(self.passages, *self._scoring)
        return Bm25Index.open(folder, self.passages)


class GivenSource(ChunkedSource):
    """Ranks those of `passages` that the current question (`current_question`) names in `context_ids`.

    All of them are found for any query: ordered by BM25 with them as the corpus, ties, such as scores of 0,
    in the given order. Passages are cut to `chunk_size` tokens if that is set. Raises DataError for no
    passages or duplicate ids, UsageError for an option out of range.
    """

    kind, Options = "given", Bm25Parameters

    def __init__(self, passages: Corpus | Iterable[Passage], **options: Any) -> None:
        super().__init__(passages, **options)
        k1, b = self._scoring = self.options.k1, self.options.b
        self.fingerprint = digest([self.kind, self.corpus.fingerprint, k1, b, ANALYZER, self.cutting])
        self._parts_of = cache(lambda id: [(part, passage_terms(part)) for part in self.parts_of((id,))])

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """Returns at most `k` of the current question's own passages, best first.

        Raises SourceError if no question is being answered, if it has no passages, or if one of them is not
        in the corpus.
        """
        parts = [part for id in self._context_ids() for part in self._parts_of(id)]
        scores = bm25_scores(query_terms(query), [terms for _, terms in parts], *self._scoring)
        hits = [Hit(passage, score) for (passage, _), score in zip(parts, scores, strict=True)]
        return tuple(sorted(hits, key=lambda hit: -hit.score)[: max(k, 0)])

    def _context_ids(self) -> Iterable[str]:
        question = current_question.get()
        if question is None:
            raise SourceError("A source of kind 'given' was searched while no question was being answered.")
        label = f"question {question.id!r}" if question.id else f"the question {question.question!r}"
        if not question.context_ids:
            raise SourceError(
                f"A source of kind 'given' finds the passages that come with a question, and {label} has no "
                "context_ids. Use a source of kind 'bm25' for it."
            )
        if lost := [name for name in question.context_ids if self.corpus.find(name) is None]:
            raise SourceError(
                f"Passage {lost[0]!r} comes with {label}, and the corpus of its source of kind 'given' "
                "does not hold it."
            )
        return dict.fromkeys(question.context_ids)
