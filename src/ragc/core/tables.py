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
from typing import Annotated, Any, NamedTuple, Self, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
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


def _checked_float(value: object) -> object:
    return math.inf if isinstance(value, int) and abs(value) > 1e301 else value


_FLOAT = BeforeValidator(
    _checked_float
)  # pydantic raises OverflowError for a whole number that no float holds

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


def is_json(value: object) -> bool:
    """Returns whether JSON can represent `value`: no dates, no NaN, no infinity."""
    if isinstance(value, Mapping):
        return all(map(is_json, value.values()))
    if isinstance(value, list | tuple):
        return all(map(is_json, value))
    return isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value))


def _check_json(value: dict[str, Any]) -> dict[str, Any]:
    raise_problems(
        problem((key,), "must be text, numbers, booleans, or lists and tables of them", inner)
        for key, inner in value.items()
        if not is_json(inner)
    )
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

    @classmethod
    def of(cls, values: Mapping[str, object], where: str = "") -> Self:
        """Returns the table in `values`. Raises UsageError with all problems, with `where` in front."""
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            said = "; ".join(map(str, problems(error, cls))).replace(" at the top", "")
            raise UsageError(f"{where}{said}{'' if said.endswith('?') else '.'}") from None

    @property
    def explicit(self) -> dict[str, Any]:
        """The values that were set, by key, without defaults."""
        return {key: value for key, value in self if key in self.model_fields_set}

    def replace(self, **values: object) -> Self:
        """Returns a copy with other `values`, which are not checked."""
        return self.model_copy(update=values)


class Problem(NamedTuple):
    """One problem: the keys that lead to it, and what is wrong there. A missing key may have an `example`."""

    keys: Keys
    said: str
    example: Any = None

    @property
    def is_missing(self) -> bool:
        """Whether the key is required and not there."""
        return self.said.startswith("is missing")

    def __str__(self) -> str:
        key = dotted(self.keys)
        if self.said.startswith(("must ", "is missing", "lists ")):
            return f"{key} {self.said}"
        named = key in self.said and not self.said.startswith("unknown key")
        return self.said if named or not key else f"{key}: {self.said}"


def problem(keys: Keys, said: str, value: object = None, example: object = None) -> InitErrorDetails:
    """Returns a problem with the words `said`, for `raise_problems`."""
    error = PydanticCustomError("ragc", "{said}", {"said": said, "example": example})
    return InitErrorDetails(type=error, loc=keys, input=value)


def raise_problems(found: Iterable[InitErrorDetails]) -> None:
    """Raises one ValidationError with all problems `found`, if any; a validator may call it."""
    if details := list(found):
        raise ValidationError.from_exception_data("table", details)


def nested(error: ValidationError, model: type[BaseModel]) -> Iterator[InitErrorDetails]:
    """Yields the problems in `error` about a `model` that a validator chose, for `raise_problems`."""
    for detail in error.errors(include_url=False):
        context = _context(detail, model)
        kind = PydanticCustomError(detail["type"], "{msg}", {**context, "msg": detail["msg"]})
        yield InitErrorDetails(type=kind, loc=detail["loc"], input=detail["input"])


def _context(detail: ErrorDetails, model: type[BaseModel]) -> dict[str, Any]:
    """Returns what is known of one error: that of pydantic, the names of the table, and an example."""
    fields = getattr(_model_at(model, _path(detail["loc"])[:-1]), "model_fields", {})
    field = fields.get(str(detail["loc"][-1])) if detail["loc"] else None
    examples = (field.examples if field is not None else None) or [None]
    return {"known": tuple(fields), "example": examples[0], **detail.get("ctx", {})}


def _path(location: Keys) -> Keys:
    return tuple(key for key in location if not str(key).startswith(TAG))


def problems(error: ValidationError, model: type[BaseModel], table: Keys = ()) -> Iterator[Problem]:
    """Yields the problems in `error` about a `model` whose keys begin with `table`, each as a sentence."""
    for detail in error.errors(include_url=False):
        kind, value, keys = detail["type"], detail["input"], (*table, *_path(detail["loc"]))
        context = _context(detail, model)
        example, known = context["example"], context["known"]
        if kind == "missing":
            added = "" if example is None else f"; add, for example, {keys[-1]} = {json.dumps(example)}"
            yield Problem(keys, f"is missing{added}", example)
        elif kind == "extra_forbidden":
            where = f"in [{dotted(keys[:-1])}]" if len(keys) > 1 else "at the top"
            near = nearest(str(keys[-1]), known)
            yield Problem(keys, f"unknown key {where}.{near} Known: {', '.join(known)}")
        else:
            said = str(context.get("said") or context.get("error") or "")
            said = said or f"must be {_WORDS.get(kind, detail['msg']).format(**context)}"
            shown_value = MASK if holds_key(value) else mask_keys(shown(value))
            found = f", found {shown_value}" if said.startswith("must ") else ""
            near = nearest(str(value), re.findall("'([^']*)'", said)) if kind == "literal_error" else ""
            yield Problem(keys, f"{said}{found}{near and f'.{near}'}", example)


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
            fresh = list(problems(error, model, table))
        for cut in range(_MOST_ROUNDS):  # what holds the value, where it is not there as it is said
            changed = [_repair(left, one, one.keys[len(table) :], cut) for one in reversed(fresh)]
            if any(changed):
                break
        found += [one for one in fresh if not any(_follows(one, before) for before in found)]
    raise UsageError("; ".join(map(str, found)))


def _follows(one: Problem, before: Problem) -> bool:
    """Returns whether `one` only follows from the repair of the problem `before`."""
    emptied = one.is_missing or one.said.startswith(f"must be {_WORDS['too_short']}")
    return (before.keys[: len(one.keys)] if emptied else before.keys) == one.keys


def _repair(values: Any, wrong: Problem, keys: Keys, cut: int) -> bool:
    """Removes what is at `keys` without their last `cut`; gives a missing key its example. Returns whether
    anything changed.
    """
    if wrong.example is None or not wrong.is_missing:
        return remove(values, keys[: len(keys) - cut - wrong.is_missing])
    for key in keys[:-1]:
        values = values.setdefault(key, {}) if isinstance(values, dict) else values[key]
    values[keys[-1]] = deepcopy(wrong.example)
    return True


def remove(values: Any, keys: Keys) -> bool:
    """Removes what is at `keys` from tables and lists, or the value on the way there that is neither.

    Returns whether there was anything.
    """
    for at, key in enumerate(keys, 1):
        if not (key in values if isinstance(values, dict) else key in range(len(values))):
            return False
        if at == len(keys) or not isinstance(values[key], dict | list):
            del values[key]
            return True
        values = values[key]
    return False


def _model_at(model: Any, keys: Keys) -> Any:
    """Returns the model of the table at `keys` inside a `model`."""
    for key in keys:
        fields = getattr(model, "model_fields", {})
        model = next(_models(fields[str(key)].annotation if str(key) in fields else model), model)
    return model


def _models(annotation: Any) -> Iterator[Any]:
    """Yields the models in a type such as `dict[str, Annotated[Source, ...]] | None`."""
    if hasattr(annotation, "model_fields"):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)


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
