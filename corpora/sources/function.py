"""Sources of a user's own code: functions, DSPy's retrievers, `module:name` in recipes, kinds of packages.

A function takes the query, and `k` if it has such an argument, and returns a list, best first, of texts,
mappings or objects with `text` (or `long_text`), passages or hits; or an object whose `passages` are such a
list, as DSPy's retrievers do. What is wrong with such code is said in a sentence that names it.

    def find(query: str, k: int) -> list[str]: ...

    [sources.local]
    kind = "search:find"          # the function `find` of search.py beside the recipe
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from ragc.core.digest import digest
from ragc.core.plugins import REPAIR
from ragc.core.user_code import code_digest, load_object, no_exit
from ragc.corpora.sources.base import BaseSource, Source, SourceInputs, SourceKind, SourceWrapper
from ragc.corpora.sources.options import SourceOptions
from ragc.errors import RagcError, SourceError, UsageError
from ragc.records import Hit, Passage

_MEMBERS = ("fingerprint", "search", "sample", "rechunk")


class FoundPassage(BaseModel):
    """A passage as a user's function returns it. Without an id it gets one from its text."""

    model_config = ConfigDict(from_attributes=True, coerce_numbers_to_str=True)

    text: str = Field(validation_alias=AliasChoices("text", "long_text"))
    title: str = ""
    id: str = ""


_RESULTS = "a list of texts, of mappings or objects with `text`, of passages or of ragc.Hit, best first"


class FunctionSource(BaseSource):
    """Searches by calling `function`, plain or async; plain ones run in a thread.

    Its errors are failed searches. A result of another type raises UsageError. `name` begins the sentences of
    errors. `fingerprint` is that of the function's source text and of `name`.
    """

    kind = "function"

    def __init__(self, function: Callable[..., Any], name: str = "") -> None:
        self.function = function
        self.name = name or f"The source {getattr(function, '__qualname__', type(function).__name__)}"
        self._takes_k = "k" in inspect.signature(getattr(function, "forward", function)).parameters
        self.fingerprint = digest([self.kind, self.name, code_digest(function, whole_file=bool(name))])

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """Returns the first `k` results. Raises SourceError for what the function raises, UsageError for
        types.
        """
        search = partial(self.function, query, k=k) if self._takes_k else partial(self.function, query)
        return await _call(search, k, self.name)


class GuardedSource(SourceWrapper):
    """A source of a user's own class or of another package; `subject` begins the sentences of errors."""

    def __init__(self, inner: Source, kind: str, subject: str) -> None:
        super().__init__(inner)
        self.kind, self._subject = kind, subject

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """Returns at most `k` hits, as `FunctionSource` does."""
        return await _call(partial(self.inner.search, query, k), k, self._subject)


async def _call(search: Callable[[], Any], k: int, subject: str) -> tuple[Hit, ...]:
    """Returns the first `k` results of the user's `search`; errors of it begin with `subject`."""
    try:
        with no_exit(subject):
            found = await asyncio.to_thread(search)
            found = await found if inspect.isawaitable(found) else found
    except RagcError:
        raise
    except Exception as error:
        raise SourceError(f"{subject} raised {type(error).__name__}: {error}") from error
    listed = found if isinstance(found, list | tuple | str) else getattr(found, "passages", found)
    if not isinstance(listed, list | tuple):
        raise UsageError(
            f"{subject} must return {_RESULTS}, and it returned {type(listed).__name__}; put what it "
            "finds into a list."
        )
    return tuple(_hit(item, 1 / rank, subject) for rank, item in enumerate(listed[: max(k, 0)], 1))


def _hit(item: Any, score: float, subject: str) -> Hit:
    if isinstance(item, Hit | Passage):
        return item if isinstance(item, Hit) else Hit(item, score)
    try:
        found = FoundPassage.model_validate({"text": item} if isinstance(item, str) else item)
    except ValidationError as error:
        raise UsageError(
            f"{subject} must return {_RESULTS}, and an item of the type {type(item).__name__} has no text "
            f"({error.errors()[0]['msg']}); give each a `text`."
        ) from None
    return Hit(Passage(found.id or digest(found.text)[:16], found.title, found.text), score)


def _built(make: Callable[[], Any], kind: str, subject: str, advice: str) -> Source:
    """Returns the source that `make` returns, guarded. Raises UsageError for what it raises, and for another
    object.
    """
    try:
        source = make()
    except RagcError:
        raise
    except (Exception, SystemExit) as error:  # whatever the code raises
        raise UsageError(f"{subject} cannot be built: {type(error).__name__}: {error}; {advice}.") from error
    missing = [name for name in _MEMBERS if not hasattr(source, name)]
    if missing and kind.partition(":")[2] and callable(source):
        return FunctionSource(source, subject)
    if missing:
        raise UsageError(
            f"{subject} builds a {type(source).__name__} without {', '.join(missing)}, which every "
            f"source has; {advice}."
        )
    return GuardedSource(source, kind, subject)


def guard(record: SourceKind, subject: str) -> SourceKind:
    """Returns the record of another package with sources that are `GuardedSource`."""
    return replace(
        record,
        build=lambda inputs, options: _built(
            lambda: record.build(inputs, options), record.id, subject, REPAIR
        ),
    )


class OwnOptions(SourceOptions):
    """Options of a source of the user's own, which gets them as keywords."""

    model_config = ConfigDict(extra="allow")


def own_kind(reference: str) -> SourceKind:
    """Returns the kind of a function `module:name` of the user's own, or of a class, made with the options as
    keywords, that is a source or is called like such a function.
    """

    def build(inputs: SourceInputs, options: dict[str, Any]) -> Source:
        named = load_object(reference, inputs.resolve("."))
        if options and not isinstance(named, type):
            raise UsageError(f"{reference!r} is a function, which takes no options; name a class that does.")
        make = partial(named, **options) if isinstance(named, type) else lambda: named
        source = _built(make, reference, f"The source {reference!r}", "repair it")
        source.fingerprint = digest([source.fingerprint, options])
        return source

    return SourceKind(reference, OwnOptions, build)
