"""Tables that users write, as pydantic models: all problems at once, each a sentence with its key.

    class Settings(Table):
        trials: Positive = Field(default=30, description="Trials. From 1.")

    settings, problems = read(Settings, {"trails": 3})

Numbers are strict: `true` is no number, and `"3"` is none either.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import CoreSchema, ErrorDetails, InitErrorDetails, PydanticCustomError, core_schema

from ragc.core.redact import MASK, holds_key, mask_keys
from ragc.errors import UsageError, nearest

M = TypeVar("M", bound="Table")
Keys = tuple[str | int, ...]
"""The path to a value: names of tables and keys, and indexes from 0 inside lists."""

CODE, ACCEPTED, WORDED = "code", "accepted", "worded"
"""Keys of the validation context: whether other packages may be imported, and names that are not checked.
Then the type of an error that is in words."""

TAG = "\0"
"""How tags of unions begin, which are no part of the path to a value."""

_WORDS = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "a text",
    "string_pattern_mismatch": "a text that is not empty",
    "list_type": "a list",
    "tuple_type": "a list",
    "too_short": "a list that is not empty",
    "dict_type": "a table",
    "mapping_type": "a table",
    "model_type": "a table",
    "greater_than": "above {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "less_than": "below {lt:g}",
    "less_than_equal": "at most {le:g}",
    "finite_number": "a finite number",
    "literal_error": "{expected}",
}
"""What a value must be, by pydantic's type of error."""


Whole = Annotated[int, Field(strict=True, ge=0)]
Positive = Annotated[int, Field(strict=True, ge=1)]
Above = Annotated[float, Field(strict=True, gt=0)]
FromZero = Annotated[float, Field(strict=True, ge=0)]
Share = Annotated[float, Field(strict=True, ge=0, le=1)]
Flag = Annotated[bool, Field(strict=True)]
Words = Annotated[str, Field(strict=True, pattern=re.compile(r"\S"))]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the texts `names`; the nearest one is said for another."""

    names: Collection[str]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        return core_schema.literal_schema([*self.names])


def _check_json(value: dict[str, Any]) -> dict[str, Any]:
    for key, inner in value.items():
        try:
            json.dumps(inner, allow_nan=False)
        except (TypeError, ValueError):
            words = "must be text, numbers, booleans, or lists and tables of them"
            raise_problems([problem((key,), words, inner)])
    return value


Json = Annotated[dict[str, Any], AfterValidator(_check_json)]
"""A table of values that JSON can represent."""


def _check_once(names: tuple[str, ...]) -> tuple[str, ...]:
    if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise ValueError(f"lists {', '.join(map(repr, twice))} twice")
    return names


ONCE = AfterValidator(_check_once)
"""Refuses a list that has a text twice."""


def by(check: Callable[[str], object], added: Callable[[str], bool] = lambda name: False) -> AfterValidator:
    """Returns a validator of texts by `check`, which raises UsageError for a wrong one.

    `added` says of a text that another package adds it; it is not checked where no code may be imported.
    """

    def checked(name: str, info: ValidationInfo) -> str:
        context = info.context or {}
        try:
            if name not in context.get(ACCEPTED, ()) and (context.get(CODE) or not added(name)):
                check(name)
        except UsageError as error:
            raise ValueError(str(error).rstrip(".")) from None
        return name

    return AfterValidator(checked)


class Table(BaseModel):
    """A table of user input: unknown keys are refused, and instances are immutable."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="wrap")
    @classmethod
    def _worded(cls, values: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Puts each error into words, among them the names of the table's keys and an example."""
        try:
            return handler(values)
        except ValidationError as error:
            details = error.errors(include_url=False)
            # A default that follows from another key is no problem of its own where that key is wrong.
            raise_problems(
                cls.detail(part) for part in details if part["type"] != "default_factory_not_called"
            )
            raise

    @classmethod
    def detail(cls, found: ErrorDetails) -> InitErrorDetails:
        """Returns an error of a table as a problem, for `raise_problems`."""
        kind, value, context = found["type"], found["input"], found.get("ctx", {})
        key, example = str(found["loc"][-1] if found["loc"] else ""), context.get("example")
        if kind == "missing":
            example = next(iter(cls.model_fields[key].examples or ()), None)
            message = "is missing"
            if example is not None:
                message += f"; add, for example, {key} = {json.dumps(example)}"
        elif kind == "extra_forbidden":
            message = f"unknown key.{nearest(key, cls.model_fields)} Known: {', '.join(cls.model_fields)}"
        else:
            message = str(context.get("message") or context.get("error") or "")
            message = message or f"must be {_WORDS.get(kind, found['msg']).format(**context)}"
            if message.startswith("must ") and kind != WORDED:
                message += f", found {MASK if holds_key(value) else mask_keys(repr(value)[:200])}"
            if kind == "literal_error":
                near = nearest(str(value), re.findall("'([^']*)'", context["expected"]))
                message += f".{near}" if near else ""
        return problem(found["loc"], message, value, example, WORDED)

    @classmethod
    def of(cls, values: Mapping[str, object], where: str = "") -> Self:
        """Returns the table in `values`. Raises UsageError with all problems, with `where` in front."""
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            message = "; ".join(map(str, problems(error))).replace(" at the top", "")
            raise UsageError(f"{where}{message}{'' if message.endswith('?') else '.'}") from None

    @property
    def explicit(self) -> dict[str, Any]:
        """The values that were set, by key, without defaults."""
        return {key: value for key, value in self if key in self.model_fields_set}

    def replace(self, **values: object) -> Self:
        """Returns a copy with other `values`, which are not checked."""
        return self.model_copy(update=values)


class PlacedTable(Table):
    """A table with a folder, `base`, from which its relative paths lead and its modules are looked for."""

    _base: Path = PrivateAttr(default=Path())

    @property
    def base(self) -> Path:
        """The folder; the working directory unless `at` gave another."""
        return self._base

    def at(self, base: Path) -> Self:
        """Returns the table with the folder `base`."""
        moved = self.model_copy()
        moved._base = base
        return moved


class Problem(NamedTuple):
    """One problem: the keys that lead to it, and what is wrong there. A missing key may have an `example`."""

    keys: Keys
    message: str
    example: Any = None

    def __str__(self) -> str:
        key = dotted(self.keys)
        if self.message.startswith(("must ", "is missing", "lists ")):
            return f"{key} {self.message}"
        named = key in self.message and not self.message.startswith("unknown key")
        return self.message if named or not key else f"{key}: {self.message}"


def problem(
    keys: Keys, message: str, value: object = None, example: object = None, kind: Any = "ragc"
) -> InitErrorDetails:
    """Returns a problem with the words `message`, for `raise_problems`."""
    error = PydanticCustomError(kind, "{message}", {"message": message, "example": example})
    return InitErrorDetails(type=error, loc=keys, input=value)


def raise_problems(found: Iterable[InitErrorDetails]) -> None:
    """Raises one ValidationError with all problems `found`, if any; a validator may call it."""
    if details := list(found):
        raise ValidationError.from_exception_data("table", details)


def problems(error: ValidationError, table: Keys = ()) -> Iterator[Problem]:
    """Yields the problems in `error` about a `Table`, each as a sentence, with `table` before its keys."""
    for detail in error.errors(include_url=False):
        keys = (*table, *(key for key in detail["loc"] if not str(key).startswith(TAG)))
        where = f"in [{dotted(keys[:-1])}]" if keys[1:] else "at the top"
        message = detail["msg"].replace("unknown key.", f"unknown key {where}.", 1)
        yield Problem(keys, message, detail.get("ctx", {}).get("example"))


def read(
    model: type[M],
    values: Mapping[str, object],
    table: Keys = (),
    *,
    code: bool = False,
    accepted: Collection[str] = (),
    known: Sequence[Problem] = (),
) -> tuple[M, list[Problem]]:
    """Returns the `model` in `values` without their wrong parts, and all problems, those that are
    `known` first, whose keys begin with `table`.

    A required key takes its example where it is missing. `code` says whether other packages may be imported;
    `accepted` are names that `by` does not check. Raises UsageError where nothing that ragc knows fits in
    place of a wrong value, as may be so in the options of another package.
    """
    left, found = deepcopy(dict(values)), list(known)
    for _ in range(9):
        try:
            return model.model_validate(left, context={CODE: code, ACCEPTED: accepted}), found
        except ValidationError as error:
            wrong = list(problems(error, table))
        for part in wrong:
            keys, is_missing = part.keys[len(table) :], part.message.startswith("is missing")
            if is_missing and part.example is None:
                keys = keys[:-1]
            repair(left, keys, part.example if is_missing else None)
        found += [part for part in wrong if part.keys not in [before.keys for before in found]]
    raise UsageError("; ".join(map(str, found)))


def repair(values: dict[str, Any], keys: Sequence[Any], example: Any = None) -> None:
    """Puts the `example` at `keys`; without one, removes what is there, or the list or the value on the way
    there that is no table. Without keys everything is removed.
    """
    if not keys:
        values.clear()
        return
    key, *rest = keys
    inside = values.get(key) if example is None else values.setdefault(key, {})
    if rest and isinstance(inside, dict):
        repair(inside, rest, example)
    elif rest or example is None:
        values.pop(key, None)
    else:
        values[key] = deepcopy(example)


def dotted(keys: Sequence[int | str]) -> str:
    """Returns `keys` in the dotted form of `--set`."""
    return ".".join(map(str, keys))
