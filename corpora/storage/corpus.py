"""A corpus: passages with unique ids, in memory or on disk, whole or cut.

A small corpus is held in memory. A large file is converted once to a folder of the cache and memory-mapped,
so that opening it takes no memory, whatever its size. Both give the same passages and fingerprints.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Protocol

from ragc.core.digest import digest
from ragc.core.progress import Progress
from ragc.corpora.chunking import chunk
from ragc.corpora.files.records import content_fingerprint, data_error, passages_of
from ragc.corpora.storage.passages import FORMAT, CutPassages, StoredPassages, write, write_cut
from ragc.errors import DataError
from ragc.records import Passage

STORED_FROM = 4 * 2**20
"""The size in bytes of a file, compressed or not, from which its passages are stored on disk."""


class Corpus(Protocol):
    """Passages with unique ids. `fingerprint` identifies their content and order."""

    @property
    def fingerprint(self) -> str:
        """SHA-256, 64 hexadecimal digits."""
        ...

    @property
    def passages(self) -> Sequence[Passage]:
        """All passages, uncut."""
        ...

    def find(self, id: str) -> Passage | None:
        """Returns the uncut passage with that id; None if there is none."""
        ...

    def chunk(self, chunk_size: int | None, overlap: float, by: str = "text") -> Sequence[Passage]:
        """Returns the passages in chunks of at most `chunk_size` tokens; uncut if that is None.

        `by` is one of `chunk.METHODS`.
        """
        ...


def corpus_of(passages: Corpus | Iterable[Passage]) -> Corpus:
    """Returns `passages` as a corpus; a corpus is returned unchanged."""
    return passages if isinstance(passages, MemoryCorpus | DiskCorpus) else MemoryCorpus(passages)  # type: ignore[arg-type]


def read(path: str | Path, *, home: Path | None = None, progress: Progress | None = None) -> Corpus:
    """Returns the corpus in the JSON-lines file at `path`: in memory, or on disk from `STORED_FROM` bytes.

    A stored corpus belongs to the file's present path, size and modification time; it is built under `home`,
    by default in the cache. Raises DataError with every problem of the file.
    """
    corpus_path = Path(path)
    try:
        seen = corpus_path.stat()
    except OSError:
        return MemoryCorpus(_read_all(corpus_path))
    if seen.st_size < STORED_FROM or corpus_path.is_dir():
        return MemoryCorpus(_read_all(corpus_path))
    stamp = digest([str(corpus_path.resolve()), seen.st_size, seen.st_mtime_ns])

    def build(folder: Path, step: Callable[[int], None]) -> None:
        problems: list[str] = []
        try:
            write(folder, passages_of(corpus_path, problems), step)
        except DataError as error:
            raise data_error(str(corpus_path), problems or error.problems) from None
        if problems:
            raise data_error(str(corpus_path), problems)

    from ragc.corpora.storage.index_cache import open_or_build

    index = open_or_build("corpus", stamp, {"format": FORMAT}, build, home=home, progress=progress)
    return DiskCorpus(index.path, home=home)


def _read_all(path: Path) -> tuple[Passage, ...]:
    from ragc.corpora.files.records import read_corpus

    return read_corpus(path)


class MemoryCorpus:
    """Passages in memory. Raises DataError for no passages or duplicate ids."""

    def __init__(self, passages: Iterable[Passage]) -> None:
        self.passages = tuple(passages)
        if not self.passages:
            raise DataError("corpus", ["holds no passage, so nothing could be found in it"])
        ids = Counter(passage.id for passage in self.passages)
        if twice := [name for name, times in ids.items() if times > 1]:
            raise data_error("corpus", [f"the id {name!r} belongs to {ids[name]} passages" for name in twice])
        self.fingerprint = content_fingerprint(self.passages)
        self._by_id = {passage.id: passage for passage in self.passages}

    def __iter__(self) -> Iterator[Passage]:
        return iter(self.passages)

    def find(self, id: str) -> Passage | None:
        """Returns the passage with that id; None if there is none."""
        return self._by_id.get(id)

    def chunk(self, chunk_size: int | None, overlap: float, by: str = "text") -> Sequence[Passage]:
        """Returns the passages in chunks of at most `chunk_size` tokens; uncut if that is None."""
        if chunk_size is None:
            return self.passages
        return tuple(
            part
            for passage in self.passages
            for part in chunk.chunk_passage(passage, chunk_size, overlap, by)
        )


class DiskCorpus:
    """Passages stored in `folder`, each read on access; chunk positions are stored under `home`."""

    def __init__(self, folder: Path, *, home: Path | None = None) -> None:
        self.passages = StoredPassages(folder)
        self.fingerprint = self.passages.fingerprint
        self._home, self._lock = home, Lock()
        self._cuts: dict[tuple[int, float, str], CutPassages] = {}

    def __iter__(self) -> Iterator[Passage]:
        return iter(self.passages)

    def find(self, id: str) -> Passage | None:
        """Returns the passage with that id; None if there is none."""
        at = self.passages.find(id)
        return None if at is None else self.passages[at]

    def chunk(self, chunk_size: int | None, overlap: float, by: str = "text") -> StoredPassages | CutPassages:
        """Returns the passages in chunks of at most `chunk_size` tokens; their positions are stored on disk.

        Raises SourceError if the disk cannot be written.
        """
        if chunk_size is None:
            return self.passages
        with self._lock:
            if (chunk_size, overlap, by) not in self._cuts:
                part = partial(chunk.chunk_passage, size=chunk_size, overlap=overlap, by=by)
                from ragc.corpora.storage.index_cache import open_or_build

                index = open_or_build(
                    "chunks",
                    self.fingerprint,
                    {"format": FORMAT, "cut": chunk.settings(chunk_size, overlap, by)},
                    lambda folder, step: write_cut(folder, self.passages, part, step),
                    home=self._home,
                    total=len(self.passages),
                )
                self._cuts[chunk_size, overlap, by] = CutPassages(self.passages, index.path)
            return self._cuts[chunk_size, overlap, by]


def half_of(corpus: Corpus, half: str) -> Corpus:
    """Returns the passages of one half of `corpus`, "first" or "second", in memory.

    The id of a passage decides, so that the two halves share none and together are all. Raises DataError for
    an empty half.
    """
    remainder = half == "second"
    return MemoryCorpus(p for p in corpus.passages if int(digest(p.id)[:2], 16) % 2 == remainder)


def sample(passages: Sequence[Passage], n: int, seed: str, exclude: frozenset[str]) -> tuple[Passage, ...]:
    """Returns `n` of the passages, drawn uniformly without replacement, none with an id or parent id in
    `exclude`.

    Fewer if there are fewer. The same arguments give the same passages in the same order.
    """
    pick = random.Random(seed)
    swaps: dict[int, int] = {}  # a lazy Fisher-Yates shuffle
    taken: list[Passage] = []
    for at in range(len(passages)):
        if len(taken) >= n:
            break
        other = pick.randrange(at, len(passages))
        passage = passages[swaps.get(other, other)]
        swaps[other] = swaps.get(at, at)
        if passage.id not in exclude and passage.parent not in exclude:
            taken.append(passage)
    return tuple(taken)
