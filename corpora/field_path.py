"""Dotted paths into a row: `gold.text`, `answers.*.text`, `choices.0`.

A step is a key of an object, the number of an item (from 0), or `*` for every item of a list. A key that
is spelled as the whole rest of the path comes first, so the column `gold.text` of a flat table is found
too. Null on the way is null; items of a list that lack the rest of a path are passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from itertools import islice
from typing import Any, Final

from ragc.corpora.row import kind
from ragc.errors import nearest

MOST_KEYS = 8
"""Keys that a message spells out."""

_MOST_PATHS = 200
_LONGEST_NUMBER = 9


class Nowhere(Enum):
    """The type of `NOWHERE`, what a path leads to that is not there."""

    NOWHERE = 0


NOWHERE: Final = Nowhere.NOWHERE


def at(value: object, path: str) -> object:
    """What stands at `path` in the JSON `value`, or NOWHERE.

    A path with `*` gives one flat list. It leads nowhere when the list holds items and none has the rest.
    """
    if value is None:
        return None
    head, dot, rest = path.partition(".")
    if isinstance(value, Mapping):
        if path in value:
            return value[path]
        return at(value[head], rest) if dot and head in value else NOWHERE
    if not isinstance(value, list):
        return NOWHERE
    if head == "*":
        return _each(value, rest) if dot else value
    if not (head.isdecimal() and len(head) <= _LONGEST_NUMBER and int(head) < len(value)):
        return NOWHERE
    item = value[int(head)]
    return at(item, rest) if dot else item


def without(value: Any, path: str) -> Any:
    """`value` less what `path` leads to, and less objects and lists that are empty then.

    The same object when there is nothing to take out. An item taken by its number stays in its list.
    """
    head, dot, rest = path.partition(".")
    if isinstance(value, Mapping):
        if path in value:
            return {key: item for key, item in value.items() if key != path}
        if not dot or head not in value:
            return value
        inner = without(value[head], rest)
        if inner is value[head]:
            return value
        return {key: inner if key == head else item for key, item in value.items() if key != head or inner}
    if isinstance(value, list) and head == "*":
        items = [without(item, rest) for item in value] if dot else []
        if dot and all(new is old for new, old in zip(items, value, strict=True)):
            return value
        return items if any(item not in ({}, []) for item in items) else []
    return value


def paths(value: object, before: str = "") -> Iterator[str]:
    """Every path into `value`; of a list of objects, those into its first."""
    if isinstance(value, list) and value and isinstance(value[0], Mapping | list):
        yield from paths(value[0], f"{before}*.")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield f"{before}{key}"
            yield from paths(item, f"{before}{key}.")


def lost(values: Mapping[str, Any], path: str) -> str:
    """Where `path` ends in a row, what is there instead, and the nearest path that leads somewhere."""
    steps = path.split(".")
    for n in range(len(steps) - 1, 0, -1):
        found = at(values, ".".join(steps[:n]))
        if found is not NOWHERE:
            if steps[n - 1] == "*" and isinstance(found, list) and found:
                found = found[0]
            here = f"`{'.'.join(steps[:n])}` {_held(found)}"
            break
    else:
        here = f"the row {_held(values)}"
    return f"{here}.{nearest(path, islice(paths(values), _MOST_PATHS))}"


def _each(items: list[Any], rest: str) -> object:
    found = [inner for inner in (at(item, rest) for item in items) if inner is not NOWHERE]
    if items and not found:
        return NOWHERE
    if "*" not in rest.split("."):
        return found
    return [leaf for inner in found for leaf in (inner if isinstance(inner, list) else [inner])]


def _held(value: object) -> str:
    if isinstance(value, Mapping):
        keys = ", ".join(repr(key) for key in islice(value, MOST_KEYS))
        more = f" and {len(value) - MOST_KEYS} more" if len(value) > MOST_KEYS else ""
        return f"holds {keys}{more}" if value else "is an empty object"
    if isinstance(value, list):
        return "is a list, whose items are reached by a number or `*`" if value else "is an empty list"
    return f"is {kind(value)}"
