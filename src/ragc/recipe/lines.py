"""Finds the lines of a recipe's tables, keys and array items; the standard library's parser tells none.

The scanner reads a text that the parser has already accepted. It validates nothing.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right

from ragc.core.validation import Location

_BLANK = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(
    r"""\"{3}(?:\\.|[^\\])*?\"{3,5}|'{3}.*?'{3,5}|"(?:\\.|[^"\\])*"|'[^']*'""",
    re.DOTALL,
)
_PLAIN = re.compile(r"[^,\]}#\n]*")


def locate(text: str) -> dict[Location, int]:
    """Returns the line, counted from 1, of every table, key and array item of the valid TOML `text`."""
    return _Scanner(text).scan()


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self.lines: dict[Location, int] = {}
        self.arrays: dict[Location, int] = {}

    def scan(self) -> dict[Location, int]:
        table: Location = ()
        while self.skip(_BLANK) < len(self.text):
            if self.text.startswith("[[", self.at):
                table = self.header(2)
            elif self.text[self.at] == "[":
                table = self.header(1)
            else:
                self.pair(table)
        return self.lines

    def skip(self, pattern: re.Pattern[str]) -> int:
        """Moves past `pattern`, which may be empty; returns the new position."""
        match = pattern.match(self.text, self.at)
        self.at = match.end() if match else self.at
        return self.at

    def note(self, keys: Location, start: int) -> None:
        """Records the line of `keys` and of the enclosing tables, at their first occurrence."""
        line = bisect_right(self.starts, start)
        for end in range(1, len(keys) + 1):
            self.lines.setdefault(keys[:end], line)

    def header(self, brackets: int) -> Location:
        """Reads `[a.b]` or `[[a.b]]`; returns the table of the following pairs."""
        start = self.at
        self.at += brackets
        names = self.keys()
        self.at += brackets
        table: Location = ()
        for name in names[:-1]:
            table = self.last_item((*table, name))
        table = (*table, names[-1])
        if brackets == 2:
            self.arrays[table] = self.arrays.get(table, -1) + 1
        table = self.last_item(table)
        self.note(table, start)
        return table

    def last_item(self, table: Location) -> Location:
        """Returns `table`, or its newest item when it is an array of tables."""
        return (*table, self.arrays[table]) if table in self.arrays else table

    def keys(self) -> tuple[str, ...]:
        """Reads a dotted key and stops after it and its spaces."""
        names: list[str] = []
        while True:
            start = self.skip(_SPACE)
            if self.text[start] in "\"'":
                raw = self.text[start : self.skip(_STRING)]
                names.append(str(tomllib.loads(f"key = {raw}")["key"]))
            else:
                names.append(self.text[start : self.skip(_BARE_KEY)])
            self.skip(_SPACE)
            if self.text[self.at : self.at + 1] != ".":
                return tuple(names)
            self.at += 1

    def pair(self, table: Location) -> None:
        """Reads `key = value` inside `table`."""
        start = self.at
        keys: Location = (*table, *self.keys())
        self.note(keys, start)
        self.at += 1
        self.skip(_SPACE)
        self.value(keys)

    def value(self, keys: Location) -> None:
        """Reads one value, recording the items inside it."""
        opening = self.text[self.at]
        if opening in "\"'":
            self.skip(_STRING)
        elif opening in "[{":
            self.at += 1
            self.items(keys, "]" if opening == "[" else "}")
        else:
            self.skip(_PLAIN)

    def items(self, keys: Location, closing: str) -> None:
        """Reads the items of an array or the pairs of an inline table, including `closing`."""
        count = 0
        while self.text[self.skip(_BLANK)] != closing:
            if self.text[self.at] == ",":
                self.at += 1
            elif closing == "}":
                self.pair(keys)
            else:
                self.note((*keys, count), self.at)
                self.value((*keys, count))
                count += 1
        self.at += 1
