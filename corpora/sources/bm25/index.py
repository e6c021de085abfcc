"""BM25 index: the score of every term in every passage, computed once, in memory or mapped from files.

    terms                       the keys of all terms, ascending
    starts                      where the postings of each term begin, and where the last ones end
    numbers, scores             the passage and the score of each posting, by term
    ranks                       the place of each passage in the order of ids

The build reads passages one at a time and holds every posting in memory.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragc.corpora.sources.terms import passage_terms, query_terms
from ragc.corpora.storage.corpus import key
from ragc.records import Hit, Passage

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
    term_of_posting = _inverse(by_key)[np.frombuffer(numbers, np.uint32)]
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
        "ranks": _inverse(np.array(sorted(range(len(ids)), key=ids.__getitem__), dtype=np.int64)),
    }
    return Bm25Index(passages, arrays)


def _inverse(order: NDArray[np.int64]) -> NDArray[np.int32]:
    """Returns the place of each position in `order`."""
    places = np.empty(len(order), dtype=np.int32)
    places[order] = np.arange(len(order), dtype=np.int32)
    return places
