"""Code of the `python` export: messages and the values in them. It stands in the generated file as it is.

Nothing but the standard library may be used here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any


def _message(role: str, *parts: str) -> dict[str, str]:
    return {"role": role, "content": "".join(parts)}


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"The input {name!r} must be a text, got {value!r:.80}.")
    return value


def _integer(name: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"The input {name!r} must be an integer, got {value!r:.80}.")
    return str(value)


def _number(name: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise TypeError(f"The input {name!r} must be a finite number, got {value!r:.80}.")
    return str(value)


def _flag(name: str, value: Any, true: str = "true", false: str = "false") -> str:
    if not isinstance(value, bool):
        raise TypeError(f"The input {name!r} must be True or False, got {value!r:.80}.")
    return true if value else false


def _items(name: str, values: Sequence[Any], item: Callable[[str, Any], str]) -> list[str]:
    if not isinstance(values, (list, tuple)):
        raise TypeError(f"The input {name!r} must be a list, got {values!r:.80}.")
    return [item(name, value) for value in values]


def _lines(name: str, values: Sequence[Any], item: Callable[[str, Any], str] = _text) -> str:
    """`[1] item` a line, numbered from 1; `none` for an empty list."""
    return "\n".join(f"[{i}] {text}" for i, text in enumerate(_items(name, values, item), 1)) or "none"


def _array(name: str, values: Sequence[Any], item: Callable[[str, Any], str] = _text) -> str:
    """A JSON array; characters beyond ASCII stand as they are."""
    texts = _items(name, values, item)
    return f"[{', '.join(json.dumps(one, ensure_ascii=False) if item is _text else one for one in texts)}]"
