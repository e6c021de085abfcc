"""Passages on disk: written once as a stream, then memory-mapped, so that opening them loads nothing.

passages.jsonl      one passage a line, the bytes whose SHA-256 is the fingerprint
ends                0, then where each line ends
ids, positions      the keys of the ids in ascending order, and the position of the passage of each
fingerprint         64 hexadecimal digits
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from ragc.core.digest import file_digest
from ragc.corpora.files.records import record_line
from ragc.corpora.storage.index_cache import Step
from ragc.errors import DataError
from ragc.records import Passage

FORMAT = 2
"""Format version: increased whenever the same passages would give other files."""


def key(text: str) -> int:
    """Returns 64 bits of a digest of `text`, by which ids and terms are found in sorted arrays on disk."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest())


def save_array(path: Path, values: NDArray[Any]) -> None:
    """Writes the bytes of `values`. Raises OSError, also where a full disk takes a part of them."""
    path.write_bytes(np.ascontiguousarray(values).data)


def map_array(path: Path, dtype: Any) -> NDArray[Any]:
    """Returns the values of `dtype` in a file, memory-mapped, as an array of one dimension."""
    return np.asarray(np.memmap(path, dtype, "r")) if path.stat().st_size else np.empty(0, dtype)


def write(folder: Path, passages: Iterable[Passage], step: Step) -> None:
    """Writes `passages`, read one at a time; `step` counts them.

    Raises DataError for no passages or duplicate ids.
    """
    ends, ids, repeated = array("Q", [0]), dict[int, int](), list[str]()
    with (folder / "passages.jsonl").open("wb") as file:
        for position, passage in enumerate(passages):
            file.write(record_line(passage))
            ends.append(file.tell())
            if ids.setdefault(key(passage.id), position) != position:
                repeated.append(f"the id {passage.id!r} belongs to several passages")
            step(1)
    if not ids or repeated:
        raise DataError("corpus", repeated or ["holds no passage, so nothing could be found in it"])
    keys = np.fromiter(ids, np.uint64, len(ids))
    order = np.argsort(keys)
    save_array(folder / "ends", np.frombuffer(ends, np.uint64))
    save_array(folder / "ids", keys[order])
    save_array(folder / "positions", np.fromiter(ids.values(), np.int64, len(ids))[order])
    (folder / "fingerprint").write_text(file_digest(folder / "passages.jsonl"), encoding="ascii")


class StoredPassages(Sequence[Passage]):
    """The passages stored in `folder`, each read on access. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        self.fingerprint = (folder / "fingerprint").read_text(encoding="ascii")
        self._ids, self._positions = (
            map_array(folder / "ids", np.uint64),
            map_array(folder / "positions", np.int64),
        )
        # As memoryviews: reading single items of a numpy array takes several times as long.
        self._ends = map_array(folder / "ends", np.uint64).data
        self._text = map_array(folder / "passages.jsonl", np.uint8).data

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return tuple(self[position] for position in range(*at.indices(len(self))))
        position = range(len(self))[at]
        return Passage(*orjson.loads(self._text[self._ends[position] : self._ends[position + 1]])[1:])

    def find(self, id: str) -> Passage | None:
        """Returns the passage with that id; None if there is none."""
        at = int(np.searchsorted(self._ids, np.uint64(key(id))))
        passage = self[int(self._positions[at])] if at < len(self) else None
        return passage if passage is not None and passage.id == id else None
