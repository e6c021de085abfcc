"""Tables that users write, as pydantic models: all problems at once, each a sentence that begins with its key.

    class Settings(Table):
        trials: Positive = Field(default=30, description="Trials. From 1.")

    settings, problems = read(Settings, {"trails": 3})

Numbers are strict: `true` is no number, and `"3"` is none either.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Annotated, Any, NamedTuple, Self, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema

from ragc.core.redact import mask_keys
from ragc.errors import UsageError, nearest

M = TypeVar("M", bound="Table")
Keys = tuple[str | int, ...]
"""The path to a value: names of tables and keys, and indexes from 0 inside lists."""

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


def by(check: Callable[[str], object]) -> AfterValidator:
    """Returns a validator of texts by `check`, which raises UsageError for a wrong one."""

    def checked(name: str) -> str:
        try:
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
            raise UsageError(f"{where}{'; '.join(map(str, problems(error, cls)))}.") from None

    @property
    def explicit(self) -> dict[str, Any]:
        """The values that were set, by key, without defaults."""
        return {key: value for key, value in self if key in self.model_fields_set}

    def replace(self, **values: object) -> Self:
        """Returns a copy with other `values`, which are not checked."""
        return self.model_copy(update=values)


class Problem(NamedTuple):
    """One problem: the keys that lead to it, and what is wrong there."""

    keys: Keys
    said: str

    def __str__(self) -> str:
        key = dotted(self.keys)
        if self.said.startswith(("must ", "is missing", "lists ")):
            return f"{key} {self.said}"
        named = not key or key in self.said or f"[{dotted(self.keys[:-1])}]" in self.said
        return self.said if named else f"{key}: {self.said}"


def problem(keys: Keys, said: str, value: object = None) -> InitErrorDetails:
    """Returns a problem with the words `said`, for `raise_problems`."""
    error = PydanticCustomError("ragc", "{said}", {"said": said})
    return InitErrorDetails(type=error, loc=keys, input=value)


def raise_problems(found: Iterator[InitErrorDetails]) -> None:
    """Raises one ValidationError with all problems `found`, if any; a validator may call it."""
    if details := list(found):
        raise ValidationError.from_exception_data("table", details)


def problems(error: ValidationError, model: type[BaseModel], table: Keys = ()) -> Iterator[Problem]:
    """Yields the problems in `error` about a `model` whose keys begin with `table`, each as a sentence."""
    for detail in error.errors(include_url=False):
        keys = tuple(key for key in detail["loc"] if not str(key).startswith(TAG))
        kind, value, context = detail["type"], detail["input"], detail.get("ctx", {})
        known = getattr(_model_at(model, keys[:-1]), "model_fields", {})
        if kind == "missing":
            examples = known[str(keys[-1])].examples
            said = f"is missing; add, for example, {keys[-1]} = {examples[0]!r}" if examples else "is missing"
        elif kind == "extra_forbidden":
            where = f"in [{dotted((*table, *keys[:-1]))}]" if len(table + keys) > 1 else "at the top"
            near = nearest(str(keys[-1]), known)
            said = f"unknown key {str(keys[-1])!r} {where}.{near} Known: {', '.join(known)}"
        elif kind == "ragc":
            said = str(context["said"])
        elif kind == "value_error":
            said = str(context["error"])
        else:
            said = f"must be {_WORDS.get(kind, detail['msg']).format(**context)}"
        if said.startswith("must "):
            near = nearest(str(value), re.findall("'([^']*)'", said)) if kind == "literal_error" else ""
            said = f"{said}, found {mask_keys(shown(value))}{near and f'.{near}'.rstrip('.')}"
        yield Problem((*table, *keys), said)


def read(
    model: type[M],
    values: Mapping[str, object],
    table: Keys = (),
    *,
    context: Mapping[str, Any] | None = None,
) -> tuple[M | None, list[Problem]]:
    """Returns the `model` in `values` without their wrong parts, and all problems, whose keys begin with
    `table`.

    A required key takes its first example where it is missing; None where it has none.
    """
    left, found = deepcopy(dict(values)), list[Problem]()
    for _ in range(_MOST_ROUNDS):
        try:
            return model.model_validate(left, context=context), found
        except ValidationError as error:
            fresh = list(problems(error, model, table))
        known = list(found)
        for one in reversed(fresh):
            _repair(model, left, one.keys[len(table) :], missing=one.said.startswith("is missing"))
        found += [one for one in fresh if not _follows(one, known)]
    return None, found


def _follows(one: Problem, known: Sequence[Problem]) -> bool:
    """Returns whether `one` only follows from a problem that was `known` and from the repair of it."""
    if one.said.startswith("is missing"):
        return any(before.keys[: len(one.keys)] == one.keys for before in known)
    return any(before.keys == one.keys for before in known)


def _repair(model: type[BaseModel], values: Any, keys: Keys, *, missing: bool) -> None:
    """Deletes what stands at `keys`, or what holds it; gives a `missing` key its first example."""
    if missing:
        field = getattr(_model_at(model, keys[:-1]), "model_fields", {}).get(keys[-1])
        examples = field.examples if field is not None else ()
        if not examples:
            keys = keys[:-1]
    for at, key in enumerate(keys):
        inner = values[key] if key in (values if isinstance(values, dict) else range(len(values))) else None
        if at == len(keys) - 1 or not isinstance(inner, dict | list):
            if missing and at == len(keys) - 1 and examples:
                values[key] = deepcopy(examples[0])
            elif inner is not None:
                del values[key]
            return
        values = inner


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
