"""Reads JSON values of files that others wrote, and writes figures for people.

Each reading function returns a value of its type, whatever it reads. All figures of a metric have the same
number of decimals, by `decimals_of`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

DEEPEST = 40
"""Levels of a value that are taken over; what is nested deeper becomes text."""

MAX_EXACT_INT = 2**53
"""The greatest whole number that a browser's JSON takes as it is."""


MINUS = "\N{MINUS SIGN}"


def mapping(value: Any) -> Mapping[str, Any]:
    """Returns `value` when it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def entries(value: Any) -> list[Any]:
    """Returns the items of `value` when it is a list, else none."""
    return list(value) if isinstance(value, list | tuple) else []


def text(value: Any) -> str:
    """Returns `value` when it is a text; "" for None, and Python's `str` of anything else."""
    return value if isinstance(value, str) else "" if value is None else str(value)[:1000]


def number(value: Any) -> float | None:
    """Returns `value` when it is a finite number, else None; whole numbers stay whole."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) <= MAX_EXACT_INT and math.isfinite(value) else None


def amount(value: Any) -> float:
    """Returns `value` when it is a finite number, else 0."""
    return number(value) or 0


def totals(rows: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Returns the sums of the numbers in `rows`, by name."""
    sums: dict[str, float] = {}
    for row in rows:
        for name, value in row.items():
            if (added := number(value)) is not None:
                sums[name] = sums.get(name, 0) + added
    return sums


def plain(value: Any, depth: int = DEEPEST) -> Any:
    """Returns `value` as JSON that a browser reads: finite numbers, texts as keys, and no deep nesting."""
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


def decimals_of(values: Iterable[float | None]) -> int:
    """Returns the decimals with which all figures of a metric are written, by the largest of its `values`.

    Three for shares, fewer for large numbers, and for small ones as many as three significant digits need.
    """
    largest = max((abs(value) for value in values if value is not None), default=0.0)
    if largest >= 100:
        return 1 if largest < 10_000 else 0
    if 0 < largest < 0.01:
        return min(12, 2 - math.floor(math.log10(largest)))
    return 3


def figure(value: float | None, decimals: int | None = None) -> str:
    """Returns a score for people, with a true minus sign; "–" for None."""
    if value is None:
        return "–"
    places = decimals_of([value]) if decimals is None else decimals
    return f"{_unsigned_zero(value, places):,.{places}f}".replace("-", MINUS)


def signed(value: float, decimals: int | None = None) -> str:
    """Returns a difference for people, with its sign."""
    places = decimals_of([value]) if decimals is None else decimals
    if _unsigned_zero(value, places) == 0:
        return f"{0:.{places}f}"
    return f"{value:+,.{places}f}".replace("-", MINUS)


def written_amount(value: float) -> str:
    """Returns an amount for people: whole numbers as they are, others with four significant digits."""
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 10_000 else f"{value:,.4g}"


def money(usd: float) -> str:
    """Returns US dollars for people, in cents from one dollar on and in significant digits below."""
    if usd == 0 or usd >= 1:
        return f"${usd:,.2f}"
    return f"${usd:.{min(12, max(2, 1 - math.floor(math.log10(abs(usd)))))}f}"


def _unsigned_zero(value: float, places: int) -> float:
    """Returns `value`; 0 for a value that would be written as a negative zero."""
    return 0.0 if round(value, places) == 0 else value
