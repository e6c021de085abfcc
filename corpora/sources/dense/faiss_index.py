"""A FAISS index of vectors: built in blocks, stored as a file, searched without loss at ties."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ragc.corpora.embed.base import Vectors
from ragc.errors import SourceError, UsageError

VERSION = 2
"""Increased whenever the same vectors would give another index."""

BLOCK = 1024
"""Vectors added together; an HNSW graph depends on it."""

PLACES = 9
"""Decimals to which scores are rounded."""

_NEAR = 1e-5
"""An upper bound on the difference of float32 inner products of one query with equal vectors."""

_SPARE = 16
_FILE = "vectors.faiss"


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """The type of the index: `flat` compares all vectors, `hnsw` walks a graph and may miss some.

    For hnsw only: `m` neighbours a node (>= 2), `ef_construction` and `ef_search` candidates while building
    and searching (>= 1). Raises UsageError for a setting out of range.
    """

    index: Literal["flat", "hnsw"] = "flat"
    m: int = 32
    ef_construction: int = 200
    ef_search: int = 128

    def __post_init__(self) -> None:
        if self.index not in ("flat", "hnsw"):
            raise UsageError(f"A dense index is 'flat' or 'hnsw', got {self.index!r}.")
        for name, least in (("m", 2), ("ef_construction", 1), ("ef_search", 1)):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise UsageError(f"An hnsw index needs {name} >= {least}, got {value!r}.")

    def build_settings(self) -> list[object]:
        """Returns the settings that determine the index; `ef_search` only affects the search."""
        return [self.index] if self.index == "flat" else [self.index, self.m, self.ef_construction]

    def all(self) -> list[object]:
        """Returns the settings that determine the results."""
        return self.build_settings() if self.index == "flat" else [*self.build_settings(), self.ef_search]


class DenseIndex:
    """Unit vectors searched by inner product; row n is the n-th vector added."""

    def __init__(self, native: Any, settings: IndexSettings) -> None:
        self._native, self._settings = native, settings

    def __len__(self) -> int:
        return int(self._native.ntotal)

    @classmethod
    def build(cls, blocks: Iterable[Vectors], dimensions: int, settings: IndexSettings) -> DenseIndex:
        """Builds an index of the rows of all `blocks`, each of shape (at most BLOCK, `dimensions`).

        The same blocks give the same index: the graph is built by one thread.
        """
        faiss = _faiss()
        if settings.index == "flat":
            native = faiss.IndexFlatIP(dimensions)
        else:
            native = faiss.IndexHNSWFlat(dimensions, settings.m, faiss.METRIC_INNER_PRODUCT)
            native.hnsw.efConstruction = settings.ef_construction
        for block in blocks:
            threads = faiss.omp_get_max_threads()
            faiss.omp_set_num_threads(1)
            try:
                native.add(np.ascontiguousarray(block, dtype=np.float32))
            finally:
                faiss.omp_set_num_threads(threads)
        return cls(native, settings)

    def save(self, folder: Path) -> None:
        """Writes the index into the existing `folder`. Raises OSError.

        Through a file of Python's: Faiss's own only prints that it could not be closed on a full disk.
        """
        faiss = _faiss()
        with (folder / _FILE).open("wb") as out:
            faiss.write_index(self._native, faiss.PyCallbackIOWriter(out.write))

    @classmethod
    def open(cls, folder: Path, settings: IndexSettings, *, rows: int) -> DenseIndex:
        """Opens the index in `folder`, memory-mapped and shared between processes.

        Raises SourceError if it cannot be read or does not have `rows` vectors.
        """
        faiss = _faiss()
        try:
            native = faiss.read_index(str(folder / _FILE), getattr(faiss, "IO_FLAG_MMAP_IFC", 0))
        except RuntimeError as error:
            raise SourceError(
                f"The dense index in {folder} cannot be read ({str(error).strip()[-200:]}). Delete the "
                "folder to have it built again."
            ) from error
        if native.ntotal != rows:
            raise SourceError(
                f"The dense index in {folder} holds {native.ntotal} vectors, {rows} were expected. Delete "
                "the folder to have it built again."
            )
        return cls(native, settings)

    def nearest(self, query: Vectors, k: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Returns the `k` rows nearest to `query` and all rows that tie with the last of them, with their
        scores.

        `query` has shape (dimensions,) and length 1. Rows are unordered. Scores are inner products, -1 to 1,
        equal for equal vectors. An hnsw index may miss rows.
        """
        ask = min(len(self), k + _SPARE)
        while True:
            raw, rows = self._native.search(query[None], ask, params=self._params(ask))
            valid = rows[0] >= 0
            scores, rows = raw[0][valid], rows[0][valid]
            if not len(scores):
                return np.empty(0, np.int64), np.empty(0)
            least = scores[min(k, len(scores)) - 1] - _NEAR
            if ask == len(self) or len(scores) < ask or scores[-1] < least:
                break
            ask = min(len(self), ask * 4)
        near = rows[scores >= least]
        vectors = self._native.reconstruct_batch(near).astype(np.float64)
        return near, np.round((vectors * query.astype(np.float64)).sum(axis=1), PLACES)

    def _params(self, ask: int) -> Any:
        if self._settings.index == "flat":
            return None
        return _faiss().SearchParametersHNSW(efSearch=max(self._settings.ef_search, ask))


def _faiss() -> Any:
    import faiss  # takes a third of a second

    return faiss
