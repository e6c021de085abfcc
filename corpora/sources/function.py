"""`function`: the results of a caller's function, or of a DSPy retriever, as a source.

It returns a list, best first, of texts, mappings or objects with `text` (or `long_text`), passages or hits;
or an object whose `passages` are such a list, as DSPy's retrievers do.
"""

from __future__ import annotations

import asyncio
import inspect
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ragc.core.digest import digest
from ragc.core.display import describe
from ragc.core.user_code import no_exit
from ragc.errors import RagcError, SourceError, UsageError
from ragc.records import Hit, Passage

_TEXTS = ("text", "long_text")
_RESULT_TYPES = "a list of texts, of mappings or objects with `text`, or of passages"


class FunctionSource:
    """Searches by calling `function` with the query, and with `k` if it takes such an argument.

    A plain function runs in a thread of its own. Its errors are failed searches. A result of another type
    raises UsageError. Results without an id get one from their text. `fingerprint` is that of the function's
    source text; without one, of this object alone.
    """

    kind = "function"

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.name = getattr(function, "__qualname__", "") or type(function).__name__
        called: Any = function
        if not inspect.isroutine(function):
            called = getattr(function, "forward", None) or type(function).__call__
        self._is_async = inspect.iscoroutinefunction(called)
        self._takes_k = _takes_k(called)
        try:
            text = inspect.getsource(function if inspect.isroutine(function) else type(function))
        except (OSError, TypeError):
            text = uuid.uuid4().hex
        self.fingerprint = digest([self.kind, self.name, text])

    def __deepcopy__(self, memo: object) -> FunctionSource:
        return self

    def __repr__(self) -> str:
        return describe(type(self).__name__, self.name)

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """Returns the first `k` results. Raises SourceError for what the function raises, UsageError for
        types.
        """
        arguments = {"k": k} if self._takes_k else {}
        try:
            with no_exit(f"The source {self.name}"):
                if self._is_async:
                    results = await self.function(query, **arguments)
                else:
                    results = await asyncio.to_thread(self.function, query, **arguments)
        except RagcError:
            raise
        except Exception as error:
            raise SourceError(f"The source {self.name} raised {type(error).__name__}: {error}") from error
        listed = self._listed(results)
        return tuple(self._hit(result, rank) for rank, result in enumerate(listed[:k]))

    def _listed(self, results: Any) -> Sequence[Any]:
        if not isinstance(results, list | tuple) and not isinstance(results, str | Mapping):
            results = getattr(results, "passages", results)
        if not isinstance(results, list | tuple):
            raise UsageError(
                f"The source {self.name} must return {_RESULT_TYPES}, and it returned "
                f"{type(results).__name__}; put what it finds into a list."
            )
        return results

    def _hit(self, result: Any, rank: int) -> Hit:
        if isinstance(result, Hit):
            return result
        return Hit(self._passage(result), 1.0 / (rank + 1))

    def _passage(self, result: Any) -> Passage:
        if isinstance(result, Passage):
            return result
        if isinstance(result, str):
            return Passage(_id_of(result), "", result)

        def read(name: str) -> Any:
            return result.get(name) if isinstance(result, Mapping) else getattr(result, name, None)

        text = next((value for name in _TEXTS if (value := read(name)) is not None), None)
        if not isinstance(text, str):
            problem = "has no text" if text is None else f"has a text of the type {type(text).__name__}"
            raise UsageError(
                f"The source {self.name} must return {_RESULT_TYPES}, and an item of the type "
                f"{type(result).__name__} {problem}; give each a `text`."
            )
        title, name = read("title"), read("id")
        return Passage(
            str(name) if isinstance(name, str | int) and str(name) else _id_of(text),
            title if isinstance(title, str) else "",
            text,
        )

    def sample(self, n: int, *, seed: str, exclude: frozenset[str] = frozenset()) -> tuple[Passage, ...]:
        """Returns no passages: a function can only be searched."""
        return ()

    def rechunk(self, chunk_size: int, overlap: float) -> FunctionSource:
        """Returns the source itself: its passages cannot be cut."""
        return self


def _id_of(text: str) -> str:
    return digest(text)[:16]


def _takes_k(function: Callable[..., Any]) -> bool:
    try:
        return "k" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
