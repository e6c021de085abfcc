"""Passages on disk: written once as a stream, then memory-mapped, so that opening them loads nothing.

    passages.bin    id, title and text of every passage, UTF-8, one after the other
    ends.npy        where each of them ends: 3 numbers a passage
    order.npy       the passages' positions in the order of their ids
    rank.npy        the place of each in that order
    about.json      how many there are, and the fingerprint of their content

A cut corpus stores only the position of each chunk in its parent:

    spans.npy       parent, first character, last-plus-one character, number among its chunks
    titles.bin      the titles of the chunks, UTF-8, and in title_ends.npy where each ends; only where
                    they are not those of the parents

The order of ids is computed from their bytes on disk.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from ragc.corpora.files.records import record_line
from ragc.errors import DataError
from ragc.records import Passage

Ints = NDArray[np.int64]


def id_order(text: NDArray[np.uint8], starts: Ints, ends: Ints) -> Ints:
    """Returns the positions of the UTF-8 ids `text[start:end]`, sorted as Python sorts strings.

    Equal ids keep their order. Memory: the number of ids times the length of the longest, in bytes.
    """
    if not len(starts):
        return np.empty(0, dtype=np.int64)
    lengths = ends - starts
    width = max(1, int(lengths.max()))
    table = np.zeros((len(starts), width), dtype=np.uint8)
    for at in range(width):
        longer = np.flatnonzero(lengths > at)
        table[longer, at] = text[starts[longer] + at]
    # UTF-8 sorts as code points do. Trailing zeros are ignored, and no id has any.
    return np.argsort(table.view(f"S{width}").ravel(), kind="stable")


def ranks(sorted_positions: Ints) -> NDArray[np.int32]:
    """Returns the rank of each position in an order."""
    out = np.empty(len(sorted_positions), dtype=np.int32)
    out[sorted_positions] = np.arange(len(sorted_positions), dtype=np.int32)
    return out


FORMAT = 1
"""Format version: increased whenever the same passages would give other files."""

Step = Callable[[int], None]

_WHOLE = -1  # the chunk number of an uncut passage


def encode_text(text: str) -> bytes:
    """Returns UTF-8, lone surrogates included."""
    return text.encode("utf-8", "surrogatepass")


def map_array(path: Path) -> NDArray[Any]:
    """Returns the array in an .npy file, memory-mapped; pickles are refused."""
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))


def save_array(path: Path, array: NDArray[Any]) -> None:
    """Writes the .npy file of `array`, the same bytes as `np.save`, which overlooks errors of the disk.

    `np.save` writes through a stream of C, whose last bytes are written when it is closed, and numpy does not
    check that. Raises OSError.
    """
    with path.open("wb") as out:
        np.lib.format.write_array(_PlainWriter(out.write), array, allow_pickle=False)


class _PlainWriter:
    """A plain writer: numpy then uses `write`, whose errors it reports."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self.write = write


def write(folder: Path, passages: Iterable[Passage], step: Step) -> None:
    """Writes `passages`, read one at a time; `step` counts them.

    Raises DataError for no passages or duplicate ids.
    """
    ends, sha, position = array("q"), hashlib.sha256(), 0
    with (folder / "passages.bin").open("wb", buffering=1 << 20) as out:
        for passage in passages:
            for value in (passage.id, passage.title, passage.text):
                position += out.write(encode_text(value))
                ends.append(position)
            sha.update(record_line(passage))
            step(1)
    if not ends:
        raise DataError("corpus", ["holds no passage, so nothing could be found in it"])
    table = np.frombuffer(ends, dtype=np.int64)
    starts, stops = np.concatenate([[0], table[2:-1:3]]), table[0::3]
    text = np.memmap(folder / "passages.bin", dtype=np.uint8, mode="r")
    order = id_order(text, starts, stops)
    _refuse_duplicates(text, starts, stops, order)
    save_array(folder / "ends.npy", table)
    _save_order(folder, order)
    about = {"n": len(starts), "fingerprint": sha.hexdigest()}
    (folder / "about.json").write_text(json.dumps(about), encoding="utf-8")


def write_cut(
    folder: Path, whole: StoredPassages, cut: Callable[[Passage], Sequence[Passage]], step: Step
) -> None:
    """Writes the positions of the chunks that `cut` makes of each passage of `whole`; `step` counts them."""
    spans, ids, ends = array("i"), bytearray(), array("q")
    titles, title_ends, titled = bytearray(), array("q"), False
    for parent, passage in enumerate(whole):
        parts = cut(passage)
        for n, part in enumerate(parts):
            number = _WHOLE if part is passage else n
            spans.extend((parent, part.start, part.start + len(part.text), number))
            ids += encode_text(part.id)
            ends.append(len(ids))
            titles += encode_text(part.title)
            title_ends.append(len(titles))
            titled = titled or part.title != passage.title
        step(1)
    if titled:
        (folder / "titles.bin").write_bytes(titles)
        save_array(folder / "title_ends.npy", np.frombuffer(title_ends, dtype=np.int64))
    stops = np.frombuffer(ends, dtype=np.int64)
    starts = np.concatenate([[0], stops[:-1]])
    save_array(folder / "spans.npy", np.frombuffer(spans, dtype=np.int32).reshape(-1, 4))
    _save_order(folder, id_order(np.frombuffer(ids, dtype=np.uint8), starts, stops))


def _save_order(folder: Path, order: NDArray[np.int64]) -> None:
    save_array(folder / "order.npy", order.astype(np.int32))
    save_array(folder / "rank.npy", ranks(order))


def _refuse_duplicates(text: Any, starts: Any, ends: Any, order: Any) -> None:
    """Raises DataError if two neighbours in the order of ids are equal."""
    lengths = (ends - starts)[order]
    twice: list[str] = []
    for at in np.flatnonzero(lengths[1:] == lengths[:-1]):
        first, second = (bytes(text[starts[p] : ends[p]]) for p in order[at : at + 2])
        if first == second:
            twice.append(f"the id {first.decode('utf-8', 'surrogatepass')!r} belongs to several passages")
            if len(twice) == 20:
                break
    if twice:
        raise DataError("corpus", twice)


class StoredPassages(Sequence[Passage]):
    """The passages stored in `folder`, each read on access. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
        self.fingerprint: str = about["fingerprint"]
        self.rank = map_array(folder / "rank.npy")
        self._order = map_array(folder / "order.npy")
        # As memoryviews: reading single items of a numpy array takes several times as long.
        self._ends = map_array(folder / "ends.npy").data
        self._text = np.memmap(folder / "passages.bin", dtype=np.uint8, mode="r").data

    def __len__(self) -> int:
        return len(self._order)

    @overload
    def __getitem__(self, at: int) -> Passage: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Passage, ...]: ...
    def __getitem__(self, at: int | slice) -> Passage | tuple[Passage, ...]:
        if isinstance(at, slice):
            return tuple(self[n] for n in range(*at.indices(len(self))))
        first = 3 * _inside(at, len(self))
        ends = self._ends
        start, a, b, c = ends[first - 1] if first else 0, ends[first], ends[first + 1], ends[first + 2]
        return Passage(self._read(start, a), self._read(a, b), self._read(b, c))

    def __iter__(self) -> Iterator[Passage]:
        return (self[at] for at in range(len(self)))

    def find(self, id: str) -> int | None:
        """Returns the position of the passage with that id, by binary search; None if there is none."""
        key, low, high = encode_text(id), 0, len(self)
        while low < high:
            middle = (low + high) // 2
            at = int(self._order[middle])
            here = bytes(self._text[self._ends[3 * at - 1] if at else 0 : self._ends[3 * at]])
            if here == key:
                return at
            low, high = (middle + 1, high) if here < key else (low, middle)
        return None

    def _read(self, start: int, end: int) -> str:
        return str(self._text[start:end], "utf-8", "surrogatepass")


class CutPassages(Sequence[Passage]):
    """The chunks of `whole` whose positions are stored in `folder`."""

    def __init__(self, whole: StoredPassages, folder: Path) -> None:
        self.whole = whole
        self.rank = map_array(folder / "rank.npy")
        self._spans = map_array(folder / "spans.npy")
        self._titles, self._title_ends = None, None
        if (folder / "titles.bin").exists():
            self._titles = np.asarray(np.memmap(folder / "titles.bin", dtype=np.uint8, mode="r"))
            self._title_ends = map_array(folder / "title_ends.npy")

    def __len__(self) -> int:
        return len(self._spans)

    @overload
    def __getitem__(self, at: int) -> Passage: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Passage, ...]: ...
    def __getitem__(self, at: int | slice) -> Passage | tuple[Passage, ...]:
        if isinstance(at, slice):
            return tuple(self[n] for n in range(*at.indices(len(self))))
        at = _inside(at, len(self))
        return self._part(at, self.whole[int(self._spans[at, 0])])

    def __iter__(self) -> Iterator[Passage]:
        last, whole = -1, None
        for at in range(len(self)):
            parent = int(self._spans[at, 0])
            if parent != last or whole is None:
                last, whole = parent, self.whole[parent]
            yield self._part(at, whole)

    def _part(self, at: int, whole: Passage) -> Passage:
        start, end, number = (int(n) for n in self._spans[at, 1:])
        if number == _WHOLE:
            return whole
        return Passage(f"{whole.id}#{number}", self._title(at, whole), whole.text[start:end], start)

    def _title(self, at: int, whole: Passage) -> str:
        if self._titles is None or self._title_ends is None:
            return whole.title
        start = int(self._title_ends[at - 1]) if at else 0
        return bytes(self._titles[start : int(self._title_ends[at])]).decode("utf-8", "surrogatepass")


def _inside(at: int, n: int) -> int:
    if not -n <= at < n:
        raise IndexError(at)
    return at % n
