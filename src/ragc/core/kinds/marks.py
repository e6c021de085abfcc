"""Marks of options: what an option of a kind has ragc do, for the rule of trust and the check of a machine.

    chunk_size: Annotated[int, Whole(1), HARMLESS]
    base_url: Annotated[str, Text(), Speaks("searches this API")]

A mark stands in the annotation of an option. An option without a mark counts as unknown: a compiled program
from elsewhere that sets it is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ragc.core.redact import shorten
from ragc.core.validation import Options

Keys = tuple[str | int, ...]
Resolve = Callable[[str], Path]
"""Resolves a path written by the user."""


@dataclass(frozen=True, slots=True)
class RequestedAccess:
    """One access that a recipe requests; `keys` are its place in the recipe, `about` what it is.

    `published` marks access that is always allowed: it is listed, never refused. For a file that is read,
    `path` is its path as written; `model` is "onnx" or "any" if it is the folder of a model.
    """

    kind: Literal["runs", "reads", "speaks", "unknown"]
    keys: Keys
    value: object
    about: str
    published: bool = False
    path: str = ""
    model: Literal["", "onnx", "any"] = ""
    by: Keys = ()

    @property
    def name(self) -> str:
        """Returns its place in the recipe as `--set` writes it; safe to print."""
        return ".".join(_shown_key(key) for key in self.keys)

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
class Speaks(Mark):
    """For options that choose an address, an environment variable or what is sent; `about` says what."""

    about: str

    def accesses(self, keys: Keys, value: Any) -> Iterator[RequestedAccess]:
        """Yields the access, unless the value is empty."""
        if not _is_empty(value):
            yield RequestedAccess("speaks", keys, value, self.about)


@dataclass(frozen=True, slots=True)
class Runs(Mark):
    """For options by which a program starts or code is loaded; `about` says what."""

    about: str

    def accesses(self, keys: Keys, value: Any) -> Iterator[RequestedAccess]:
        """Yields the access, unless the value is empty."""
        if not _is_empty(value):
            yield RequestedAccess("runs", keys, value, self.about)


@dataclass(frozen=True, slots=True)
class Reads(Mark):
    """For options with the path of a file or folder; `about` says what is read."""

    about: str

    def accesses(self, keys: Keys, value: Any) -> Iterator[RequestedAccess]:
        """Yields the access, unless the value is empty."""
        if not _is_empty(value):
            yield RequestedAccess("reads", keys, value, self.about, path=str(value))


def marked(
    model: type[Options], values: Mapping[str, Any], keys: Keys = ()
) -> Iterator[tuple[Keys, Any, Mark | None]]:
    """Yields the keys, the value and the mark of each option in `values`, tables of options walked through.

    The mark is None for an option that `model` does not declare or mark.
    """
    for name, value in values.items():
        field = model.model_fields.get(name)
        table = None if field is None else field.annotation
        if isinstance(table, type) and issubclass(table, Options) and isinstance(value, Mapping):
            yield from marked(table, value, (*keys, name))
        else:
            metadata = () if field is None else field.metadata
            yield (*keys, name), value, next((mark for mark in metadata if isinstance(mark, Mark)), None)


def _is_empty(value: object) -> bool:
    return value is False or value in ("", {})


def _shown_key(key: str | int) -> str:
    text = str(key)
    return text if re.fullmatch(r"[\w-]+", text, re.ASCII) else json.dumps(text)
