"""The protocol of search sources, the record of a kind of them, and the context variable of the question."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

from ragc.core.digest import digest
from ragc.core.display import describe
from ragc.records import Hit, Passage, Question

if TYPE_CHECKING:
    from ragc.corpora.sources.options import SourceOptions
    from ragc.corpora.storage.corpus import Corpus
    from ragc.store.calls import CallStore
current_question: ContextVar[Question | None] = ContextVar("current_question", default=None)
"""The question being answered in this context; None outside of one.

Programs set it once a question; tasks started meanwhile inherit it.
"""


class Source(Protocol):
    """Ranks passages for a query.

    `fingerprint` identifies content and settings: equal fingerprints give equal results. `__deepcopy__`
    returns the source itself. A subclass without more can be searched only: it has no passages to draw from
    or to cut.
    """

    kind: str
    fingerprint: str

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """Returns at most `k` hits, best first, ties broken by passage id; `()` if nothing matches.

        Raises SourceError if the search fails.
        """
        ...

    def sample(self, n: int, *, seed: str, exclude: frozenset[str] = frozenset()) -> tuple[Passage, ...]:
        """Returns `n` passages drawn uniformly without replacement, none with an id or parent id in
        `exclude`.

        The same arguments give the same passages. Fewer if the source has fewer.
        """
        return ()

    def rechunk(self, chunk_size: int, overlap: float) -> Source:
        """Returns the same content in chunks of at most `chunk_size` tokens.

        `overlap` is the share of a chunk repeated in the next, 0 <= overlap < 1. Sources that cannot cut
        their passages return themselves.
        """
        return self


class BaseSource(Source):
    """Base of sources: a copy of one is the source itself."""

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __repr__(self) -> str:
        return describe(type(self).__name__, self.fingerprint[:12])


class SourceWrapper(BaseSource):
    """Base of sources around `inner`: a subclass searches differently, and all else is as in `inner`.

    `settings` are what the fingerprint depends on besides `inner`.
    """

    inner: Source

    def __init__(self, inner: Source, *settings: object) -> None:
        self.kind, self._settings = inner.kind, settings
        self._wrap(inner)

    def __repr__(self) -> str:
        return describe(type(self).__name__, self.inner)

    def sample(self, n: int, *, seed: str, exclude: frozenset[str] = frozenset()) -> tuple[Passage, ...]:
        """Returns the sample of the inner source."""
        return self.inner.sample(n, seed=seed, exclude=exclude)

    def parts_of(self, ids: Sequence[str]) -> tuple[Passage, ...]:
        """Returns the parts from the inner source."""
        return parts_of(self.inner, ids)

    def rechunk(self, chunk_size: int, overlap: float) -> Self:
        """Returns the wrapper over chunks of at most `chunk_size` tokens."""
        return self.around(lambda source: source.rechunk(chunk_size, overlap))

    def with_titles(self, sections: bool | None, columns: bool | None) -> Self:
        """Returns the wrapper over chunks with other titles."""
        return self.around(lambda source: with_titles(source, sections, columns))

    def around(self, change: Callable[[Source], Source]) -> Self:
        """Returns the same wrapper around what `change` makes of the inner source."""
        if (inner := change(self.inner)) is self.inner:
            return self
        wrapper = copy.copy(self)
        wrapper._wrap(inner)
        return wrapper

    def _wrap(self, inner: Source) -> None:
        self.inner = inner
        self.fingerprint = (
            digest([*self._settings, inner.fingerprint]) if self._settings else inner.fingerprint
        )


@dataclass(frozen=True, slots=True)
class SourceInputs:
    """The inputs of a source beside its options.

    `passages` are for kinds that search a corpus alone. `recording` is the path of a file
    that the kind reads itself, as it is written; `resolve` resolves paths.
    """

    passages: Corpus
    store: CallStore
    recording: str
    resolve: Callable[[str], Path]


@dataclass(frozen=True, slots=True)
class SourceKind:
    """The record of a kind of source, which validation, building, trust and requirements read.

    `options` checks the table `options` of a recipe and marks what each option does. `build` makes a source
    from the options that were set, as they are written; it sends nothing and indexes nothing. `modules` must
    be installed for given options. `corpus` says what the key `corpus` names: passages to search, a file
    that the kind reads itself, or nothing. `per_question` is set where results depend on more than the query,
    so that they cannot be recorded. `speaks` says what it asks whatever its options are, "" for nothing.
    """

    id: str
    options: type[SourceOptions]
    build: Callable[[SourceInputs, dict[str, Any]], Source]
    modules: Callable[[Mapping[str, Any]], Sequence[str]] | None = None
    corpus: Literal["passages", "file", "none"] = "none"
    per_question: bool = False
    speaks: str = ""


def best_first(hits: Iterable[Hit], k: int | None = None) -> tuple[Hit, ...]:
    """Returns the `k` hits of the highest scores, all without `k`, ties by passage id."""
    ranked = sorted(hits, key=lambda hit: (-hit.score, hit.passage.id))
    return tuple(ranked[: None if k is None else max(k, 0)])


def with_titles(source: Source, sections: bool | None, columns: bool | None) -> Source:
    """Returns `source` with chunks whose titles name their sections, and the columns of a table they begin
    in; None leaves what it does.

    A source that does not cut passages of ours, such as the web, or a user's own without this method, is
    returned as it is.
    """
    titled = getattr(source, "with_titles", None)
    return titled(sections, columns) if titled else source


def parts_of(source: Source, ids: Sequence[str]) -> tuple[Passage, ...]:
    """Returns the passages with these `ids` as `source` cut them, in order, without those it does not hold.

    Nothing for a source that holds no passages, such as the web, or a user's own source without this method.
    """
    parts = getattr(source, "parts_of", None)
    return tuple(parts(ids)) if parts else ()
