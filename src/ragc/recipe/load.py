"""Reads recipes: `load` turns a TOML file into a `Recipe`.

An invalid recipe raises one `RecipeError` that lists every problem with its key. Nothing here imports an LM
library, and nothing is sent.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Container, Mapping, Sequence
from pathlib import Path

from ragc.core.files import missing_file, read_bytes
from ragc.core.redact import MASK, secrets
from ragc.core.validation import Location, dotted
from ragc.errors import RecipeError, UsageError
from ragc.programs import Method
from ragc.recipe.base import Recipe
from ragc.recipe.models import Budget, Search
from ragc.recipe.validate import read, read_settings

_TOML_PLACE = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)$")
_UNQUOTED = re.compile(r"(?!(?:inf|nan)\b)[A-Za-z_./~][^,\]}#\"']*")


class RecipeProblems:
    """The problems of a recipe and their `keys`.

    `written` are the names at the top of its file, and `sets` the overrides by the keys that they write.
    """

    def __init__(self, written: Container[int | str], sets: Mapping[Location, str]) -> None:
        self._written, self._sets = written, sets
        self._texts: list[str] = []
        self._of_sets: list[str] = []
        self.keys: list[Location] = []

    def add(self, keys: Location, text: str, *, hidden: bool = False) -> None:
        """Adds a problem of `keys`, which the text names unless it does already.

        If an override wrote them, it is named in their place; with `hidden` its value is not repeated.
        """
        self.keys.append(keys)
        outside = (self._sets[keys[:end]] for end in range(len(keys), 0, -1) if keys[:end] in self._sets)
        inside = (expression for known, expression in self._sets.items() if known[: len(keys)] == keys)
        found = next(outside, "") or ("" if keys[0] in self._written else next(inside, ""))
        if found:
            self.add_set(_expression(found, hidden), text)
        elif dotted(keys) in text or f"[{dotted(keys[:-1])}]" in text:
            self._texts.append(text)
        else:
            self._texts.append(f"{dotted(keys)}: {text}")

    def add_set(self, expression: str, text: str) -> None:
        """Adds a problem of the override `--set expression`, with its password masked."""
        name, _, value = expression.partition("=")
        if secrets(value.strip().strip("\"'")):
            expression = f"{name}={MASK}"
        self._of_sets.append(f"--set {expression}: {text}")

    def inside(self, keys: Location) -> bool:
        """Returns whether there is a problem with `keys` or anything inside them."""
        return any(wrong[: len(keys)] == keys for wrong in self.keys)

    def texts(self) -> tuple[str, ...]:
        """Returns all problems, those of overrides last; equal ones once."""
        return tuple(dict.fromkeys([*self._texts, *self._of_sets]))


def _expression(expression: str, hidden: bool) -> str:
    return f"{expression.partition('=')[0]}=…" if hidden else expression


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
    text = read_text(path, "recipe")
    return parse(
        text,
        sets,
        where=str(path),
        base=path.parent if base is None else base,
        files=files,
        code=True,
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
    values, problems = read_tables(text, sets, where)
    recipe = read(values, base, problems, files=files, code=code, stored=stored)
    if texts := problems.texts():
        raise RecipeError(where, texts)
    return recipe


def parse_partly(text: str, *, where: str, base: Path) -> tuple[Recipe, tuple[str, ...]]:
    """Parses the recipe that ragc stored as `text` without its invalid parts; returns it and their problems.

    For showing it: a recipe with problems must not be run. Nothing is imported. Raises RecipeError if it is
    no TOML.
    """
    values, problems = read_tables(text, (), where)
    return read(values, base, problems, files=False, code=False, stored=True), tuple(problems.texts())


def read_text(path: Path, noun: str) -> str:
    """Returns the text of the TOML file `path`, which is a `noun` such as "recipe".

    Raises UsageError when it cannot be read, and RecipeError for another encoding than UTF-8.
    """
    try:
        return read_bytes(path).decode().removeprefix("\ufeff")  # editors on Windows put it there
    except FileNotFoundError:
        raise UsageError(missing_file(f"the {noun} {str(path)!r}", str(path), Path())) from None
    except IsADirectoryError:
        raise UsageError(f"The {noun} {str(path)!r} is a folder; name the TOML file.") from None
    except OSError as error:
        raise UsageError(f"The {noun} {str(path)!r} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise RecipeError(str(path), [f"line {line}: this is not UTF-8 text; save it as UTF-8"]) from None
    except ValueError as error:
        raise UsageError(f"The {noun} {str(path)!r} cannot be read: {error}.") from None


def read_tables(text: str, sets: Sequence[str], where: str) -> tuple[dict[str, object], RecipeProblems]:
    """Returns the tables of a TOML `text` with the overrides `sets`, and the collector of further problems.

    `where` names the text in errors. Raises RecipeError for a text that is not TOML, and UsageError for
    overrides that are no list.
    """
    if isinstance(sets, str | Mapping):  # whose characters or keys would be taken for overrides
        raise UsageError(
            "sets is a list of overrides, such as sets=['search.trials=5', 'seed=2'], found "
            f"{type(sets).__name__}."
        )
    try:
        values = _toml(text)
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(where, [_syntax_problem(str(error), text)]) from None
    overrides: dict[Location, str] = {}
    problems = RecipeProblems(frozenset(values), overrides)
    for expression in sets:
        if wrong := _override(values, expression, overrides):
            problems.add_set(expression, wrong)
    return values, problems


def settings(
    program: Method, search: Mapping[str, object], budget: Mapping[str, object], *, where: str
) -> tuple[Search, Budget]:
    """Builds the `[search]` and `[budget]` settings for `program` from plain values, without a recipe.

    Raises RecipeError with all problems; `where` names the values.
    """
    problems = RecipeProblems((), {})
    records = read_settings(program, search, budget, problems)
    if texts := problems.texts():
        raise RecipeError(where, texts)
    return records


def set_keys(sets: Sequence[str]) -> tuple[Location, ...]:
    """Returns the keys that the overrides `sets` write, in order."""
    return tuple(keys for expression in sets if (keys := _dotted(expression.partition("=")[0])))


def _toml(text: str) -> dict[str, object]:
    """Parses `text`. Raises TOMLDecodeError, also for a text that is nested too deeply."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise tomllib.TOMLDecodeError("It is nested too deep (at end of document)") from None
    except tomllib.TOMLDecodeError:
        raise
    except ValueError as error:  # an integer of thousands of digits
        raise tomllib.TOMLDecodeError(f"{error} (at end of document)") from None


def _syntax_problem(message: str, text: str) -> str:
    """Returns the TOML parser's message, with the line first."""
    match = _TOML_PLACE.search(message)
    line = int(match[1]) if match and match[1] else text.count("\n") + 1
    reason = message[: match.start()] if match else message
    advice = ""
    if match and match[2] and reason == "Invalid value":
        advice = _unquoted(text.split("\n")[line - 1], int(match[2]) - 1)
    return f"line {line}: this is not TOML: {advice or reason[:1].lower() + reason[1:]}"


def _unquoted(line: str, column: int) -> str:
    """Returns the problem when the value at `column` of `line` is a text without quotes; "" for anything
    else.
    """
    match = _UNQUOTED.match(line, column)
    if not match:
        return ""
    words = match[0].rstrip()
    if words.lower() in ("true", "false"):
        return f"{words} is written {words.lower()}"
    mark = "'" if "\\" in words else '"'
    rest = line[column + len(words) :].rstrip()
    return f"{words} is a text; put it in quotes: {line[:column].lstrip()}{mark}{words}{mark}{rest}"


def _override(values: dict[str, object], expression: str, overrides: dict[Location, str]) -> str:
    """Writes one `key.path=value` into `values` and its keys into `overrides`; returns the problem, or ""."""
    try:
        expression.encode("utf-8")
    except UnicodeEncodeError:
        return "this is not UTF-8 text"
    left, equals, right = expression.partition("=")
    keys = _dotted(left)
    if keys and not equals:
        return f"it has no value; write {left.strip()}=VALUE"
    if not keys:
        return "write it as key.path=value"
    table = values
    for end, name in enumerate(keys[:-1], 1):
        inner = table.setdefault(name, {})
        if not isinstance(inner, dict):
            return f"{'.'.join(keys[:end])} is not a table"
        table = inner
    table[keys[-1]] = _scalar(right.strip())
    for inside in [written for written in overrides if written[: len(keys)] == keys]:
        del overrides[inside]
    overrides[keys] = expression
    return ""


def _dotted(text: str) -> tuple[str, ...]:
    """Returns the names of a dotted key, or () for an invalid one."""
    keys: list[str] = []
    try:
        node: object = _toml(f"{text.strip()} = 0") if "\n" not in text else None
    except tomllib.TOMLDecodeError:
        return ()
    while isinstance(node, dict) and len(node) == 1:
        name, node = next(iter(node.items()))
        keys.append(name)
    return tuple(keys)


def _scalar(text: str) -> object:
    """Returns `text` as a TOML value, or as plain text if it is none."""
    try:
        table = _toml(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return table["value"] if len(table) == 1 else text
