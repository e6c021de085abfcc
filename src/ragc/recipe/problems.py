"""Collects the problems of a recipe, each with its line or its override."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ragc.core.redact import MASK, secrets
from ragc.core.validation import Location
from ragc.recipe.lines import locate


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
