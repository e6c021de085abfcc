"""Sources of other packages: what is wrong with them is said in a sentence that names the package."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

from ragc.core.display import describe
from ragc.core.plugins import REPAIR
from ragc.corpora.sources.base import Source, SourceInputs, SourceKind, maker
from ragc.errors import RagcError, SourceError, UsageError
from ragc.records import Hit, Passage

_MEMBERS = ("fingerprint", "search", "sample", "rechunk")


def guard(record: SourceKind, subject: str) -> SourceKind:
    """Returns `record` with sources that are `GuardedSource`; `subject` begins the sentences of errors.

    Building raises UsageError for what the package raises, and for an object that is no source.
    """

    def build(inputs: SourceInputs, options: dict[str, Any]) -> Source:
        try:
            source = maker(record)(inputs, options)
        except RagcError:
            raise
        except Exception as error:  # whatever the code of another package raises
            raise UsageError(
                f"{subject} cannot be built: {type(error).__name__}: {error}; {REPAIR}."
            ) from error
        if missing := [name for name in _MEMBERS if not hasattr(source, name)]:
            raise UsageError(
                f"{subject} builds a {type(source).__name__} without {', '.join(missing)}, which every "
                f"source has; {REPAIR}."
            )
        return GuardedSource(source, record.id, subject)

    return replace(record, build=build)


class GuardedSource:
    """A `source` of another package. What its search raises is a failed search.

    `subject` begins the sentences of errors. Everything else is that of `source`.
    """

    def __init__(self, source: Source, kind: str, subject: str) -> None:
        self.inner, self.kind, self._subject = source, kind, subject
        self.fingerprint = source.fingerprint

    def __deepcopy__(self, memo: object) -> GuardedSource:
        return self

    def __repr__(self) -> str:
        return describe(type(self).__name__, self.inner)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "inner":
            raise AttributeError(name)
        return getattr(self.inner, name)

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """Returns at most `k` hits.

        Raises SourceError for what the source raises, UsageError for a result of another type.
        """
        try:
            results: Any = self.inner.search(query, k)
            if inspect.isawaitable(results):
                results = await results
        except RagcError:
            raise
        except Exception as error:  # whatever the code of another package raises
            raise SourceError(f"{self._subject} raised {type(error).__name__}: {error}") from error
        if not isinstance(results, tuple | list):
            raise self._wrong_type(results)
        for result in results:
            if not isinstance(result, Hit) or not isinstance(result.passage, Passage):
                raise self._wrong_type(result, "a list with ")
        return tuple(results[:k])

    def sample(self, n: int, *, seed: str, exclude: frozenset[str] = frozenset()) -> tuple[Passage, ...]:
        """Returns the passages that the source draws."""
        return self.inner.sample(n, seed=seed, exclude=exclude)

    def rechunk(self, chunk_size: int, overlap: float) -> Source:
        """Returns the source with other chunks."""
        source = self.inner.rechunk(chunk_size, overlap)
        return self if source is self.inner else GuardedSource(source, self.kind, self._subject)

    def _wrong_type(self, value: object, within: str = "") -> UsageError:
        return UsageError(
            f"{self._subject} must return a list of ragc.Hit, best first, and it returned {within}a "
            f"{type(value).__name__}; {REPAIR}."
        )
