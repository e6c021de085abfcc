"""Base classes of sources that cut a corpus into chunks, and of those that index the chunks on disk."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import Lock, RLock
from typing import Any, ClassVar, Self, cast

from ragc.core.display import describe, quantity
from ragc.core.progress import Progress
from ragc.corpora.chunking import chunk
from ragc.corpora.sources.base import BaseSource, Source, SourceInputs
from ragc.corpora.sources.options import ChunkOptions
from ragc.corpora.storage.corpus import Corpus, corpus_of, cut, sample
from ragc.corpora.storage.index_cache import IndexFolder, Step, open_or_build
from ragc.records import Passage


class ChunkedSource(BaseSource):
    """A corpus in chunks of at most `chunk_size` tokens, or in whole passages if that is None.

    `options` are those of the model `Options` of the subclass. Sources made by `rechunk` and `with_titles`
    are shared: the same options give the same source. Cutting is deferred to the first use. `home` is where
    indexes are stored, by default the cache. Raises DataError for no passages or duplicate ids, UsageError
    for an unknown option or one out of range.
    """

    Options: ClassVar[type[ChunkOptions]]

    def __init__(
        self, passages: Corpus | Iterable[Passage], *, home: Path | None = None, **options: Any
    ) -> None:
        self.corpus, self.home = corpus_of(passages), home
        self.options: Any = self.Options.of(options)
        self._cut = (self.options.chunk_size, self.options.overlap, self.options.chunk_by)
        self.cutting = chunk.settings(*self._cut)
        self._lock = RLock()
        self._chunks: Sequence[Passage] = ()
        self._family: dict[ChunkOptions, Any] = {self.options: self}
        self._family_lock = Lock()
        self._with: Callable[..., Any] = partial(type(self), self.corpus, home=home)

    @classmethod
    def of(cls, inputs: SourceInputs, options: dict[str, Any]) -> Source:
        """Builds the source over the passages of `inputs`; nothing is loaded or indexed."""
        return cls(inputs.passages, **options)

    def __repr__(self) -> str:
        size = quantity(len(self.corpus.passages), "passage")
        shown = self.options.model_dump(exclude={*ChunkOptions.model_fields})
        return describe(type(self).__name__, size, **shown, chunk_size=self._cut[0])

    @property
    def passages(self) -> Sequence[Passage]:
        """The searched passages, after cutting."""
        with self._lock:
            self._chunks = self._chunks or self.corpus.chunk(*self._cut)
            return self._chunks

    def sample(self, n: int, *, seed: str, exclude: frozenset[str] = frozenset()) -> tuple[Passage, ...]:
        """Returns `n` of the searched passages, drawn uniformly without replacement."""
        return sample(self.passages, n, seed, exclude)

    def parts_of(self, ids: Sequence[str]) -> tuple[Passage, ...]:
        """Returns the passages with these ids, or their chunks, in order; those that are not there are left
        out.
        """
        return tuple(cut(filter(None, map(self.corpus.find, dict.fromkeys(ids))), *self._cut))

    def rechunk(self, chunk_size: int, overlap: float) -> Self:
        """Returns the same corpus in chunks of at most `chunk_size` tokens; same arguments, same source."""
        return self._shared(chunk_size=chunk_size, overlap=overlap)

    def with_titles(self, sections: bool | None, columns: bool | None) -> Self:
        """Returns the same corpus with chunks whose titles name their sections, and the columns of a table
        they begin in; None leaves what the source does.
        """
        return self._shared(chunk_by=chunk.titled(self._cut[2], sections=sections, columns=columns))

    def _shared(self, **changes: Any) -> Self:
        options = self.options.replace(**changes)
        with self._family_lock:
            if options not in self._family:
                source = self._family[options] = self._with(**options.explicit)
                source._family, source._family_lock = self._family, self._family_lock
            return cast("Self", self._family[options])


class IndexedSource(ChunkedSource):
    """A corpus in chunks with an index on disk, which `_write` writes and the first search opens by `_open`.

    `_made_of` names everything that changes the files of the index.
    """

    _made_of: Mapping[str, Any]
    _index: Any = None

    def build(self, progress: Progress | None = None) -> IndexFolder | None:
        """Returns the index on disk, built if it is missing; None for one in memory. Raises SourceError if it
        cannot be written.
        """
        return open_or_build(
            self.kind,
            self.corpus.fingerprint,
            self._made_of,
            self._write,
            home=self.home,
            total=len(self.passages),
            progress=progress,
        )

    def opened(self) -> Any:
        """Returns the opened index, built if it is missing. Raises SourceError."""
        with self._lock:
            if self._index is None:
                folder = self.build()
                self._index = self._open(folder.path if folder else None)
            return self._index

    @abstractmethod
    def _write(self, folder: Path, step: Step) -> None:
        """Writes the index into the empty `folder`; `step` counts passages."""

    def _open(self, folder: Any) -> Any:
        """Returns the index in `folder`, or in memory where that is None; what `opened` returns."""
        return folder
