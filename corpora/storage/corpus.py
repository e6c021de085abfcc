"""A corpus: passages with unique ids, in memory or on disk, uncut or in chunks.

A small corpus is held in memory. A larger file or folder is read once, into a folder of the cache that is
then memory-mapped, and so are its chunks. Both give the same passages and fingerprints.
"""

from __future__ import annotations

import hashlib
import random
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from ragc.core.digest import digest
from ragc.core.progress import Progress
from ragc.corpora.chunking import chunk
from ragc.corpora.files.records import content_fingerprint, data_error, passages_of, read_corpus, record_line
from ragc.corpora.storage.index_cache import Step, open_or_build
from ragc.errors import DataError
from ragc.records import Passage

# Of stored passages: the version of the format, and two files. TEXT has one passage a line, the bytes whose
# SHA-256 is the fingerprint. ROWS has where each line ends, the keys of the ids in ascending order, and the
# position of the passage of each.
FORMAT, TEXT, ROWS = 3, "passages.jsonl", "rows.npy"
EMPTY = "holds no passage, so nothing could be found in it"

STORED_FROM = 2**16
"""The bytes from which passages are stored on disk; fewer are read and indexed in less than .1 s."""


class Corpus:
    """Passages with unique ids, in memory. `fingerprint`, 64 hexadecimal digits, identifies content and
    order.

    Raises DataError for no passages or duplicate ids.
    """

    def __init__(self, passages: Iterable[Passage]) -> None:
        self.passages: Sequence[Passage] = tuple(passages)
        ids = Counter(passage.id for passage in self.passages)
        repeated = [f"the id {id!r} belongs to {n} passages" for id, n in ids.items() if n > 1]
        if repeated or not ids:
            raise data_error("corpus", repeated or [EMPTY])
        self.fingerprint = content_fingerprint(self.passages)
        self._by_id = {passage.id: passage for passage in self.passages}

    def find(self, id: str) -> Passage | None:
        """Returns the uncut passage with that id; None if there is none."""
        return self._by_id.get(id)

    def chunk(self, chunk_size: int | None, overlap: float, by: str = "text") -> Sequence[Passage]:
        """Returns the passages in chunks of at most `chunk_size` tokens; uncut if that is None.

        `by` is one of `chunk.METHODS`. Raises SourceError if chunks of a stored corpus cannot be written.
        """
        return tuple(cut(self.passages, chunk_size, overlap, by))


class StoredCorpus(Corpus, Sequence[Passage]):
    """Passages on disk, each read on access: the index of `kind` under the key `source`. Thread-safe.

    They are written first if they are missing, from what `passages` yields, which counts its steps; so are
    their chunks, under `home` too. Raises SourceError if the disk cannot be written.
    """

    def __init__(
        self,
        kind: str,
        source: str,
        passages: Callable[[Step], Iterable[Passage]],
        *,
        home: Path | None,
        chunking: Sequence[str | int | float] = (),
        total: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        index = open_or_build(
            kind,
            source,
            {"format": FORMAT, "cut": chunking},
            lambda folder, step: _write(folder, passages(step)),
            home=home,
            total=total,
            progress=progress,
        )
        self.passages, self.fingerprint, self._home = self, index.files[TEXT][1], home
        ends, self._ids, self._positions = np.load(index.path / ROWS, mmap_mode="r")
        # As memoryviews: reading single items of a numpy array takes several times as long.
        self._ends, self._text = ends.data, np.memmap(index.path / TEXT, mode="r").data

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return tuple(self[position] for position in range(*at.indices(len(self))))
        position = range(len(self))[at]
        line = self._text[self._ends[position - 1] if position else 0 : self._ends[position]]
        return Passage(*orjson.loads(line)[1:])

    def find(self, id: str) -> Passage | None:
        """Returns the passage with that id; None if there is none."""
        at = int(np.searchsorted(self._ids, np.uint64(key(id))))
        passage = self[int(self._positions[at])] if at < len(self) else None
        return passage if passage is not None and passage.id == id else None

    def chunk(self, chunk_size: int | None, overlap: float, by: str = "text") -> Sequence[Passage]:
        """Returns the passages in chunks of at most `chunk_size` tokens; uncut if that is None."""
        if chunk_size is None:
            return self
        return StoredCorpus(
            "chunks",
            self.fingerprint,
            lambda step: cut(self, chunk_size, overlap, by, step),
            home=self._home,
            chunking=chunk.settings(chunk_size, overlap, by),
            total=len(self),
        )


def key(text: str) -> int:
    """Returns 64 bits of a digest of `text`, by which ids and terms are found in sorted arrays on disk."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest())


def _write(folder: Path, passages: Iterable[Passage]) -> None:
    ends, ids, repeated = array("Q"), dict[int, int](), list[str]()
    with (folder / TEXT).open("wb") as file:
        for position, passage in enumerate(passages):
            file.write(record_line(passage))
            ends.append(file.tell())
            if ids.setdefault(key(passage.id), position) != position:
                repeated.append(f"the id {passage.id!r} belongs to several passages")
    if repeated or not ids:
        raise DataError("corpus", repeated or [EMPTY])
    keys = np.fromiter(ids, np.uint64, len(ids))
    order = np.argsort(keys)
    np.save(folder / ROWS, np.stack([np.frombuffer(ends, np.uint64), keys[order], order.astype(np.uint64)]))


def cut(
    passages: Iterable[Passage], size: int | None, overlap: float, by: str, step: Step = lambda n: None
) -> Iterator[Passage]:
    """Yields `passages` in chunks of at most `size` tokens, uncut if that is None; `step` counts them."""
    for passage in passages:
        yield from (passage,) if size is None else chunk.chunk_passage(passage, size, overlap, by)
        step(1)


def corpus_of(passages: Corpus | Iterable[Passage], *, home: Path | None = None) -> Corpus:
    """Returns `passages` as a corpus: in memory, or on disk from `STORED_FROM` characters, so that their
    chunks and indexes are stored too. A corpus is returned unchanged.
    """
    corpus = passages if isinstance(passages, Corpus) else Corpus(passages)
    if corpus is passages or sum(len(passage.text) for passage in corpus.passages) < STORED_FROM:
        return corpus
    return StoredCorpus("corpus", corpus.fingerprint, lambda step: corpus.passages, home=home)


def read(path: Path, *, home: Path | None = None, progress: Progress | None = None) -> Corpus:
    """Returns the corpus in the file or folder at `path`: in memory, or on disk from `STORED_FROM` bytes.

    A stored corpus belongs to the paths, sizes and modification times of its files; it is built under `home`,
    by default in the cache. Raises DataError with every problem.
    """
    files = [file for file in (path, *sorted(path.rglob("*"))) if file.is_file()]
    stats = [(str(file.resolve()), file.stat()) for file in files]
    if sum(stat.st_size for _, stat in stats) < STORED_FROM:
        return Corpus(read_corpus(path))
    problems: list[str] = []

    def passages(step: Step) -> Iterator[Passage]:
        yield from cut(passages_of(path, problems), None, 0, "", step)
        if problems:
            raise data_error(str(path), problems)

    stamp = [[name, stat.st_size, stat.st_mtime_ns] for name, stat in stats]
    return StoredCorpus("corpus", digest(stamp), passages, home=home, progress=progress)


def half_of(corpus: Corpus, half: str) -> Corpus:
    """Returns the passages of one half of `corpus`, "first" or "second", in memory.

    The id of a passage decides, so that the two halves share none and together are all. Raises DataError for
    an empty half.
    """
    return Corpus(p for p in corpus.passages if int(digest(p.id)[:2], 16) % 2 == (half == "second"))


def sample(passages: Sequence[Passage], n: int, seed: str, exclude: frozenset[str]) -> tuple[Passage, ...]:
    """Returns `n` of the passages, drawn uniformly without replacement, none with an id or parent id in
    `exclude`.

    Fewer if there are fewer. The same arguments give the same passages in the same order.
    """
    candidates = (p for p in _shuffled(passages, seed) if p.id not in exclude and p.parent not in exclude)
    return tuple(islice(candidates, n))


def _shuffled(passages: Sequence[Passage], seed: str) -> Iterator[Passage]:
    """Yields the passages in random order, by a lazy Fisher-Yates shuffle."""
    pick, swaps = random.Random(seed), dict[int, int]()
    for place in range(len(passages)):
        chosen = pick.randrange(place, len(passages))
        yield passages[swaps.get(chosen, chosen)]
        swaps[chosen] = swaps.get(place, place)
