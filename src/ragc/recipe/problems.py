"""Collects the problems of a recipe, each with its line or its override.

The standard library's parser reports no lines. A scanner reads a text that the parser has already accepted
and records the line of every table, key and array item. It validates nothing.
"""

from __future__ import annotations

import math
import re
import tomllib
from bisect import bisect_right
from collections.abc import Mapping

from ragc.core.redact import MASK, secrets
from ragc.core.validation import Location

_BLANK = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(
    r"""\"{3}(?:\\.|[^\\])*?\"{3,5}|'{3}.*?'{3,5}|"(?:\\.|[^"\\])*"|'[^']*'""",
    re.DOTALL,
)
_PLAIN = re.compile(r"[^,\]}#\n]*")


class RecipeProblems:
    """The problems of a recipe and their `keys`; its TOML `text` and the overrides `sets` locate a key."""

    def __init__(self, text: str, sets: Mapping[Location, str]) -> None:
        self._text, self._sets = text, sets
        self._lines: Mapping[Location, int] | None = None
        self._texts: list[tuple[float, str]] = []
        self.keys: list[Location] = []

    def add(self, keys: Location, text: str, *, hidden: bool = False) -> None:
        """Adds a problem of `keys`, with the line of the keys, of their table, or of their content.

        With `hidden` the value of an override is not repeated.
        """
        self.keys.append(keys)
        for end in range(len(keys), 0, -1):
            if keys[:end] in self._sets:
                return self.add_set(_expression(self._sets[keys[:end]], hidden), text)
            if line := self._line(keys[:end]):
                return self._texts.append((line, f"line {line}: {text}"))
        inside = (text for written, text in self._sets.items() if written[: len(keys)] == keys)
        if expression := next(inside, ""):
            return self.add_set(_expression(expression, hidden), text)
        return self._texts.append((0, text))

    def _line(self, keys: Location) -> int | None:
        """Returns the line of `keys` in the text, unless an override replaced their value."""
        if self._lines is None:
            self._lines = locate(self._text)
        replaced = any(keys[:end] in self._sets for end in range(1, len(keys) + 1))
        return None if replaced else self._lines.get(keys)

    def add_set(self, expression: str, text: str) -> None:
        """Adds a problem of the override `--set expression`, with its password masked."""
        name, _, value = expression.partition("=")
        if secrets(value.strip().strip("\"'")):
            expression = f"{name}={MASK}"
        self._texts.append((math.inf, f"--set {expression}: {text}"))

    def inside(self, keys: Location) -> bool:
        """Returns whether there is a problem with `keys` or anything inside them."""
        return any(wrong[: len(keys)] == keys for wrong in self.keys)

    def texts(self) -> tuple[str, ...]:
        """Returns all problems in the order of their lines, those of overrides last; equal ones once."""
        ordered = sorted(self._texts, key=lambda problem: problem[0])
        return tuple(dict.fromkeys(text for _, text in ordered))


def _expression(expression: str, hidden: bool) -> str:
    return f"{expression.partition('=')[0]}=…" if hidden else expression


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
