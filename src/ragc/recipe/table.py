"""Reading one table of a recipe: typed values out, problems noted with their place.

A reader never raises over what the user wrote: it notes the problem, gives the default and goes on,
so that everything wrong with a recipe is reported at once.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import TypeVar

from ragc.core.redact import MASK, secrets
from ragc.errors import UnknownName, nearest
from ragc.recipe.lines import Keys

D = TypeVar("D")


class Notes:
    """The problems found so far. `lines` and `sets` say where each key was written."""

    def __init__(self, lines: Mapping[Keys, int], sets: Mapping[Keys, str]) -> None:
        self._lines, self._sets = lines, sets
        self._found: list[tuple[float, str]] = []

    def add(self, keys: Keys, problem: str, *, hidden: bool = False) -> None:
        """Note `problem` where `keys` were written, or what is around them, or else what is inside.

        With `hidden` the value of an override is not repeated.
        """
        for end in range(len(keys), 0, -1):
            if keys[:end] in self._sets:
                return self.add_set(_shown(self._sets[keys[:end]], hidden), problem)
            if line := self._lines.get(keys[:end]):
                return self._found.append((line, f"line {line}: {problem}"))
        inside = (text for place, text in self._sets.items() if place[: len(keys)] == keys)
        if expression := next(inside, ""):
            return self.add_set(_shown(expression, hidden), problem)
        return self._found.append((0, problem))

    def add_set(self, expression: str, problem: str) -> None:
        """Note `problem` with the override `--set expression`, without a password in it."""
        name, _, value = expression.partition("=")
        if secrets(value.strip().strip("\"'")):
            expression = f"{name}={MASK}"
        self._found.append((math.inf, f"--set {expression}: {problem}"))

    def listed(self) -> tuple[str, ...]:
        """All problems in the order of their lines, those of overrides last."""
        return tuple(text for _, text in sorted(self._found, key=lambda found: found[0]))


def _shown(expression: str, hidden: bool) -> str:
    return f"{expression.partition('=')[0]}=…" if hidden else expression


class Table:
    """One table; each reading method names a key that may stand in it."""

    def __init__(self, notes: Notes, values: Mapping[str, object], keys: Keys = ()) -> None:
        self.notes, self.values, self.keys = notes, values, keys
        self._asked: list[str] = []

    def note(self, key: str, problem: str, *inside: str | int) -> None:
        """Note `problem` at `key`, or at what stands `inside` it."""
        self.notes.add((*self.keys, key, *inside), problem)

    def name(self, key: str) -> str:
        """`key` with the tables around it, as `--set` writes it."""
        return ".".join(map(str, (*self.keys, key)))

    def wrong(self, key: str, wanted: str, *inside: str | int) -> None:
        """Note that the value of `key` is not what was `wanted`."""
        self.note(key, f"{self.name(key)} must be {wanted}, found {self.values[key]!r}", *inside)

    def get(self, key: str) -> object:
        """The raw value, or None when absent (TOML has no null)."""
        if key not in self._asked:
            self._asked.append(key)
        return self.values.get(key)

    def integer(
        self, key: str, default: D, *, low: int, high: int | None = None, wanted: str = ""
    ) -> int | D:
        """An integer in [low, high]."""
        value = self.get(key)
        if value is None:
            return default
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= (high or value):
            return value
        bounds = f"of at least {low}" if high is None else f"between {low} and {high}"
        self.wrong(key, wanted or f"an integer {bounds}")
        return default

    def amount(self, key: str) -> float | None:
        """A finite number above 0, or None when absent."""
        value = self.get(key)
        if value is None:
            return None
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1e300:
            return float(value)
        self.wrong(key, "a number above 0")
        return None

    def switch(self, key: str, default: bool = False) -> bool:
        """True or false, or `default` when absent."""
        value = self.get(key)
        if value is None or isinstance(value, bool):
            return default if value is None else value
        self.wrong(key, "true or false")
        return default

    def text(self, key: str, default: str = "") -> str:
        """A text that is not empty, or `default` when absent."""
        value = self.get(key)
        if value is None:
            return default
        if isinstance(value, str) and value.strip():
            return value
        self.wrong(key, "a text that is not empty")
        return default

    def texts(
        self, key: str, default: tuple[str, ...], *, wanted: str = "a list of texts", empty: bool = False
    ) -> tuple[str, ...]:
        """A list of texts, none of them twice, and not without any unless it may be `empty`."""
        value = self.get(key)
        if value is None:
            return default
        if not isinstance(value, list) or not (value or empty) or not all(isinstance(v, str) for v in value):
            self.wrong(key, wanted)
            return default
        for index, item in enumerate(value):
            if item in value[:index]:
                self.note(key, f"{self.name(key)} lists {item!r} twice", index)
        return tuple(dict.fromkeys(value))

    def one_of(self, key: str, known: Collection[str], kind: str, default: str = "") -> str:
        """One of the `known` ids of a `kind`, or `default` when absent or wrong."""
        value = self.text(key, default)
        if value == default or value in known:
            return value
        self.note(key, str(UnknownName(kind, value, known)))
        return default

    def path(self, key: str, base: Path | None, default: str = "") -> str:
        """A path as written; one that leads to nothing is noted unless `base` is None."""
        value = self.text(key, default)
        if value and base is not None and not os.path.exists(base / value):  # noqa: PTH110 - Path.exists raises for a name that is too long
            self.note(key, missing_file(f"{self.name(key)} = {value!r}", value, base))
        return value

    def table(self, key: str) -> Table:
        """The table called `key`; an empty one when absent."""
        value = self.get(key)
        if value is not None and not isinstance(value, dict):
            self.wrong(key, "a table")
        return Table(self.notes, value if isinstance(value, dict) else {}, (*self.keys, key))

    def tables(self) -> Iterator[tuple[str, Table]]:
        """Every key with its table, in the order they are written."""
        for key in self.values:
            yield key, self.table(key)

    def options(self, key: str) -> dict[str, object]:
        """A table of any JSON values, as it is."""
        table = self.table(key)
        for name, value in table.values.items():
            if not is_json(value):
                table.wrong(name, "text, numbers, booleans, or lists and tables of them")
        return {name: value for name, value in table.values.items() if is_json(value)}

    def close(self, hint: str = "") -> None:
        """Note every key that no reading method has named; `hint` is added where no name is near."""
        where = f"in [{'.'.join(map(str, self.keys))}]" if self.keys else "at the top"
        for key in self.values:
            if key not in self._asked:
                advice = nearest(key, self._asked) or (hint and f" {hint}")
                self.note(key, f"unknown key {key!r} {where}.{advice} Known: {', '.join(self._asked)}.")


def is_json(value: object) -> bool:
    """Whether `value` can stand in JSON: no dates, no NaN, no infinity."""
    if isinstance(value, dict):
        return all(is_json(inner) for inner in value.values())
    if isinstance(value, list):
        return all(is_json(inner) for inner in value)
    return isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value))


def missing_file(what: str, value: str, base: Path) -> str:
    """That `what`, the path `value` from `base`, is not there, and the nearest name in its folder."""
    folder, shown = (base / value).parent, Path(value).parent
    if not os.path.isdir(folder):  # noqa: PTH112 - Path.is_dir raises for a name that is too long
        lost = folder if str(shown) == "." else shown
        return f"{what}: there is no such file, and no folder {str(lost)!r}"
    names: list[str] = []
    with suppress(OSError):
        names = sorted(entry.name for entry in folder.iterdir())
    near = get_close_matches(Path(value).name, names, n=1)
    return f"{what}: there is no such file" + (f". Did you mean {str(shown / near[0])!r}?" if near else "")
