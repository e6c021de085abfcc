"""Reads recipes: `load` turns a TOML file into a `Recipe`.

An invalid recipe raises one `RecipeError` that lists every problem with its key. Nothing here imports an LM
library, and nothing is sent.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragc.core.files import missing_file, read_bytes
from ragc.core.tables import Keys, Problem, dotted, read, repair
from ragc.errors import RecipeError, UsageError
from ragc.programs import Method
from ragc.recipe.models import Budget, Recipe, Search
from ragc.recipe.rules import Rules, resolved
from ragc.recipe.secrets import find_secrets
from ragc.recipe.values import CALLERS_METRIC

_MOST_KEYS = 99
_PLACE = re.compile(r"Invalid value \(at line (\d+), column (\d+)\)")
_UNQUOTED = re.compile(r"(?!(?:inf|nan)\b)[A-Za-z_./~][^,\]}#\"']*")


@dataclass(frozen=True, slots=True)
class Written:
    """The tables of a TOML text with overrides in them, the keys that these wrote, and what is wrong with
    others. `names` are those at the top of the text itself.
    """

    values: dict[str, Any]
    names: frozenset[str]
    sets: list[Keys] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def sentences(self, found: Sequence[Problem]) -> tuple[str, ...]:
        """Returns all problems as sentences, those `found` in the values among them; each names the override
        that wrote its key.
        """
        texts = []
        for one in found:
            whole = one.keys and one.keys[0] not in self.names  # a table that overrides wrote
            length = len(one.keys) if whole else None
            written = [keys for keys in self.sets if one.keys[: len(keys)] == keys[:length]]
            texts.append(f"--set {dotted(written[-1])}: {one}" if written else str(one))
        return tuple(dict.fromkeys([*texts, *self.problems]))


def load(
    path: str | Path,
    sets: Sequence[str] = (),
    *,
    base: Path | None = None,
    files: bool = True,
) -> Recipe:
    """Reads the recipe in the file at `path`, with the overrides `sets` (`key.path=value`) applied in order.

    Relative paths are relative to `base`, by default the recipe's folder. `files=False` skips the check that
    its files exist. Raises UsageError when `path` cannot be read and RecipeError with all problems of its
    content.
    """
    path = Path(path)
    folder = path.parent if base is None else base
    return parse(read_text(path, "recipe"), sets, where=str(path), base=folder, files=files, code=True)


def parse(
    text: str,
    sets: Sequence[str] = (),
    *,
    where: str = "recipe",
    base: Path = Path(),
    files: bool = True,
    code: bool = False,
    stored: bool = False,
) -> Recipe:
    """Parses the recipe in the TOML `text`; `where` names it in errors. Otherwise as `load`.

    Without `code` no module of the recipe's author is imported; a program of their own that was not imported
    before is only named. A recipe that ragc `stored` beside a program may lack what only Python had.
    """
    recipe, problems = _parsed(read_tables(text, sets, where), base, files=files, code=code, stored=stored)
    if problems:
        raise RecipeError(where, problems)
    return recipe


def parse_partly(text: str, *, where: str, base: Path) -> tuple[Recipe, tuple[str, ...]]:
    """Parses the recipe that ragc stored as `text` without its invalid parts; returns it and their problems.

    For showing it: a recipe with problems must not be run. Nothing is imported. Raises RecipeError if it is
    no TOML.
    """
    return _parsed(read_tables(text, (), where), base, files=False, code=False, stored=True)


def _parsed(
    written: Written, base: Path, *, files: bool, code: bool, stored: bool
) -> tuple[Recipe, tuple[str, ...]]:
    found = list(find_secrets(written.values))
    for problem in reversed(found):  # no later sentence repeats it
        repair(written.values, problem.keys)
    accepted = (CALLERS_METRIC,) if stored else ()
    recipe, found = read(Recipe, written.values, code=code, accepted=accepted, known=found)
    recipe, found = resolved(recipe.at(base), found, files=files, code=code, stored=stored)
    return recipe, written.sentences(found)


def settings(
    program: Method, search: Mapping[str, object], budget: Mapping[str, object], *, where: str
) -> tuple[Search, Budget]:
    """Builds the `[search]` and `[budget]` settings for `program` from plain values, without a recipe.

    Raises RecipeError with all problems; `where` names the values.
    """
    wanted, wrong_search = read(Search, search, ("search",))
    limits, wrong_budget = read(Budget, budget, ("budget",))
    rules = Rules((program,), (*wrong_search, *wrong_budget))
    chosen = rules.search(wanted, {}, ("em",))
    if rules.problems:
        raise RecipeError(where, tuple(dict.fromkeys(map(str, rules.problems))))
    return chosen, limits


def read_text(path: Path, noun: str) -> str:
    """Returns the text of the TOML file `path`, which is a `noun` such as "recipe".

    Raises UsageError when it cannot be read, and RecipeError for another encoding than UTF-8.
    """
    try:
        return read_bytes(path).decode().removeprefix("\ufeff")  # editors on Windows put it there
    except FileNotFoundError:
        raise UsageError(missing_file(f"the {noun} {str(path)!r}", str(path), Path())) from None
    except UnicodeDecodeError:
        raise RecipeError(str(path), ["this is not UTF-8 text; save it as UTF-8"]) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"The {noun} {str(path)!r} cannot be read: {reason}; name the TOML file.") from None


def read_tables(text: str, sets: Sequence[str], where: str) -> Written:
    """Returns the tables of a TOML `text` with the overrides `sets`.

    `where` names the text in errors. Raises RecipeError for a text that is not TOML, and UsageError for
    overrides that are no list.
    """
    if isinstance(sets, str | Mapping):  # whose characters or keys would be taken for overrides
        raise UsageError(
            "sets is a list of overrides, such as sets=['search.trials=5', 'seed=2'], found "
            f"{type(sets).__name__}."
        )
    try:
        values = tomllib.loads(text)
        repr(values)  # raises RecursionError where tables are nested too deep to be read
    except (ValueError, RecursionError) as error:
        raise RecipeError(where, [f"this is not TOML: {_unquoted(str(error), text) or error}"]) from None
    written = Written(values, frozenset(values))
    for expression in sets:
        if wrong := _override(written, expression):
            written.problems.append(f"--set {expression.partition('=')[0]}: {wrong}")
    return written


def set_keys(sets: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Returns the keys that the overrides `sets` write, in order."""
    return tuple(keys for expression in sets if (keys := _dotted(expression.partition("=")[0])))


def _unquoted(message: str, text: str) -> str:
    """Returns what to write where a value is a text without quotes; "" for any other message."""
    place = _PLACE.search(message)
    line = text.split("\n")[int(place[1]) - 1][int(place[2]) - 1 :] if place else ""
    words = found[0].rstrip() if (found := _UNQUOTED.match(line)) else ""
    if words.lower() in ("true", "false"):
        return f"{words} is written {words.lower()}"
    mark = "'" if "\\" in words else '"'
    return words and f"{words} is a text; put it in quotes: {mark}{words}{mark}"


def _override(written: Written, expression: str) -> str:
    """Writes one `key.path=value` into the values; returns the problem, or ""."""
    left, equals, right = expression.partition("=")
    keys = _dotted(left)
    if not (keys and equals and len(keys) < _MOST_KEYS) or right.encode(errors="ignore").decode() != right:
        return "write it as key.path=value, in UTF-8"
    table: Any = written.values
    for end, name in enumerate(keys[:-1], 1):
        table = table.setdefault(name, {})
        if not isinstance(table, dict):
            return f"{dotted(keys[:end])} is not a table"
    table[keys[-1]] = _scalar(right.strip())
    written.sets.append(keys)
    return ""


def _dotted(text: str) -> tuple[str, ...]:
    """Returns the names of a dotted key, or () for an invalid one."""
    keys: list[str] = []
    try:
        node: object = tomllib.loads(f"{text.strip()} = 0") if "\n" not in text else None
    except (ValueError, RecursionError):
        return ()
    while isinstance(node, dict) and len(node) == 1:
        ((name, node),) = node.items()
        keys.append(name)
    return tuple(keys)


def _scalar(text: str) -> object:
    """Returns `text` as a TOML value, or as plain text if it is none."""
    try:
        table = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return table["value"] if len(table) == 1 else text
