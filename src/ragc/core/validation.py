"""Pydantic models of what users write, and the errors of pydantic as sentences.

A field of a `Model` is annotated with one of the classes below (`Whole`, `Number`, `Switch`, `Text`, `Choice`,
`Names`, `JsonTable`). Each says in words what its value must be, gives its JSON Schema, and checks strictly:
`true` is no number and `"3"` no integer. `validate` reports all problems of a table at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, ClassVar, Self, TypeVar, Union, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError
from pydantic_core import CoreSchema, ErrorDetails, InitErrorDetails, PydanticCustomError, core_schema

from ragc.errors import UnknownName, UsageError, nearest

M = TypeVar("M", bound="Model")
Location = tuple[int | str, ...]
"""The way to a value: table and key names, and indexes from 0 inside arrays."""

_WANTED, _SENTENCE, _REMARK = "wanted", "sentence", "remark"
"""Types of our errors: what a value must be, a sentence of its own, and one after which the value stays."""

_LENIENT = {"remarks": False}
_HUGE = 1e15
_LONGEST_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: where it was written, and the error that says so.

    `named` tells whether the error names its keys; in a file the keys are put before one that does not.
    """

    keys: Location
    error: UsageError
    named: bool = True

    def __str__(self) -> str:
        return str(self.error) if self.named else f"{dotted(self.keys)}: {self.error}"


@dataclass(frozen=True, slots=True)
class Key:
    """A key as errors name it: from the top of the file, and from the table that has it."""

    whole: Location
    own: Location


class Model(BaseModel):
    """A table of what users write: unknown keys are refused, and nothing changes once it is read."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    names_keys: ClassVar[bool] = True
    """Whether the errors below name the whole key."""

    unknown_hint: ClassVar[str] = ""
    """Advice for an unknown key that is near to no other."""

    @classmethod
    def wrong_value(cls, key: Key, wanted: str, value: object) -> UsageError:
        """The error for a `value` that is not what is `wanted`."""
        return UsageError(f"{dotted(key.whole)} must be {wanted}, found {shown(value)}")

    @classmethod
    def missing_key(cls, key: Key) -> UsageError:
        """The error for a required key that is not there."""
        return UsageError(f"{dotted(key.whole)} is missing")

    @classmethod
    def unknown_key(cls, key: Key) -> UsageError:
        """The error for a key that the table does not have."""
        *table, name = key.whole
        where = f"in [{dotted(table)}]" if table else "at the top"
        names = list(cls.model_fields)
        advice = nearest(str(name), names) or cls.unknown_hint
        return UsageError(f"unknown key {name!r} {where}.{advice} Known: {', '.join(names)}.")


class Options(Model):
    """The table `options` of one kind of thing, which a recipe or a caller fills."""

    names_keys = False

    @classmethod
    def of(cls, values: Mapping[str, object]) -> Self:
        """The options in `values`. Raises UsageError with all that is wrong."""
        options, problems = validate(cls, values)
        if len(problems) == 1:
            raise problems[0].error
        if problems:
            raise UsageError(" ".join(f"{str(problem.error).rstrip('.')}." for problem in problems))
        return options


class _Checked:
    """Wraps pydantic's own check of a type: whatever fails there becomes one error in our words."""

    wanted: str

    def schema(self) -> CoreSchema:
        """Pydantic's schema of the type."""
        raise NotImplementedError

    def accept(self, value: object) -> object:
        """`value`, checked further; raises PydanticCustomError."""
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_wrap_validator_function(self._check, self.schema())

    def _check(self, value: object, inner: Callable[[object], object]) -> object:
        try:
            valid = inner(value)
        except (ValidationError, OverflowError):
            raise wrong(self.wanted) from None
        return self.accept(valid)


class Whole(_Checked):
    """An integer from `low` to `high`."""

    def __init__(self, low: int, high: int | None = None, *, wanted: str = "") -> None:
        self.low, self.high = low, high
        bounds = f"of at least {low}" if high is None else f"between {low} and {high}"
        self.wanted = wanted or f"an integer {bounds}"

    def schema(self) -> CoreSchema:
        return core_schema.int_schema(strict=True, ge=self.low, le=self.high)


class Number(_Checked):
    """A finite number: above `above`, from `low`, to `high`, below `below`."""

    def __init__(
        self,
        *,
        above: float | None = None,
        low: float | None = None,
        high: float | None = None,
        below: float | None = None,
        largest: float = _HUGE,
    ) -> None:
        self._limits = {"gt": above, "ge": low, "le": high, "lt": below}
        self._largest = largest
        bounds = f"above {above:g}" if above is not None else f"of at least {low:g}"
        bounds += "" if high is None else f" and at most {high:g}"
        self.wanted = f"a number {bounds}" + ("" if below is None else f" and below {below:g}")

    def schema(self) -> CoreSchema:
        limits = cast(Any, {name: limit for name, limit in self._limits.items() if limit is not None})
        return core_schema.float_schema(strict=True, allow_inf_nan=False, **limits)

    def accept(self, value: object) -> object:
        if isinstance(value, float) and abs(value) >= self._largest:
            raise wrong(f"{self.wanted} and below {self._largest:g}")
        return value


class Switch(_Checked):
    """True or false."""

    wanted = "true or false"

    def schema(self) -> CoreSchema:
        return core_schema.bool_schema(strict=True)


class Text(_Checked):
    """A text that is not empty, or any text with `empty`."""

    def __init__(self, *, empty: bool = False, wanted: str = "", pattern: str = "") -> None:
        self._empty, self._pattern = empty, pattern
        self.wanted = wanted or ("a text" if empty else "a text that is not empty")

    def schema(self) -> CoreSchema:
        pattern = self._pattern or (None if self._empty else r"\S")
        return core_schema.str_schema(strict=True, pattern=pattern, regex_engine="python-re")


class Choice(_Checked):
    """One of the ids `known` of a `kind` of thing; another is answered with the nearest."""

    wanted = "a text that is not empty"

    def __init__(self, kind: str, known: Collection[str]) -> None:
        self._kind, self._known = kind, tuple(known)

    def schema(self) -> CoreSchema:
        return core_schema.str_schema(strict=True, pattern=r"\S")

    def accept(self, value: object) -> object:
        if value not in self._known:
            raise sentence(UnknownName(self._kind, str(value), self._known))
        return value

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"type": "string", "enum": list(self._known)}


class Names:
    """A list of texts, none twice, and not without any unless it may be `empty`.

    `check` raises UsageError for an item that cannot be; the list is used as it is all the same, so that
    what refers to it can be checked. `items` is the JSON Schema of an item.
    """

    def __init__(
        self,
        wanted: str = "a list of texts",
        *,
        empty: bool = False,
        repeated: bool = False,
        blank: bool = True,
        check: Callable[[str], object] | None = None,
        items: Mapping[str, Any] | None = None,
        word: str = "",
    ) -> None:
        self._wanted, self._empty, self._repeated, self._word = wanted, empty, repeated, word
        self._check, self._blank = check, blank
        self._items = dict(items or {"type": "string"}) | ({} if blank else {"minLength": 1})

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_info_plain_validator_function(self._read)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        listed = {"type": "array", "items": self._items}
        listed |= {} if self._empty else {"minItems": 1}
        listed |= {} if self._repeated else {"uniqueItems": True}
        return {"anyOf": [{"const": self._word}, listed]} if self._word else listed

    def _read(self, value: object, info: core_schema.ValidationInfo) -> tuple[str, ...]:
        if self._word and value == self._word:
            return (self._word,)
        names = value if isinstance(value, list | tuple) else ()
        if not isinstance(value, list | tuple) or not (names or self._empty):
            raise wrong(self._wanted)
        if not all(isinstance(name, str) and (name or self._blank) for name in names):
            raise wrong(self._wanted)
        if info.context is not _LENIENT and (remarks := list(self._remarks(names))):
            raise ValidationError.from_exception_data("list", remarks)
        return tuple(names) if self._repeated else tuple(dict.fromkeys(names))

    def _remarks(self, names: Sequence[str]) -> Iterator[InitErrorDetails]:
        for index, name in enumerate(names):
            if not self._repeated and name in names[:index]:
                yield _remark(index, _Repeated(repr(name)))
            try:
                if self._check is not None:
                    self._check(name)
            except UsageError as error:
                yield _remark(index, error)


class _Repeated(UsageError):
    """An item that a list has twice; its message is the item."""


class JsonTable:
    """A table of any JSON values: no dates, no NaN, no infinity."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._read)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"type": "object"}

    def _read(self, value: object) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise wrong("a table")
        if bad := [name for name, inner in value.items() if not is_json(inner)]:
            words = "text, numbers, booleans, or lists and tables of them"
            raise ValidationError.from_exception_data(
                "table", [{"type": wrong(words), "loc": (name,), "input": value[name]} for name in bad]
            )
        return dict(value)


@dataclass(frozen=True, slots=True)
class Kinds:
    """Marks a union told apart by `kind`: what a kind is called, and the model of what all kinds share."""

    called: str
    shared: type[Model]


def wrong(wanted: str) -> PydanticCustomError:
    """The error for a value that must be what is `wanted`."""
    return PydanticCustomError(_WANTED, "{wanted}", {"wanted": wanted})


def sentence(error: UsageError) -> PydanticCustomError:
    """The error for a value that cannot be, for a reason that `error` gives."""
    return PydanticCustomError(_SENTENCE, "{error}", {"error": error})


def _remark(index: int, error: UsageError) -> InitErrorDetails:
    kind = PydanticCustomError(_REMARK, "{error}", {"error": error})
    return {"type": kind, "loc": (index,), "input": None}


def validate(model: type[M], values: Mapping[str, object], keys: Location = ()) -> tuple[M, list[Problem]]:
    """The table `values`, which stands at `keys`, and all its problems.

    A value that is wrong gives way to its default, or to the first example of a required one, so that what
    depends on other values can still be checked.
    """
    remaining, problems = deepcopy(dict(values)), list[Problem]()
    context: Mapping[str, object] | None = None
    while True:
        try:
            return model.model_validate(remaining, context=context), problems
        except ValidationError as error:
            details = error.errors(include_url=False)
        context = _LENIENT
        for detail in details:
            problems += _repair(model, remaining, detail, keys, {problem.keys for problem in problems})


def _repair(
    model: type[Model], values: dict[str, Any], detail: ErrorDetails, before: Location, seen: set[Location]
) -> list[Problem]:
    """Take what one error is about out of `values`; the problems to report."""
    at = _resolve(model, detail["loc"])
    keys, kind, context = (*before, *at.keys), detail["type"], detail.get("ctx", {})
    key, named = Key(keys, at.own), at.owner.names_keys
    if kind == _REMARK:
        error = context["error"]
        if isinstance(error, _Repeated):
            error = UsageError(f"{dotted(keys[:-1])} lists {error} twice")
        return [Problem(keys, error, named)]
    if kind == "missing":
        field = at.owner.model_fields[str(at.keys[-1])]
        _put(values, at.keys, deepcopy((field.examples or [{}])[0]))
        return [] if keys in seen else [Problem(keys, at.owner.missing_key(key), named)]
    value = _take(values, at.keys)
    if at.kinds is not None and kind.startswith("union_tag"):
        return _without_kind(at.kinds, at.members, value, keys)
    if kind == "extra_forbidden":
        return [Problem(keys, at.owner.unknown_key(key), named)]
    if kind == _SENTENCE:
        return [Problem(keys, context["error"], named)]
    wanted = str(context["wanted"]) if kind == _WANTED else "a table"
    return [Problem(keys, at.owner.wrong_value(key, wanted, detail["input"]), named)]


def _without_kind(kinds: Kinds, members: Sequence[str], table: Any, keys: Location) -> list[Problem]:
    """What is wrong with a table whose kind is missing or unknown, its other keys included."""
    key = Key((*keys, "kind"), ("kind",))
    if "kind" not in table:
        error = UsageError(f"{dotted(key.whole)} is missing. Known: {', '.join(members)}.")
    elif isinstance(table["kind"], str) and table["kind"].strip():
        error = UnknownName(kinds.called, table["kind"], members)
    else:
        error = kinds.shared.wrong_value(key, "a text that is not empty", table["kind"])
    others = {name: value for name, value in table.items() if name != "kind"}
    return [Problem(key.whole, error), *validate(kinds.shared, others, keys)[1]]


@dataclass(frozen=True, slots=True)
class _Resolved:
    """Where an error is: its keys without the tags of unions, and the model around it.

    `own` are the keys from that model on. `kinds` and `members` describe the union, where it is one.
    """

    keys: Location
    own: Location
    owner: type[Model]
    kinds: Kinds | None
    members: tuple[str, ...]


def _resolve(model: type[Model], loc: Location) -> _Resolved:
    """Follow the place `loc` of an error through the annotations of `model`."""
    keys, start, owner, at = list[int | str](), 0, model, cast(Any, model)
    for item in loc:
        if isinstance(at, type) and issubclass(at, Model):
            owner, start, field = at, len(keys), at.model_fields.get(str(item))
            keys.append(item)
            at = None if field is None else field.annotation
        elif members := _members(at):
            at = members.get(str(item))  # the tag of a union is no key
        else:
            keys.append(item)
            arguments = get_args(at)
            at = arguments[1] if len(arguments) == 2 and get_origin(at) is not Annotated else None
    if isinstance(at, type) and issubclass(at, Options):  # an error of the table as a whole
        owner, start = at, len(keys)
    kinds = next((mark for mark in get_args(at)[1:] if isinstance(mark, Kinds)), None)
    return _Resolved(tuple(keys), tuple(keys[start:]), owner, kinds, tuple(_members(at)))


def _members(annotation: Any) -> dict[str, type[Model]]:
    """The models of a union told apart by `kind`, by kind; empty for anything else."""
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) not in (Union, UnionType):
        return {}
    models = [one for one in get_args(annotation) if isinstance(one, type) and issubclass(one, Model)]
    return {get_args(one.model_fields["kind"].annotation)[0]: one for one in models}


def _take(values: Any, keys: Location) -> Any:
    """Take the value at `keys` out of `values`, or all of it where there are none."""
    if not keys:
        return values.clear()
    for key in keys[:-1]:
        values = values[key]
    return values.pop(keys[-1], None) if isinstance(values, dict) else None


def _put(values: Any, keys: Location, value: object) -> None:
    for key in keys[:-1]:
        values = values[key]
    values[keys[-1]] = value


def is_json(value: object) -> bool:
    """Whether `value` can stand in JSON: no dates, no NaN, no infinity."""
    if isinstance(value, Mapping):
        return all(is_json(inner) for inner in value.values())
    if isinstance(value, list | tuple):
        return all(is_json(inner) for inner in value)
    return isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value))


def dotted(keys: Sequence[int | str]) -> str:
    """`keys` as `--set` writes them."""
    return ".".join(map(str, keys))


def shown(value: object) -> str:
    """`value` as Python writes it, cut where it is long."""
    try:
        text = repr(value)
    except ValueError:  # an integer of thousands of digits
        return "a number of too many digits"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
