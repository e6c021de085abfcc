"""BM25 index: precomputed scores of every term in every passage, in memory or on disk, and its search.

On disk it is an index of bm25s, with a vocabulary that is searched in the file:

    data, indices, indptr.csc.index.npy     score and passage of every posting, and where each term begins
    params.index.json                       the settings of bm25s
    terms.bin, ends.npy                     the terms in their order, UTF-8, and where each ends

The build reads passages one at a time and holds every posting in memory. A search selects the best scores
without sorting all of them.
"""

from __future__ import annotations

import logging
import sys
from array import array
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ragc.core.digest import pretty
from ragc.corpora.sources.terms import passage_terms, query_terms
from ragc.corpora.storage.passages import encode_text, map_array, save_array
from ragc.records import Hit, Passage

PLACES = 9
"""Decimals to which scores are rounded, so that the order of query terms does not break a tie."""

_FEW = 8192  # up to this length, numpy sorts faster than it selects
_GROUP = 256  # group size: a group's maximum lets most groups be skipped


def nearly_best(scores: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """Returns the positions of the `k` best scores above 0, and of those that tie with the last after
    rounding.
    """
    whole = len(scores) // _GROUP
    grouped = len(scores) > _FEW and whole > k
    # The k-th greatest group maximum is at most the k-th score.
    least = _kth(scores[: whole * _GROUP].reshape(whole, _GROUP).max(axis=1) if grouped else scores, k)
    # A little lower, to include scores that round to the same value.
    near = np.flatnonzero(scores >= least - 10.0**-PLACES if least > 0 else scores > 0)
    if grouped and len(near) > k:
        close = scores[near]
        near = near[close >= _kth(close, k) - 10.0**-PLACES]
    return near


def _kth(scores: NDArray[np.float64], k: int) -> float:
    """Returns the `k`-th greatest score; 0 if there are fewer."""
    if len(scores) < k:
        return 0.0
    return float((np.sort(scores) if len(scores) <= _FEW else np.partition(scores, -k))[-k])


FORMAT = 1
"""Format version: increased whenever the same passages would give other files."""

_SETTINGS = {"method": "lucene", "dtype": "float64", "int_dtype": "int32", "backend": "numpy"}


class Vocabulary(Protocol):
    """Maps terms to their numbers."""

    def get(self, term: str, /) -> int | None:
        """Returns the number of a term; None if no passage has it."""
        ...


class Bm25Index:
    """Searches `passages`; `rank` orders them by id. Thread-safe."""

    def __init__(
        self,
        passages: Sequence[Passage],
        rank: NDArray[Any],
        vocabulary: Vocabulary,
        model: Any,
    ) -> None:
        self.passages, self.rank, self.vocabulary, self.model = passages, rank, vocabulary, model

    def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """At most `k` hits with a score above 0, best first, ties by passage id."""
        terms = [n for term in query_terms(query) if (n := self.vocabulary.get(term)) is not None]
        if not terms or k < 1:
            return ()
        scores = self.model.get_scores_from_ids(terms)
        near = nearly_best(scores, k)
        rounded = np.round(scores[near], PLACES)
        best = np.lexsort((self.rank[near], -rounded))[:k]
        return tuple(Hit(self.passages[int(near[at])], float(rounded[at])) for at in best if rounded[at] > 0)


def build_in_memory(passages: Sequence[Passage], k1: float, b: float, title_boost: int = 1) -> Bm25Index:
    """Builds the index of `passages` in memory."""
    postings = _count((passage_terms(passage, title_boost) for passage in passages), k1, b)
    by_id = sorted(range(len(passages)), key=lambda at: passages[at].id)
    rank = np.empty(len(passages), dtype=np.int64)
    rank[by_id] = np.arange(len(passages))
    model = _bm25s().BM25(k1=k1, b=b, **_SETTINGS)
    model.scores, model.nonoccurrence_array = {**postings.arrays, "num_docs": len(passages)}, None
    return Bm25Index(passages, rank, {term: at for at, term in enumerate(postings.terms)}, model)


def open_index(folder: Path, passages: Sequence[Passage], rank: NDArray[Any]) -> Bm25Index:
    """Opens the index in `folder` over the same `passages`, memory-mapped."""
    model = _bm25s().BM25.load(folder, mmap=True, load_vocab=False, show_progress=False)
    for name in ("data", "indices", "indptr"):
        model.scores[name] = np.asarray(model.scores[name])  # still mapped; numpy's memmap class is slow
    return Bm25Index(passages, rank, _Terms(folder), model)


def write(
    folder: Path, documents: Iterable[list[str]], k1: float, b: float, step: Callable[[int], None]
) -> None:
    """Writes the index of `documents`, lists of terms that are read one at a time; `step` counts them."""
    postings = _count(documents, k1, b, step)
    _write_terms(folder, postings.terms)
    for name, array_ in postings.arrays.items():
        save_array(folder / f"{name}.csc.index.npy", array_)
    settings = {**_SETTINGS, "k1": k1, "b": b, "num_docs": postings.n, "version": _bm25s().__version__}
    (folder / "params.index.json").write_text(pretty(settings), encoding="utf-8")


class _Postings(NamedTuple):
    """The `terms` in their order, `n` documents, and the arrays of bm25s: score and document of every
    posting by term, and where each term begins.
    """

    terms: list[str]
    n: int
    arrays: dict[str, NDArray[Any]]


def _count(
    documents: Iterable[list[str]], k1: float, b: float, step: Callable[[int], None] = lambda n: None
) -> _Postings:
    """Counts the terms of `documents` and scores every posting by the formula of the source `bm25`."""
    vocabulary: defaultdict[str, int] = defaultdict()
    vocabulary.default_factory = vocabulary.__len__  # numbers a new term
    number = vocabulary.__getitem__
    numbers, frequencies, lengths, distinct = array("I"), array("I"), array("I"), array("I")
    for document in documents:
        counts = Counter(document)
        numbers.extend(map(number, counts))
        frequencies.extend(counts.values())
        lengths.append(len(document))
        distinct.append(len(counts))
        step(1)
    terms = sorted(vocabulary)
    renumbered = np.empty(len(terms), dtype=np.uint32)
    renumbered[[vocabulary[term] for term in terms]] = np.arange(len(terms), dtype=np.uint32)
    of_posting = renumbered[np.frombuffer(numbers, np.uint32)]
    order = np.argsort(of_posting, kind="stable")
    indices = np.repeat(np.arange(len(lengths), dtype=np.int32), np.frombuffer(distinct, np.uint32))[order]
    df = np.bincount(of_posting, minlength=len(terms))
    idf = np.log(1 + (len(lengths) - df + 0.5) / (df + 0.5))
    size = np.frombuffer(lengths, np.uint32)
    norm = k1 * (1 - b + b * size / (size.mean() if size.any() else 1.0))
    tf = np.frombuffer(frequencies, np.uint32)[order]
    data = np.repeat(idf, df) * (tf / (tf + norm[indices]))
    indptr = np.concatenate([[0], np.cumsum(df)])
    return _Postings(terms, len(lengths), {"data": data, "indices": indices, "indptr": indptr})


class _Unloaded(ModuleType):
    """A placeholder for a module that is loaded when an attribute is first read."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


def _bm25s() -> Any:
    """Returns the module bm25s. It imports scipy.sparse for a backend that nothing here uses: a third of its
    time.
    """
    unused = _Unloaded("scipy.sparse")
    if "bm25s" not in sys.modules:
        sys.modules.setdefault(unused.__name__, unused)
    import bm25s  # takes .2 s

    if sys.modules.get(unused.__name__) is unused:
        del sys.modules[unused.__name__]
    logging.getLogger("bm25s").setLevel(logging.WARNING)
    return bm25s


def _write_terms(folder: Path, terms: Sequence[str]) -> None:
    ends, position = array("q"), 0
    with (folder / "terms.bin").open("wb", buffering=1 << 20) as out:
        for term in terms:
            position += out.write(encode_text(term))
            ends.append(position)
        if not terms:
            out.write(b"\0")  # an empty file cannot be mapped
    save_array(folder / "ends.npy", np.frombuffer(ends, dtype=np.int64))


class _Terms(Sequence[bytes]):
    """The terms in `folder`, found by binary search in the mapped file."""

    def __init__(self, folder: Path) -> None:
        self._text = np.memmap(folder / "terms.bin", dtype=np.uint8, mode="r").data
        self._ends = map_array(folder / "ends.npy").data

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, at: Any) -> Any:
        return bytes(self._text[self._ends[at - 1] if at else 0 : self._ends[at]])

    def get(self, term: str, /) -> int | None:
        """Returns the number of a term; None if no passage has it."""
        key = encode_text(term)
        at = bisect_left(self, key)
        return at if at < len(self) and self[at] == key else None
