"""Reads JSON values of files that others wrote: each function gives a value of its type, always."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

DEEPEST = 40
"""Levels of a value that are taken over; what is nested deeper becomes text."""

LARGEST = 2**53
"""The greatest whole number that a browser's JSON takes as it is."""


def mapping(value: Any) -> Mapping[str, Any]:
    """`value` when it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def entries(value: Any) -> list[Any]:
    """The items of `value` when it is a list, else none."""
    return list(value) if isinstance(value, list | tuple) else []


def text(value: Any) -> str:
    """`value` when it is a text; "" for None, and what Python shows of anything else."""
    return value if isinstance(value, str) else "" if value is None else str(value)[:1000]


def number(value: Any) -> float | None:
    """`value` when it is a finite number, else None; whole numbers stay whole."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) <= LARGEST and math.isfinite(value) else None


def amount(value: Any) -> float:
    """`value` when it is a finite number, else 0."""
    return number(value) or 0


def plain(value: Any, depth: int = DEEPEST) -> Any:
    """`value` as JSON that a browser reads: finite numbers, texts as keys, and no deep nesting."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float):
        return str(value) if number(value) is None else value
    if depth == 0:
        return "…"
    if isinstance(value, Mapping):
        return {str(key): plain(item, depth - 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, depth - 1) for item in value]
    return str(value)[:1000]
