"""Reads recipes: `load` turns a TOML file into a `Recipe`.

An invalid recipe raises one `RecipeError` that lists every problem with its key. Nothing here imports an LM
library, and nothing is sent.
"""

from __future__ import annotations

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


@dataclass(frozen=True, slots=True)
class Written:
    """The tables of a TOML text with overrides in them, and the keys that these wrote."""

    values: dict[str, Any]
    sets: list[Keys] = field(default_factory=list)

    def sentences(self, found: Sequence[Problem]) -> tuple[str, ...]:
        """Returns the problems `found` as sentences; each names the override that wrote its key."""
        texts = []
        for problem in found:
            written = [keys for keys in self.sets if problem.keys[: len(keys)] == keys]
            texts.append(f"--set {dotted(written[-1])}: {problem}" if written else str(problem))
        return tuple(dict.fromkeys(texts))


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
    return parse(
        read_text(path, "recipe"), sets, where=str(path), base=base or path.parent, files=files, code=True
    )


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
    try:
        recipe, problems = _parsed(
            read_tables(text, sets, where), base, files=files, code=code, stored=stored
        )
    except RecursionError:
        raise RecipeError(where, ["its tables are nested too deep; no key has more than six parts"]) from None
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
    recipe, found = read(
        Recipe,
        written.values,
        code=code,
        accepted=(CALLERS_METRIC,) if stored else (),  # a metric that only the caller's Python had
        known=found,
    )
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
        raise UsageError(
            f"The {noun} {str(path)!r} cannot be read: {getattr(error, 'strerror', None) or error}; name the "
            "TOML file."
        ) from None


def read_tables(text: str, sets: Sequence[str], where: str) -> Written:
    """Returns the tables of a TOML `text` with the overrides `sets`.

    `where` names the text in errors. Raises RecipeError for a text that is not TOML and for an override that
    is no `key.path=value`, and UsageError for overrides that are no list.
    """
    if isinstance(sets, str | Mapping):  # whose characters or keys would be taken for overrides
        raise UsageError(
            "sets is a list of overrides, such as sets=['search.trials=5', 'seed=2'], found "
            f"{type(sets).__name__}."
        )
    try:
        written = Written(tomllib.loads(text))
    except (ValueError, RecursionError) as error:
        problem = f"{error}; quote texts, write true and false in lower case, and each key once"
        raise RecipeError(where, [f"this is not TOML: {problem}"]) from None
    for expression in sets:
        written.sets.append(_override(written.values, expression, where))
    return written


def set_keys(sets: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Returns the keys that the overrides `sets` write, in order."""
    return tuple(keys for expression in sets if (keys := _dotted(expression.partition("=")[0])))


def _override(table: Any, expression: str, where: str) -> Keys:
    """Writes one `key.path=value` into the `table`: a TOML value, or else a text. Returns its keys."""
    left, equals, right = expression.partition("=")
    keys = _dotted(left)
    if not (keys and equals):
        raise RecipeError(where, [f"--set {left}: write it as key.path=value"])
    for end, name in enumerate(keys[:-1], 1):
        table = table.setdefault(name, {})
        if not isinstance(table, dict):
            raise RecipeError(where, [f"--set {left}: {dotted(keys[:end])} is not a table"])
    try:
        table[keys[-1]] = tomllib.loads(f"value = {right}")["value"]
    except (ValueError, RecursionError):
        table[keys[-1]] = right.strip()
    return keys


def _dotted(text: str) -> tuple[str, ...]:
    """Returns the names of a dotted key, or () for an invalid one."""
    keys: list[str] = []
    try:
        node: Any = tomllib.loads(f"{text.strip()} = 0")
    except (ValueError, RecursionError):
        return ()
    while node:
        ((name, node),) = node.items()
        keys.append(name)
    return tuple(keys)
