"""One row of a file, and checked access to its fields."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ragc.errors import nearest

MOST_PROBLEMS = 20
"""The number of problems of one row after which the items of its lists are not looked at."""

_KINDS = {
    str: "a string", bool: "true or false", int: "a number", float: "a number",
    list: "a list", dict: "an object", type(None): "null",
}  # fmt: skip


@dataclass(slots=True)
class FileRow:
    """One row of a file, its location ("line 3", "item 3"), and the problems of its fields.

    `cells` says that all values are the texts of a CSV or TSV file.
    """

    location: str
    values: dict[str, Any]
    problems: list[str] = field(default_factory=list)
    cells: bool = False

    def text(self, name: str, *, needed: bool = True, blank: bool = False, number: bool = False) -> str:
        """Returns a string field; blank strings are refused unless `blank`, integers unless `number`."""
        value = self.values.get(name)
        if value is None and (not needed or self._lacks(name)):
            return ""
        if number and type(value) is int:
            return str(value)
        if not isinstance(value, str):
            self.problems.append(f"`{name}` is {kind(value)}, a string is needed")
        elif not blank and not value.strip():
            self.problems.append(f"`{name}` is empty")
        else:
            return value
        return ""

    def items(self, name: str, *, needed: bool = False) -> list[Any]:
        """Returns a list field; at least one item if `needed`."""
        value = self.values.get(name)
        if value is None and (not needed or self._lacks(name)):
            return []
        if not isinstance(value, list):
            self.problems.append(f"`{name}` is {kind(value)}, a list is needed")
            return []
        if needed and not value:
            self.problems.append(f"`{name}` is an empty list, at least one is needed")
        return value

    def enumerate_items(self, items: list[Any]) -> Iterator[tuple[int, Any]]:
        """Yields `items` with their numbers from 0; ends early after `MOST_PROBLEMS` problems."""
        for number, item in enumerate(items):
            if len(self.problems) >= MOST_PROBLEMS:
                return
            yield number, item

    def located(self) -> list[str]:
        """Returns the problems, each with the location of the row."""
        return [f"{self.location}: {problem}" if self.location else problem for problem in self.problems]

    def _lacks(self, name: str) -> bool:
        if name not in self.values:
            self.problems.append(f"`{name}` is missing.{nearest(name, list(self.values)[:1000])}")
        return name not in self.values


def kind(value: object) -> str:
    """Returns the type of a JSON `value`, in words."""
    return _KINDS.get(type(value), type(value).__name__)


def short_repr(value: object) -> str:
    """Returns the `repr` of a value for a message, truncated."""
    text = repr(value[:80] if isinstance(value, str) else value)
    return text if len(text) <= 80 else f"{text[:80]}..."
