"""Replies of the API as short passages of markdown: one title, then lines `- name: value` or a table.

A value that is missing is "Unknown". Text is clipped where it is long, lists say how many more there were.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

UNKNOWN = "Unknown"

LONGEST_VALUE = 600
"""Characters of one value."""

MOST_ROWS = 20
"""Rows of a table."""

MOST_ITEMS = 30
"""Items of a list inside a line."""


def value(found: object) -> str:
    """A JSON value on one line: numbers with separators and at most 4 decimals, lists with commas."""
    if found is None or found == "" or found == [] or found == {}:
        return UNKNOWN
    if isinstance(found, bool):
        return "yes" if found else "no"
    if isinstance(found, int):
        return f"{found:,}"
    if isinstance(found, float):
        return f"{found:,.4f}".rstrip("0").rstrip(".") if found == found else UNKNOWN
    if isinstance(found, Mapping):
        return clipped("; ".join(f"{name}: {value(inner)}" for name, inner in found.items()))
    if isinstance(found, list | tuple):
        shown = ", ".join(value(item) for item in found[:MOST_ITEMS])
        more = len(found) - MOST_ITEMS
        return clipped(f"{shown} and {more} more" if more > 0 else shown)
    return clipped(" ".join(str(found).split()))


def clipped(text: str, most: int = LONGEST_VALUE) -> str:
    """`text`, or its first `most - 1` characters and an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def listed(values: Mapping[str, object]) -> str:
    """One line `- name: value` for each."""
    return "\n".join(f"- {name}: {value(found)}" for name, found in values.items())


def table(names: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A markdown table of the first MOST_ROWS rows, and how many more there were."""
    lines = [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
    lines += [f"| {' | '.join(value(cell).replace('|', '/') for cell in row)} |" for row in rows[:MOST_ROWS]]
    if len(rows) > MOST_ROWS:
        lines.append(f"\n{len(rows) - MOST_ROWS} more rows are left out.")
    return "\n".join(lines)


def awards(found: Iterable[object]) -> list[str]:
    """Oscar entries as "1999 Best Director: NAME, FILM, won", those that are no objects left out."""

    def year(entry: Mapping[str, Any]) -> object:
        return entry.get("year_ceremony") or UNKNOWN

    return [
        f"{year(entry)} {value(entry.get('category'))}: {value(entry.get('name'))}, "
        f"{value(entry.get('film'))}, {'won' if entry.get('winner') is True else 'nominated'}"
        for entry in found
        if isinstance(entry, Mapping)
    ]
