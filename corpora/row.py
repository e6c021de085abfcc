"""One object of a file, and reading its fields."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ragc.errors import nearest

_KINDS = {
    str: "a string", bool: "true or false", int: "a number", float: "a number",
    list: "a list", dict: "an object", type(None): "null",
}  # fmt: skip


@dataclass(slots=True)
class Row:
    """One object of a file, where it stands ("line 3", "item 3"), and what is wrong with its fields."""

    place: str
    values: dict[str, Any]
    problems: list[str] = field(default_factory=list)

    def text(self, name: str, *, needed: bool = True, blank: bool = False, number: bool = False) -> str:
        """A string field; blank ones are refused unless `blank`, whole numbers unless `number`."""
        if self._absent(name, needed):
            return ""
        value = self.values[name]
        if number and type(value) is int:
            return str(value)
        if not isinstance(value, str):
            self.problems.append(f"`{name}` is {kind(value)}, a string is needed")
        elif not blank and not value.strip():
            self.problems.append(f"`{name}` is empty")
        else:
            return value
        return ""

    def texts(self, name: str, *, needed: bool = False, number: bool = False) -> tuple[str, ...]:
        """A list of strings that are not blank; at least one when `needed`."""
        value = self.items(name, needed=needed)
        for at, item in enumerate(value):
            if isinstance(item, str) and not item.strip():
                self.problems.append(f"`{name}[{at}]` is empty")
            elif not isinstance(item, str) and not (number and type(item) is int):
                self.problems.append(f"`{name}[{at}]` is {kind(item)}, a string is needed")
        return tuple(map(str, value))

    def items(self, name: str, *, needed: bool = False) -> list[Any]:
        """A list field; at least one item when `needed`."""
        if self._absent(name, needed):
            return []
        value = self.values[name]
        if not isinstance(value, list):
            self.problems.append(f"`{name}` is {kind(value)}, a list is needed")
            return []
        if needed and not value:
            self.problems.append(f"`{name}` is an empty list, at least one is needed")
        return value

    def _absent(self, name: str, needed: bool) -> bool:
        if name in self.values:
            return not needed and self.values[name] is None
        if needed:
            self.problems.append(f"`{name}` is missing.{nearest(name, self.values)}")
        return True


def kind(value: object) -> str:
    """What a JSON `value` is, in words."""
    return _KINDS.get(type(value), type(value).__name__)
