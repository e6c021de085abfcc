"""A corpus: passages with unique ids, in memory or on disk, uncut or in chunks.

A small corpus is held in memory. A larger file or folder is read once, into a folder of the cache that is
then memory-mapped, and so are its chunks. Both give the same passages and fingerprints.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ragc.core.digest import digest
from ragc.core.progress import Progress
from ragc.corpora.chunking import chunk
from ragc.corpora.files.records import content_fingerprint, data_error, passages_of, read_corpus
from ragc.corpora.storage.index_cache import Step, open_or_build
from ragc.corpora.storage.passages import FORMAT, StoredPassages, write
from ragc.errors import DataError
from ragc.records import Passage

STORED_FROM = 2**16
"""The bytes from which passages are stored on disk; fewer are read and indexed in less than .1 s."""


class Corpus:
    """Passages with unique ids, in memory. `fingerprint`, 64 hexadecimal digits, identifies content and
    order.

    Raises DataError for no passages or duplicate ids.
    """

    def __init__(self, passages: Iterable[Passage]) -> None:
        self.passages: Sequence[Passage] = tuple(passages)
        if not self.passages:
            raise DataError("corpus", ["holds no passage, so nothing could be found in it"])
        ids = Counter(passage.id for passage in self.passages)
        if repeated := {id: n for id, n in ids.items() if n > 1}:
            raise data_error(
                "corpus", [f"the id {id!r} belongs to {n} passages" for id, n in repeated.items()]
            )
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


class StoredCorpus(Corpus):
    """The passages that `folder` stores, each read on access; their chunks are stored under `home`."""

    def __init__(self, folder: Path, *, home: Path | None = None) -> None:
        self.passages = self._stored = StoredPassages(folder)
        self.fingerprint, self._home = self._stored.fingerprint, home

    def find(self, id: str) -> Passage | None:
        """Returns the uncut passage with that id; None if there is none."""
        return self._stored.find(id)

    def chunk(self, chunk_size: int | None, overlap: float, by: str = "text") -> Sequence[Passage]:
        """Returns the passages in chunks of at most `chunk_size` tokens; uncut if that is None."""
        if chunk_size is None:
            return self.passages

        return StoredPassages(
            open_or_build(
                "chunks",
                self.fingerprint,
                {"format": FORMAT, "cut": chunk.settings(chunk_size, overlap, by)},
                lambda folder, step: write(
                    folder, cut(self.passages, chunk_size, overlap, by, step), lambda n: None
                ),
                home=self._home,
                total=len(self.passages),
            ).path
        )


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

    index = open_or_build(
        "corpus",
        corpus.fingerprint,
        {"format": FORMAT},
        lambda folder, step: write(folder, corpus.passages, step),
        home=home,
    )
    return StoredCorpus(index.path, home=home)


def read(path: Path, *, home: Path | None = None, progress: Progress | None = None) -> Corpus:
    """Returns the corpus in the file or folder at `path`: in memory, or on disk from `STORED_FROM` bytes.

    A stored corpus belongs to the paths, sizes and modification times of its files; it is built under `home`,
    by default in the cache. Raises DataError with every problem.
    """
    files = [file for file in (path, *sorted(path.rglob("*"))) if file.is_file()]
    stats = [(str(file.resolve()), file.stat()) for file in files]
    if sum(stat.st_size for _, stat in stats) < STORED_FROM:
        return Corpus(read_corpus(path))

    def build(folder: Path, step: Step) -> None:
        problems: list[str] = []
        try:
            write(folder, passages_of(path, problems), step)
        except DataError as error:
            raise data_error(str(path), problems or error.problems) from None
        if problems:
            raise data_error(str(path), problems)

    stamp = digest([[name, stat.st_size, stat.st_mtime_ns] for name, stat in stats])
    index = open_or_build("corpus", stamp, {"format": FORMAT}, build, home=home, progress=progress)
    return StoredCorpus(index.path, home=home)


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
    pick = random.Random(seed)
    swaps: dict[int, int] = {}  # a lazy Fisher-Yates shuffle
    sampled: list[Passage] = []
    for at in range(len(passages)):
        if len(sampled) >= n:
            break
        chosen = pick.randrange(at, len(passages))
        passage = passages[swaps.get(chosen, chosen)]
        swaps[chosen] = swaps.get(at, at)
        if passage.id not in exclude and passage.parent not in exclude:
            sampled.append(passage)
    return tuple(sampled)
