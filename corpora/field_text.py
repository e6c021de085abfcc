"""What the values of a row become: texts, lists of texts, and plain JSON.

Numbers become text as people write them: whole ones without a point (3.0 is "3"), others in their shortest
exact form. True and false become "yes" and "no", which is how such questions are answered. Dates become
ISO 8601. Null and NaN say nothing.
"""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Mapping
from datetime import date, time
from decimal import Decimal
from typing import Any

_EXACT = 2**53
"""Below it every whole float is the number that was meant."""

_LONGEST_LITERAL = 2**20
_NOT_A_NUMBER = ("nan", "NaN")

AS_JSON = "json"
"""The separator that says: a text which spells a list is that list."""


def is_nothing(value: object) -> bool:
    """Whether `value` is null or the number NaN."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def is_no_answer(text: str) -> bool:
    """Whether an answer says nothing: it is blank, or spells NaN as programs do ("Nan" is a name)."""
    return not text.strip() or text.strip() in _NOT_A_NUMBER


def as_text(value: object) -> str | None:
    """A single value as text, or None: an object, a list, bytes or an infinity is no text."""
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
    """A list as it is, nothing as no item, any other value as a list of one.

    With `cells` (texts of a table), or the separator "json", a text that spells a list in JSON or Python is
    that list; it is cut at another `separator`, and white space around the pieces is dropped.
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
    """`value` with JSON values only: NaN and infinities become null, dates and decimals texts.

    Anything else that JSON has no form for (bytes) becomes null.
    """
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else as_text(value)


def _spelled_list(text: str) -> list[Any] | None:
    """The list that `text` spells, in JSON or as Python prints lists; None when it spells none."""
    if not (text.startswith("[") and text.endswith("]")):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = _literal(text)
    return value if isinstance(value, list) else None


def _literal(text: str) -> object:
    if len(text) > _LONGEST_LITERAL:
        return None
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
