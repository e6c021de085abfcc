"""Tables that users write, as pydantic models: all problems at once, each a sentence with its key.

    class Settings(Table):
        trials: Positive = Field(default=30, description="Trials. From 1.")

    settings, problems = read(Settings, {"trails": 3})

Numbers are strict: `true` is no number, and `"3"` is none either.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
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

CODE, ACCEPTED = "code", "accepted"
"""Keys of the validation context: whether other packages may be imported, and names that are not checked."""

TAG = "\0"
"""How tags of unions begin, which are no part of the path to a value."""

_HUGE = 1e15
_MAX_SHOWN_CHARS = 200
_MOST_ROUNDS = 9
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


# pydantic raises OverflowError for a whole number that no float holds
_FLOAT = BeforeValidator(lambda value: math.inf if isinstance(value, int) and abs(value) > 1e301 else value)

Whole = Annotated[int, Field(strict=True, ge=0)]
Positive = Annotated[int, Field(strict=True, ge=1)]
Above = Annotated[float, Field(strict=True, gt=0, lt=_HUGE, allow_inf_nan=False), _FLOAT]
FromZero = Annotated[float, Field(strict=True, ge=0, lt=_HUGE, allow_inf_nan=False), _FLOAT]
Share = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False), _FLOAT]
Amount = Annotated[float, Field(strict=True, gt=0, lt=1e301, allow_inf_nan=False), _FLOAT]
Flag = Annotated[bool, Field(strict=True)]
Words = Annotated[str, Field(strict=True, pattern=re.compile(r"\S"))]


class Choice:
    """One of the texts `names`; the nearest one is said for another."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = [*names]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        return core_schema.literal_schema(self._names)


def _check_json(value: dict[str, Any]) -> dict[str, Any]:
    for key, inner in value.items():
        try:
            json.dumps(inner, allow_nan=False)
        except (TypeError, ValueError):
            message = "must be text, numbers, booleans, or lists and tables of them"
            raise_problems([problem((key,), message, inner)])
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

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="wrap")
    @classmethod
    def _detailed(cls, values: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Adds to each error what only its table knows: the names of its keys, and an example."""
        try:
            return handler(values)
        except ValidationError as error:
            raise_problems(map(cls.detail, error.errors(include_url=False)))
            raise

    @classmethod
    def detail(cls, found: ErrorDetails) -> InitErrorDetails:
        """Returns an error about a table, for `raise_problems`, with what only that knows."""
        field = cls.model_fields.get(str(found["loc"][-1])) if found["loc"] else None
        example = next(iter((field and field.examples) or ()), None)
        context = {"known": tuple(cls.model_fields), "example": example, **found.get("ctx", {})}
        name: Any = found["type"]
        kind = PydanticCustomError(name, "{msg}", {**context, "msg": found["msg"]})
        return InitErrorDetails(type=kind, loc=found["loc"], input=found["input"])

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

    @property
    def is_missing(self) -> bool:
        """Whether the key is required and not there."""
        return self.message.startswith("is missing")

    def __str__(self) -> str:
        key = dotted(self.keys)
        if self.message.startswith(("must ", "is missing", "lists ")):
            return f"{key} {self.message}"
        named = key in self.message and not self.message.startswith("unknown key")
        return self.message if named or not key else f"{key}: {self.message}"


def problem(keys: Keys, message: str, value: object = None, example: object = None) -> InitErrorDetails:
    """Returns a problem with the words `message`, for `raise_problems`."""
    error = PydanticCustomError("ragc", "{message}", {"message": message, "example": example})
    return InitErrorDetails(type=error, loc=keys, input=value)


def raise_problems(found: Iterable[InitErrorDetails]) -> None:
    """Raises one ValidationError with all problems `found`, if any; a validator may call it."""
    if details := list(found):
        raise ValidationError.from_exception_data("table", details)


def problems(error: ValidationError, table: Keys = ()) -> Iterator[Problem]:
    """Yields the problems in `error` about a `Table`, each as a sentence, with `table` before its keys."""
    for detail in error.errors(include_url=False):
        kind, value, context = detail["type"], detail["input"], detail.get("ctx", {})
        keys = (*table, *(key for key in detail["loc"] if not str(key).startswith(TAG)))
        example, known = context.get("example"), context.get("known", ())
        if kind == "missing":
            added = "" if example is None else f"; add, for example, {keys[-1]} = {json.dumps(example)}"
            message = f"is missing{added}"
        elif kind == "extra_forbidden":
            *tables, key = keys or ("",)
            where = f"in [{dotted(tuple(tables))}]" if tables else "at the top"
            message = f"unknown key {where}.{nearest(str(key), known)} Known: {', '.join(known)}"
        else:
            message = str(context.get("message") or context.get("error") or "")
            message = message or f"must be {_WORDS.get(kind, detail['msg']).format(**context)}"
            if message.startswith("must "):
                message += f", found {MASK if holds_key(value) else mask_keys(shown(value))}"
            if kind == "literal_error" and (
                near := nearest(str(value), re.findall("'([^']*)'", context["expected"]))
            ):
                message += f".{near}"
        yield Problem(keys, message, example)


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
    for _ in range(_MOST_ROUNDS):
        try:
            return model.model_validate(left, context={CODE: code, ACCEPTED: accepted}), found
        except ValidationError as error:
            fresh = list(problems(error, table))
        for one in fresh:
            keys = one.keys[len(table) :]
            if one.is_missing and one.example is None:
                keys = keys[:-1]
            repair(left, keys, one.example if one.is_missing else None)
        before = {one.keys for one in found}
        found += [one for one in fresh if one.keys not in before]
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


def shown(value: object) -> str:
    """Returns `value` as Python writes it, shortened."""
    try:
        text = repr(value)
    except ValueError:  # a whole number of thousands of digits has no text form
        return "a number of too many digits"
    return text if len(text) <= _MAX_SHOWN_CHARS else f"{text[:_MAX_SHOWN_CHARS]}…"
