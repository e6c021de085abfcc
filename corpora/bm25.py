"""`bm25`: keyword search in memory, with the scores of Lucene's BM25.

For a query of terms t (a repeated term counts each time) and a passage of `length` terms

    score = sum over t of idf(t) * tf / (tf + k1 * (1 - b + b * length / mean length))
    idf(t) = ln(1 + (N - df + 0.5) / (df + 0.5))

The defaults k1 = 0.9 and b = 0.4 are pyserini's. Differs from Lucene: lengths are exact, Lucene rounds
them to one byte; words are not stemmed; stop words are indexed and dropped from queries only, so that
a query made of nothing else still finds something.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from threading import Lock

import numpy as np

from ragc.corpora import chunking
from ragc.corpora.readers import content_fingerprint, data_error
from ragc.errors import DataError, UsageError
from ragc.fingerprint import digest
from ragc.records import Hit, Passage

K1, B = 0.9, 0.4

ANALYZER = 1
"""Raised whenever the same text would give other terms."""

PLACES = 9
"""Scores are rounded to so many decimals: the order of the terms of a query must not break a tie."""

# Lucene's English list, then what questions are made of.
_STOP = """
a an and are as at be but by for if in into is it no not of on or such that the their then there these they
this to was will with
been did do does from had has have he her his how i its she were what when where which who whom whose why you
"""
STOP_WORDS = frozenset(_STOP.split())

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_TERM = re.compile(rf"[{_CJK}]|[^\W{_CJK}]+")


def analyze(text: str) -> list[str]:
    """The terms of `text` in order: words in lower case; Chinese and Japanese characters one by one."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return _TERM.findall(text.lower())


def query_terms(query: str) -> list[str]:
    """The terms of a query without its stop words; with them when there is nothing else."""
    terms = analyze(query)
    return [term for term in terms if term not in STOP_WORDS] or terms


def indexed(passage: Passage) -> list[str]:
    """The terms a passage is found by: those of its title, then those of its text."""
    return analyze(f"{passage.title} {passage.text}")


def lucene(
    query: Sequence[str], documents: Sequence[Sequence[str]], k1: float = K1, b: float = B
) -> list[float]:
    """The score of every document, all given as terms, among these documents alone; for a few of them."""
    mean = sum(map(len, documents)) / len(documents) if documents else 0.0
    counts = [Counter(document) for document in documents]
    scores = [0.0] * len(documents)
    for term in query:
        df = sum(term in count for count in counts)
        idf = math.log(1 + (len(documents) - df + 0.5) / (df + 0.5))
        for at, count in enumerate(counts):
            if tf := count[term]:
                scores[at] += idf * tf / (tf + k1 * (1 - b + b * len(documents[at]) / mean))
    return [round(score, PLACES) for score in scores]


def drawn(passages: Sequence[Passage], n: int, seed: str, exclude: frozenset[str]) -> tuple[Passage, ...]:
    """`n` of the passages, uniformly without replacement, none with an id or parent id in `exclude`.

    Fewer when there are fewer. The same arguments give the same passages in the same order.
    """
    pick = random.Random(seed)
    moved: dict[int, int] = {}  # a shuffle that is only carried as far as it is needed
    taken: list[Passage] = []
    for at in range(len(passages)):
        if len(taken) >= n:
            break
        other = pick.randrange(at, len(passages))
        passage = passages[moved.get(other, other)]
        moved[other] = moved.get(at, at)
        if passage.id not in exclude and passage.parent not in exclude:
            taken.append(passage)
    return tuple(taken)


class Corpus:
    """Passages with unique ids and their content fingerprint, shared by every cut of them.

    Raises DataError when there is no passage, or when an id appears twice.
    """

    def __init__(self, passages: Iterable[Passage]) -> None:
        self.passages = tuple(passages)
        if not self.passages:
            raise DataError("corpus", ["holds no passage, so nothing could be found in it"])
        ids = Counter(passage.id for passage in self.passages)
        if twice := [name for name, times in ids.items() if times > 1]:
            raise data_error("corpus", [f"the id {name!r} belongs to {ids[name]} passages" for name in twice])
        self.fingerprint = content_fingerprint(self.passages)

    def __iter__(self) -> Iterator[Passage]:
        return iter(self.passages)

    def cut(self, chunk_size: int | None, overlap: float) -> tuple[Passage, ...]:
        """The passages in chunks of at most `chunk_size` tokens; whole when that is None."""
        if chunk_size is None:
            return self.passages
        return tuple(
            part for passage in self.passages for part in chunking.chunk(passage, chunk_size, overlap)
        )


def settings_fingerprint(
    kind: str, corpus: Corpus, k1: float, b: float, size: int | None, overlap: float
) -> str:
    """The fingerprint of a source over `corpus`; raises UsageError for a setting out of range."""
    if not (0 <= k1 < math.inf and 0 <= b <= 1):
        raise UsageError(f"BM25 needs k1 >= 0 and 0 <= b <= 1, got k1 = {k1} and b = {b}.")
    if size is not None:
        chunking.check(size, overlap)
    cut = [] if size is None else [size, float(overlap), chunking.VERSION]
    return digest([kind, corpus.fingerprint, float(k1), float(b), ANALYZER, cut])


class Bm25Source:
    """Keyword search over `passages`, cut to `chunk_size` tokens when that is set.

    Cutting and indexing wait for the first search or sample, and run in a thread when it is a search.
    Raises DataError when there is no passage or an id appears twice, UsageError for a setting out of range.
    """

    kind = "bm25"

    def __init__(
        self,
        passages: Iterable[Passage],
        *,
        k1: float = K1,
        b: float = B,
        chunk_size: int | None = None,
        overlap: float = 0.0,
    ) -> None:
        self.k1, self.b, self.chunk_size, self.overlap = k1, b, chunk_size, overlap
        self._corpus = passages if isinstance(passages, Corpus) else Corpus(passages)
        self.fingerprint = settings_fingerprint(self.kind, self._corpus, k1, b, chunk_size, overlap)
        self._lock = Lock()
        self._cut: tuple[Passage, ...] = ()
        self._index: _Index | None = None
        self._cuts: dict[tuple[int | None, float], Bm25Source] = {(chunk_size, overlap): self}
        self._cuts_lock = Lock()

    def __deepcopy__(self, memo: object) -> Bm25Source:
        return self

    @property
    def passages(self) -> tuple[Passage, ...]:
        """What is searched, after cutting."""
        with self._lock:
            self._cut = self._cut or self._corpus.cut(self.chunk_size, self.overlap)
            return self._cut

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """At most `k` hits with a score above 0, best first, ties by passage id."""
        index = self._index
        if index is None:
            index = await asyncio.to_thread(self._ready)
        return index.search(query, k)

    def sample(self, n: int, *, seed: str, exclude: frozenset[str] = frozenset()) -> tuple[Passage, ...]:
        """`n` passages drawn uniformly without replacement, none with an id or parent id in `exclude`."""
        return drawn(self.passages, n, seed, exclude)

    def rechunked(self, chunk_size: int, overlap: float) -> Bm25Source:
        """The same corpus in chunks of at most `chunk_size` tokens; same arguments, same source."""
        with self._cuts_lock:
            made = self._cuts.get((chunk_size, overlap))
            if made is None:
                made = Bm25Source(self._corpus, k1=self.k1, b=self.b, chunk_size=chunk_size, overlap=overlap)
                made._cuts, made._cuts_lock = self._cuts, self._cuts_lock
                self._cuts[chunk_size, overlap] = made
            return made

    def _ready(self) -> _Index:
        passages = self.passages
        with self._lock:
            if self._index is None:
                self._index = _Index(passages, self.k1, self.b)
            return self._index


class _Index:
    """The scores of every term in every passage, computed once by bm25s."""

    def __init__(self, passages: Sequence[Passage], k1: float, b: float) -> None:
        self.passages = passages
        self.vocabulary: dict[str, int] = {}
        documents = [
            [self.vocabulary.setdefault(term, len(self.vocabulary)) for term in indexed(passage)]
            for passage in passages
        ]
        by_id = sorted(range(len(passages)), key=lambda at: passages[at].id)
        self.rank = np.empty(len(passages), dtype=np.int64)
        self.rank[by_id] = np.arange(len(passages))
        logging.getLogger("bm25s").setLevel(logging.WARNING)
        import bm25s  # half a second

        self.model = bm25s.BM25(k1=k1, b=b, method="lucene", dtype="float64", backend="numpy")
        if self.vocabulary:
            self.model.index((documents, self.vocabulary), create_empty_token=False, show_progress=False)

    def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """At most `k` hits with a score above 0, best first, ties by passage id."""
        terms = [self.vocabulary[term] for term in query_terms(query) if term in self.vocabulary]
        if not terms or k < 1:
            return ()
        scores = self.model.get_scores_from_ids(terms)
        least = 0.0 if k >= len(scores) else float(np.partition(scores, -k)[-k])
        # A little below the k-th score: what rounds to the same score takes part in the tie.
        near = np.flatnonzero((scores > 0) & (scores >= least - 10.0**-PLACES))
        rounded = np.round(scores[near], PLACES)
        best = np.lexsort((self.rank[near], -rounded))[:k]
        return tuple(Hit(self.passages[near[at]], float(rounded[at])) for at in best if rounded[at] > 0)
