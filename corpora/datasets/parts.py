"""What stands inside a row: objects in a list, texts in lists of lists, documents."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ragc.corpora.datasets.base import passage_of
from ragc.corpora.row import Row, kind
from ragc.records import Passage

_Part = TypeVar("_Part")


def part(row: Row, name: str, value: object, read: Callable[[Row], _Part]) -> _Part | None:
    """What `read` makes of the object `value`, which stands at `name` in `row`; None if it is no object.

    Its problems become those of `row`, each with `name` before it.
    """
    if not isinstance(value, dict):
        row.problems.append(f"`{name}` is {kind(value)}, an object is needed")
        return None
    inner = Row(row.place, value)
    made = read(inner)
    row.problems += [f"`{name}`: {problem}" for problem in inner.problems]
    return made


def each(row: Row, name: str, read: Callable[[Row], _Part], *, needed: bool = False) -> list[_Part]:
    """What `read` makes of every object in the list `name`; at least one is there when `needed`."""
    values = row.numbered(row.items(name, needed=needed))
    made = [part(row, f"{name}[{at}]", value, read) for at, value in values]
    return [item for item in made if item is not None]


def leaves(row: Row, name: str) -> list[str]:
    """The texts of a field that holds a text, a list of them or a list of lists; blank ones are left out."""
    if name not in row.values:
        row.text(name)
        return []
    found = [row.values[name]]
    for _ in range(2):
        found = [leaf for item in found for leaf in (item if isinstance(item, list) else [item])]
    if wrong := [leaf for leaf in found if not isinstance(leaf, str)]:
        row.problems.append(f"`{name}` holds {kind(wrong[0])}, a string or lists of strings are needed")
    return [leaf for leaf in found if isinstance(leaf, str) and leaf.strip()]


def documents(row: Row, name: str, dataset: str) -> tuple[Passage, ...]:
    """The passages that the list `name` holds as objects with `title` and `text`.

    A title may be missing or blank; a document without text is left out, and so is one that came before.
    """
    made = each(row, name, lambda inner: _document(inner, dataset))
    return tuple({passage.id: passage for passage in made if passage.text}.values())


def _document(row: Row, dataset: str) -> Passage:
    title = row.text("title", needed=False, blank=True).strip()
    return passage_of(dataset, title, row.text("text", blank=True).strip())
