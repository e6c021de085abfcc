"""Marks of options: what an option of a kind has ragc do, for the rule of trust and the check of a machine.

    chunk_size: Annotated[Positive, HARMLESS]
    base_url: Annotated[Words, Does("speaks", "searches this API")]

A mark stands in the annotation of an option. An option without a mark counts as unknown: a compiled program
from elsewhere that sets it is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from ragc.core.redact import shorten

Keys = tuple[str | int, ...]
Resolve = Callable[[str], Path]
"""Resolves a path written by the user."""


@dataclass(frozen=True, slots=True)
class RequestedAccess:
    """One access that a recipe requests; `keys` are its place in the recipe, `about` what it is.

    `own_weights` marks a model that ragc itself names and knows by its checksum: it is listed, never refused.
    For a file that is read, `path` is its path as written; `model` is "onnx" or "any" if it is the folder of
    a model.
    """

    kind: Literal["runs", "reads", "speaks", "unknown"]
    keys: Keys
    value: object
    about: str
    own_weights: bool = False
    path: str = ""
    model: Literal["", "onnx", "any"] = ""

    @property
    def name(self) -> str:
        """Returns its place in the recipe as `--set` writes it; safe to print."""
        return shorten(".".join(map(str, self.keys)))

    def __str__(self) -> str:
        return f"{self.name} = {shorten(repr(self.value), 100)}"


class Mark:
    """What an option has ragc do. This one does nothing beyond ragc: it is `HARMLESS`."""

    def accesses(self, keys: Keys, value: Any) -> Iterator[RequestedAccess]:
        """Yields what the option at `keys` would run, read or speak to with this `value`."""
        return iter(())

    def lacking(self, who: str, value: Any, resolve: Resolve) -> Iterator[str]:
        """Yields a sentence for each thing that this machine lacks for `value`, an option of `who`."""
        return iter(())


HARMLESS = Mark()
"""For options that set sizes, times and numbers, or choose among what the kind itself brings."""


@dataclass(frozen=True, slots=True)
class Does(Mark):
    """For options that have a program started or code loaded ("runs"), that hold the path of a file or folder
    ("reads"), or that choose an address, a variable of the environment or what is sent ("speaks").

    `about` says what. An option that is empty or false does nothing.
    """

    act: Literal["runs", "reads", "speaks"]
    about: str

    def accesses(self, keys: Keys, value: Any) -> Iterator[RequestedAccess]:
        """Yields the access, unless the value is empty."""
        if value is not False and value not in ("", {}):
            path = str(value) if self.act == "reads" else ""
            yield RequestedAccess(self.act, keys, value, self.about, path=path)


def marked(
    model: type[BaseModel], values: Mapping[str, Any], keys: Keys = ()
) -> Iterator[tuple[Keys, Any, Mark | None]]:
    """Yields the keys, the value and the mark of each option in `values`, tables of options walked through.

    The mark is None for an option that `model` does not declare or mark.
    """
    for name, value in values.items():
        field = model.model_fields.get(name)
        table = None if field is None else field.annotation
        if isinstance(table, type) and issubclass(table, BaseModel) and isinstance(value, Mapping):
            yield from marked(table, value, (*keys, name))
        else:
            metadata = () if field is None else field.metadata
            yield (*keys, name), value, next((mark for mark in metadata if isinstance(mark, Mark)), None)
