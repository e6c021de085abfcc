"""Base class of sources that cut a corpus into chunks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from threading import Lock, RLock
from typing import Any, Self

from ragc.core.display import describe, quantity
from ragc.corpora.chunking import chunk
from ragc.corpora.sources.base import BaseSource
from ragc.corpora.storage.corpus import Corpus, corpus_of, cut, sample
from ragc.records import Passage


class ChunkedSource(BaseSource):
    """A corpus in chunks of at most `chunk_size` tokens, or in whole passages if that is None.

    `settings` are the other keyword arguments of the subclass. Sources made by `rechunk` and `with_titles`
    are shared: the same settings give the same source. Cutting is deferred to the first use. Raises DataError
    for no passages or duplicate ids.
    """

    def __init__(
        self,
        passages: Corpus | Iterable[Passage],
        chunk_size: int | None,
        overlap: float,
        chunk_by: str,
        **settings: Any,
    ) -> None:
        self.corpus, self.settings = corpus_of(passages), settings
        self.chunk_size, self.overlap, self.chunk_by = chunk_size, overlap, chunk_by
        self._lock = RLock()
        self._chunks: Sequence[Passage] = ()
        self._family: dict[tuple[int | None, float, str], Any] = {(chunk_size, overlap, chunk_by): self}
        self._family_lock = Lock()

    def __repr__(self) -> str:
        size = quantity(len(self.corpus.passages), "passage")
        return describe(type(self).__name__, size, **self.settings, chunk_size=self.chunk_size)

    @property
    def passages(self) -> Sequence[Passage]:
        """The searched passages, after cutting."""
        with self._lock:
            self._chunks = self._chunks or self.corpus.chunk(self.chunk_size, self.overlap, self.chunk_by)
            return self._chunks

    @property
    def cutting(self) -> list[str | int | float]:
        """The chunk settings for fingerprints. Raises UnknownName and UsageError for invalid options."""
        return chunk.settings(self.chunk_size, self.overlap, self.chunk_by)

    def sample(self, n: int, *, seed: str, exclude: frozenset[str] = frozenset()) -> tuple[Passage, ...]:
        """Returns `n` of the searched passages, drawn uniformly without replacement."""
        return sample(self.passages, n, seed, exclude)

    def parts_of(self, ids: Sequence[str]) -> tuple[Passage, ...]:
        """Returns the passages with these ids, or their chunks, in order; those that are not there are left
        out.
        """
        passages = filter(None, map(self.corpus.find, dict.fromkeys(ids)))
        return tuple(cut(passages, self.chunk_size, self.overlap, self.chunk_by))

    def rechunk(self, chunk_size: int, overlap: float) -> Self:
        """Returns the same corpus in chunks of at most `chunk_size` tokens; same arguments, same source."""
        return self._shared(chunk_size, overlap, self.chunk_by)

    def with_titles(self, sections: bool | None, columns: bool | None) -> Self:
        """Returns the same corpus with chunks whose titles name their sections, and the columns of a table
        they begin in; None leaves what the source does.
        """
        return self._shared(
            self.chunk_size, self.overlap, chunk.titled(self.chunk_by, sections=sections, columns=columns)
        )

    def _shared(self, chunk_size: int | None, overlap: float, chunk_by: str) -> Self:
        key = (chunk_size, overlap, chunk_by)
        with self._family_lock:
            source: Self | None = self._family.get(key)
            if source is None:
                source = self._with(chunk_size=chunk_size, overlap=overlap, chunk_by=chunk_by)
                source._family, source._family_lock = self._family, self._family_lock
                self._family[key] = source
            return source

    def _with(self, **changes: Any) -> Self:
        """Returns a new source of the same corpus with the same settings, but for `changes`."""
        cut = {"chunk_size": self.chunk_size, "overlap": self.overlap, "chunk_by": self.chunk_by}
        return type(self)(self.corpus, **{**self.settings, **cut, **changes})
