"""Dotted paths into a row, and its values as texts, lists of texts and plain JSON.

Paths, such as `gold.text`, `answers.*.text`, `choices.0`: a step is a key of an object, the number of an item
(from 0), or `*` for every item of a list. A key that equals the whole rest of the path comes first, so a path
also reaches the column `gold.text` of a flat table. What is not there, null and NaN are no value.

Numbers become text as people write them, whole ones without a point (3.0 is "3"); true and false become
"yes" and "no", as such questions are answered; dates become ISO 8601.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Iterator, Mapping
from datetime import date, time
from decimal import Decimal
from typing import Any

AS_JSON = "json"
"""The separator for texts that spell a list."""

_LITERAL = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d*)?)"""
_NUMPY = re.compile(rf"\[\s*{_LITERAL}(?:\s+{_LITERAL})+\s*\]", re.DOTALL)
_ARRAY = re.compile(r"\barray\((\[[^\]]*\])(?:,\s*dtype=\w+)?\)")
_MAX_LITERAL_CHARS = 2**20


def value_at(value: Any, path: str) -> Any:
    """Returns the value at `path` in the JSON `value`, None if there is none; with `*` a flat list."""
    if isinstance(value, Mapping) and path in value:
        return value[path]
    head, dot, rest = path.partition(".")
    if isinstance(value, list) and head == "*":
        items = [value_at(item, rest) if dot else item for item in value]
        leaves = [leaf for item in items for leaf in (item if isinstance(item, list) else [item])]
        return [leaf for leaf in leaves if leaf is not None]
    if isinstance(value, list) and head.isdecimal() and len(head) < 10 and int(head) < len(value):
        inner = value[int(head)]
    else:
        inner = value.get(head) if isinstance(value, Mapping) else None
    return value_at(inner, rest) if dot and inner is not None else inner


def paths(value: object, before: str = "") -> Iterator[str]:
    """Yields every path into `value`; of a list of objects, those into its first."""
    if isinstance(value, list) and value and isinstance(value[0], Mapping | list):
        yield from paths(value[0], f"{before}*.")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield f"{before}{key}"
            yield from paths(item, f"{before}{key}.")


def is_nothing(value: object) -> bool:
    """Returns whether `value` is null or the number NaN."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def is_no_answer(text: str) -> bool:
    """Returns whether an answer is blank, or spells NaN as programs do ("Nan" is a name)."""
    return not text.strip() or text.strip() in ("nan", "NaN")


def as_text(value: object) -> str | None:
    """Returns a single value as text; None for an object, a list, bytes, an infinity or NaN."""
    match value:
        case str():
            return value
        case bool():
            return "yes" if value else "no"
        case float():
            if not math.isfinite(value):
                return None
            return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
        case int() | Decimal():
            return str(value)
        case date() | time():  # a datetime is a date
            return value.isoformat()
    return None


def as_list(value: object, *, cells: bool, separator: str = "") -> list[Any]:
    """Returns a list unchanged, null as an empty list, any other value as a list of one.

    With `cells` (texts of a table), or the separator "json", a text that spells a list in JSON, Python or
    numpy is parsed. Another `separator` splits a text.
    """
    if isinstance(value, list):
        return value
    if not isinstance(value, str):
        return [] if is_nothing(value) else [value]
    if (cells or separator == AS_JSON) and (spelled := _spelled_list(value.strip())) is not None:
        return spelled
    if separator and separator != AS_JSON:
        return [piece.strip() for piece in value.split(separator) if piece.strip()]
    return [value] if value.strip() or not cells else []


def texts_of(value: object, *, cells: bool = False, separator: str = "") -> tuple[str, ...]:
    """Returns the texts in a list or a single value that are not blank; see `as_list`."""
    items = as_list(value, cells=cells, separator=separator)
    return tuple(text for item in items if (text := as_text(item) or "").strip())


def as_json(value: object) -> object:
    """Returns `value` with JSON values only: NaN and infinities become null, dates and decimals texts.

    Other values without a JSON form (bytes) become null.
    """
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    return (
        value
        if isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value))
        else as_text(value)
    )


def _spelled_list(text: str) -> list[Any] | None:
    """Returns the list that `text` spells, in JSON, Python or numpy, or SQuAD's object of texts as a list of
    one; None if there is none.
    """
    if len(text) > _MAX_LITERAL_CHARS or text[:1] + text[-1:] not in ("[]", "{}", "a)"):
        return None
    text = _ARRAY.sub(r"\1", text)
    if _NUMPY.fullmatch(text):  # Python would join its texts
        return [ast.literal_eval(literal) for literal in re.findall(_LITERAL, text, re.DOTALL)]
    for read in (json.loads, ast.literal_eval):
        try:
            value = read(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
        if isinstance(value, dict) and "text" in value:
            return [value]
        return value if isinstance(value, list) else None
    return None
