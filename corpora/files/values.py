"""Dotted paths into a row, and the conversion of its values to texts, lists of texts and plain JSON.

Paths, such as `gold.text`, `answers.*.text`, `choices.0`: a step is a key of an object, the number of an item
(from 0), or `*` for every item of a list. A key that equals the whole rest of the path comes first, so a path
also reaches the column `gold.text` of a flat table. Null on the way is null. Items of a list that lack the
rest of a path are skipped.

Values: numbers become text as people write them, whole ones without a point (3.0 is "3"), others in their
shortest exact form. True and false become "yes" and "no", as such questions are answered. Dates become ISO
8601. Null and NaN count as no value.
"""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Iterator, Mapping
from datetime import date, time
from decimal import Decimal
from enum import Enum
from itertools import islice
from typing import Any, Final

from ragc.corpora.files.row import kind
from ragc.errors import nearest

MAX_SHOWN_KEYS = 8
"""The most keys in a message."""

_MAX_PATHS = 200
_MAX_NUMBER_CHARS = 9


class Nowhere(Enum):
    """The type of `NOWHERE`, the value of a path that does not exist."""

    NOWHERE = 0


NOWHERE: Final = Nowhere.NOWHERE


def value_at(value: object, path: str) -> object:
    """Returns the value at `path` in the JSON `value`, or NOWHERE.

    A path with `*` gives one flat list. It is NOWHERE if the list has items and none has the rest of the
    path.
    """
    if value is None:
        return None
    head, dot, rest = path.partition(".")
    if isinstance(value, Mapping):
        if path in value:
            return value[path]
        return value_at(value[head], rest) if dot and head in value else NOWHERE
    if not isinstance(value, list):
        return NOWHERE
    if head == "*":
        return _each(value, rest) if dot else value
    if not (head.isdecimal() and len(head) <= _MAX_NUMBER_CHARS and int(head) < len(value)):
        return NOWHERE
    item = value[int(head)]
    return value_at(item, rest) if dot else item


def drop_path(value: Any, path: str) -> Any:
    """Returns `value` without the value at `path`, and without objects and lists that this empties.

    Returns the same object if nothing is removed. An item addressed by number is not removed.
    """
    head, dot, rest = path.partition(".")
    if isinstance(value, Mapping):
        if path in value:
            return {key: item for key, item in value.items() if key != path}
        if not dot or head not in value:
            return value
        inner = drop_path(value[head], rest)
        if inner is value[head]:
            return value
        return {key: inner if key == head else item for key, item in value.items() if key != head or inner}
    if isinstance(value, list) and head == "*":
        items = [drop_path(item, rest) for item in value] if dot else []
        if dot and all(new is old for new, old in zip(items, value, strict=True)):
            return value
        return items if any(item not in ({}, []) for item in items) else []
    return value


def paths(value: object, before: str = "") -> Iterator[str]:
    """Yields every path into `value`; of a list of objects, those into its first."""
    if isinstance(value, list) and value and isinstance(value[0], Mapping | list):
        yield from paths(value[0], f"{before}*.")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield f"{before}{key}"
            yield from paths(item, f"{before}{key}.")


def describe_missing(values: Mapping[str, Any], path: str) -> str:
    """Returns the point where `path` fails in a row, the value there, and the nearest existing path."""
    steps = path.split(".")
    for n in range(len(steps) - 1, 0, -1):
        value = value_at(values, ".".join(steps[:n]))
        if value is not NOWHERE:
            if steps[n - 1] == "*" and isinstance(value, list) and value:
                value = value[0]
            here = f"`{'.'.join(steps[:n])}` {_describe_value(value)}"
            break
    else:
        here = f"the row {_describe_value(values)}"
    return f"{here}.{nearest(path, islice(paths(values), _MAX_PATHS))}"


def _each(items: list[Any], rest: str) -> object:
    matches = [inner for inner in (value_at(item, rest) for item in items) if inner is not NOWHERE]
    if items and not matches:
        return NOWHERE
    if "*" not in rest.split("."):
        return matches
    return [leaf for inner in matches for leaf in (inner if isinstance(inner, list) else [inner])]


def _describe_value(value: object) -> str:
    if isinstance(value, Mapping):
        keys = ", ".join(repr(key) for key in islice(value, MAX_SHOWN_KEYS))
        more = f" and {len(value) - MAX_SHOWN_KEYS} more" if len(value) > MAX_SHOWN_KEYS else ""
        return f"holds {keys}{more}" if value else "is an empty object"
    if isinstance(value, list):
        return "is a list, whose items are reached by a number or `*`" if value else "is an empty list"
    return f"is {kind(value)}"


_EXACT = 2**53
"""Below this, every integral float is exact."""

_MAX_LITERAL_CHARS = 2**20
_NOT_A_NUMBER = ("nan", "NaN")

AS_JSON = "json"
"""The separator for texts that spell a list."""


def is_nothing(value: object) -> bool:
    """Returns whether `value` is null or the number NaN."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def is_no_answer(text: str) -> bool:
    """Returns whether an answer is blank, or spells NaN as programs do ("Nan" is a name)."""
    return not text.strip() or text.strip() in _NOT_A_NUMBER


def as_text(value: object) -> str | None:
    """Returns a single value as text; None for an object, a list, bytes or an infinity."""
    match value:
        case str():
            return value
        case bool():
            return "yes" if value else "no"
        case int():
            return str(value)
        case float():
            if not math.isfinite(value):
                return None
            return str(int(value)) if value.is_integer() and abs(value) < _EXACT else repr(value)
        case Decimal():
            return str(value)
        case date() | time():  # a datetime is a date
            return value.isoformat()
    return None


def as_list(value: object, *, cells: bool, separator: str = "") -> list[Any]:
    """Returns a list unchanged, null as an empty list, any other value as a list of one.

    With `cells` (texts of a table), or the separator "json", a text that spells a list in JSON or Python is
    parsed. Another `separator` splits a text, and white space around the pieces is removed.
    """
    if isinstance(value, list):
        return value
    if is_nothing(value):
        return []
    if not isinstance(value, str):
        return [value]
    if cells or separator == AS_JSON:
        spelled = _spelled_list(value.strip())
        if spelled is not None:
            return spelled
    if separator and separator != AS_JSON:
        return [piece.strip() for piece in value.split(separator) if piece.strip()]
    return [value] if value.strip() or not cells else []


def as_json(value: object) -> object:
    """Returns `value` with JSON values only: NaN and infinities become null, dates and decimals texts.

    Other values without a JSON form (bytes) become null.
    """
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else as_text(value)


def _spelled_list(text: str) -> list[Any] | None:
    """Returns the list that `text` spells, in JSON or as a Python literal; None if there is none."""
    if not (text.startswith("[") and text.endswith("]")):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = _literal(text)
    return value if isinstance(value, list) else None


def _literal(text: str) -> object:
    if len(text) > _MAX_LITERAL_CHARS:
        return None
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
