"""Models of user input: all problems of a table are reported at once, each as a sentence with its key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar, cast, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationError,
    create_model,
)
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError, core_schema

from ragc.core.kinds import Registry
from ragc.core.validation.fields import (
    CODE,
    EXPECTED,
    REMARK,
    REMARKS,
    SENTENCE,
    Repeated,
    sentence,
    wrong,
)
from ragc.errors import UnknownName, UsageError, nearest

M = TypeVar("M", bound="Model")
Location = tuple[int | str, ...]
"""The path to a value: table and key names, and indexes from 0 inside arrays."""


UNKNOWN_KIND = "unknown_kind"
"""Our type of error for a table without a known kind."""

_MAX_SHOWN_CHARS = 200
_MAX_REPAIRS = 4
"""How often the value at one place is replaced before its problem is raised."""

_VALUES: Mapping[Any, Any] = {str: "text", int: 1, float: 1.0, bool: False}
"""What stands in place of a missing required value without an example, by its type."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem: the location of the value, and the error.

    `named` says whether the error text already names its keys; otherwise they are prepended for a file.
    """

    keys: Location
    error: UsageError
    named: bool = True

    def __str__(self) -> str:
        return str(self.error) if self.named else f"{dotted(self.keys)}: {self.error}"


@dataclass(frozen=True, slots=True)
class Key:
    """A key as errors name it: relative to the file, and relative to its table."""

    whole: Location
    own: Location


class Model(BaseModel):
    """A table of user input: unknown keys are refused, and instances are immutable."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    names_keys: ClassVar[bool] = True
    """Whether the errors below name the full key."""

    unknown_hint: ClassVar[str] = ""
    """Advice for an unknown key without a near match."""

    order: ClassVar[tuple[str, ...]] = ()
    """The keys of `explicit`, where they are not all fields as they stand."""

    first: ClassVar[str] = ""
    """The key that errors name first, where it is not the first field."""

    @property
    def explicit(self) -> dict[str, Any]:
        """The values that were set, by key, without defaults."""
        keys = self.order or type(self).model_fields
        return {key: getattr(self, key) for key in keys if key in self.model_fields_set}

    def replace(self, **values: object) -> Self:
        """Returns a copy with other `values`, which are not checked."""
        return self.model_copy(update=values)

    @classmethod
    def wrong_value(cls, key: Key, expected: str, value: object) -> UsageError:
        """Returns the error for a `value` that is not `expected`."""
        return UsageError(f"{dotted(key.whole)} must be {expected}, found {shown(value)}")

    @classmethod
    def missing_key(cls, key: Key) -> UsageError:
        """Returns the error for a missing required key."""
        return UsageError(f"{dotted(key.whole)} is missing")

    @classmethod
    def unknown_key(cls, key: Key) -> UsageError:
        """Returns the error for an unknown key."""
        *table, name = key.whole
        where = f"in [{dotted(table)}]" if table else "at the top"
        names = sorted(cls.model_fields, key=lambda name: name != cls.first)
        advice = nearest(str(name), names) or cls.unknown_hint
        return UsageError(f"unknown key {name!r} {where}.{advice} Known: {', '.join(names)}.")


class Options(Model):
    """The `options` table of one kind of target, source or the like, from a recipe or a caller."""

    names_keys = False

    @classmethod
    def missing_key(cls, key: Key) -> UsageError:
        """Returns the error for a missing required key; it names the key within the table."""
        return UsageError(f"The option {dotted(key.own)!r} is missing; set it.")

    @classmethod
    def wrong_value(cls, key: Key, expected: str, value: object) -> UsageError:
        """Returns the error for a `value` that is not `expected`; it names the key within the table."""
        return UsageError(f"{dotted(key.own)} must be {expected}, found {shown(value)}")

    @classmethod
    def of(cls, values: Mapping[str, object]) -> Self:
        """Returns the options in `values`. Raises UsageError with all problems."""
        options, problems = validate(cls, values)
        if len(problems) == 1:
            raise problems[0].error
        if problems:
            raise UsageError(" ".join(f"{str(problem.error).rstrip('.')}." for problem in problems))
        return options


class Kinds:
    """Marks a table whose `kind` says which model it is of.

    `registry` has the records of the kinds, whose `options` are the model of the key `options`; `shared` has
    the keys of every kind. A table whose kind is of another package, where its code is not allowed, is of the
    model `shared`.
    """

    def __init__(self, registry: Registry[Any], shared: type[Model]) -> None:
        self.registry, self.shared = registry, shared
        self._models: dict[str, type[Model]] = {}

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_info_plain_validator_function(self._read)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        models = {name: self.model_of({"kind": name}).__pydantic_core_schema__ for name in self.registry}
        return handler(core_schema.tagged_union_schema(models, discriminator="kind"))

    def model_of(self, table: object) -> type[Model]:
        """Returns the model of `table`, by its kind; `shared` for a kind that is not known or not loaded."""
        name = table.get("kind") if isinstance(table, Mapping) else None
        record = self.registry.loaded(name) if isinstance(name, str) else None
        if record is None or not isinstance(name, str):
            return self.shared
        if name not in self._models:
            self._models[name] = self._table(name, record.options)
        return self._models[name]

    def _table(self, name: str, options: type[Options]) -> type[Model]:
        """The table of the kind `name`."""
        required = any(field.is_required() for field in options.model_fields.values())
        default: dict[str, Any] = {} if required else {"default_factory": options}
        kind: Any = Literal
        fields: dict[str, Any] = {
            "kind": (kind[name], Field(description="Kind, which says what options there are.")),
            "options": (options, Field(description="What only this kind understands.", **default)),
        }
        called = "".join(part.title() for part in name.replace("-", "_").split("_"))
        about = self.registry.get_about(name)
        table: type[Model] = create_model(
            f"{called}Table", __base__=self.shared, __doc__=f"{about[:1].upper()}{about[1:]}.", **fields
        )
        return table

    def _read(self, table: object, info: core_schema.ValidationInfo) -> Model:
        if not isinstance(table, Mapping):
            raise wrong("a table")
        name = table.get("kind")
        if not isinstance(name, str) or not self.registry.is_known(name):
            raise PydanticCustomError(UNKNOWN_KIND, "unknown kind")
        if (info.context or {}).get(CODE):
            try:
                self.registry.get(name)
            except UsageError as error:
                raise sentence(error) from None
        return self.model_of(table).model_validate(table, context=info.context)


def validate(
    model: type[M], values: Mapping[str, object], keys: Location = (), *, code: bool = False
) -> tuple[M, list[Problem]]:
    """Validates the table `values` at `keys`; returns the model and all problems.

    A wrong value is replaced by its default, or by the first example for a required one, so that values that
    depend on it can still be checked. Raises the first problem where no value that ragc knows fits in
    place of a wrong one, as may be so in the options of another package.
    """
    remaining, problems, repairs = _copied(values), list[Problem](), Counter[Location]()
    context = {CODE: code, REMARKS: True}
    while True:
        try:
            return model.model_validate(remaining, context=context), problems
        except ValidationError as error:
            details = error.errors(include_url=False)
        context = {CODE: code, REMARKS: False}
        for detail in details:
            repairs[detail["loc"]] += 1
            if problems and repairs[detail["loc"]] > _MAX_REPAIRS:
                raise UsageError(str(problems[0]))
            problems += _repair(model, remaining, detail, keys, {problem.keys for problem in problems})


def _repair(
    model: type[Model], values: dict[str, Any], detail: ErrorDetails, before: Location, seen: set[Location]
) -> list[Problem]:
    """Removes the value that one error is about from `values`; returns the problems to report."""
    at = _resolve(model, values, detail["loc"])
    keys, kind, context = (*before, *at.keys), detail["type"], detail.get("ctx", {})
    key, named = Key(keys, at.own), at.owner.names_keys
    if kind == REMARK:
        error = context["error"]
        if isinstance(error, Repeated):
            error = UsageError(f"{dotted(keys[:-1])} lists {error} twice")
        return [Problem(keys, error, named)]
    if kind == "missing":
        field = at.owner.model_fields[str(at.keys[-1])]
        example = _example(field)
        _put(values, at.keys, _copied(example) if isinstance(example, Mapping) else example)
        # a table whose own keys are reported next, or a key reported before
        if (not field.examples and example == {}) or keys in seen:
            return []
        return [Problem(keys, at.owner.missing_key(key), named)]
    value = _take(values, at.keys)
    if at.kinds is not None and kind == UNKNOWN_KIND:
        return _without_kind(at.kinds, value, keys)
    if kind == "extra_forbidden":
        return [Problem(keys, at.owner.unknown_key(key), named)]
    if kind == SENTENCE:
        return [Problem(keys, context["error"], named and isinstance(context["error"], UnknownName))]
    expected = str(context["expected"]) if kind == EXPECTED else "a table"
    return [Problem(keys, at.owner.wrong_value(key, expected, detail["input"]), named)]


def _example(field: FieldInfo) -> Any:
    """Returns the first example of a required field, else a value of its type or an empty table."""
    if field.examples:
        return field.examples[0]
    origin = get_origin(field.annotation)
    if origin is Literal:
        return get_args(field.annotation)[0]
    return [] if origin in (list, tuple) else _VALUES.get(field.annotation, {})


def _without_kind(kinds: Kinds, table: Any, keys: Location) -> list[Problem]:
    """Returns the problems of a table whose kind is missing or unknown, including those of its other keys."""
    key, members = Key((*keys, "kind"), ("kind",)), kinds.registry.about()
    if "kind" not in table:
        error = UsageError(f"{dotted(key.whole)} is missing. Known: {', '.join(members)}.")
    elif isinstance(table["kind"], str) and table["kind"].strip():
        error = UnknownName(kinds.registry.noun, table["kind"], members, kinds.registry.advice(table["kind"]))
    else:
        error = kinds.shared.wrong_value(key, "a text that is not empty", table["kind"])
    others = {name: value for name, value in table.items() if name != "kind"}
    return [Problem(key.whole, error), *validate(kinds.shared, others, keys)[1]]


@dataclass(frozen=True, slots=True)
class _Resolved:
    """The location of an error: its keys, and the enclosing model.

    `own` are the keys relative to that model. `kinds` is the mark of the table there, if it is of a kind.
    """

    keys: Location
    own: Location
    owner: type[Model]
    kinds: Kinds | None


def _resolve(model: type[Model], values: object, loc: Location) -> _Resolved:
    """Resolves the location `loc` of an error in `values` through the annotations of `model`."""
    start, owner, at = 0, model, cast(Any, model)
    for depth, item in enumerate(loc):
        if kinds := _kinds_of(at):
            at = kinds.model_of(values)
        if get_origin(at) is UnionType:
            at = next((one for one in get_args(at) if isinstance(one, type) and issubclass(one, Model)), at)
        if isinstance(at, type) and issubclass(at, Model):
            owner, start, field = at, depth, at.model_fields.get(str(item))
            at = None if field is None else field.annotation
        else:
            arguments = get_args(at)
            at = arguments[1] if len(arguments) == 2 and get_origin(at) is not Annotated else None
        values = values.get(item) if isinstance(values, Mapping) else None
    return _Resolved(tuple(loc), tuple(loc[start:]), owner, _kinds_of(at))


def _kinds_of(annotation: Any) -> Kinds | None:
    """Returns the mark of a table whose kind says its model; None for any other annotation."""
    return next((mark for mark in get_args(annotation)[1:] if isinstance(mark, Kinds)), None)


def _copied(values: Mapping[str, object]) -> dict[str, Any]:
    """Returns a copy of `values` at any depth, from which wrong values can be removed."""
    copy: dict[str, Any] = dict(values)
    left = [copy]
    while left:
        table = left.pop()
        for name, inner in table.items():
            if isinstance(inner, Mapping):
                table[name] = dict(inner)
                left.append(table[name])
    return copy


def _take(values: dict[str, Any], keys: Location) -> Any:
    """Removes the value at `keys` from `values`, or the list that contains it; without keys, everything."""
    if not keys:
        return values.clear()
    for key in keys[:-1]:
        inner = values.get(str(key))
        if not isinstance(inner, dict):
            return values.pop(str(key), None)
        values = inner
    return values.pop(str(keys[-1]), None)


def _put(values: Any, keys: Location, value: object) -> None:
    for key in keys[:-1]:
        values = values[key]
    values[keys[-1]] = value


def dotted(keys: Sequence[int | str]) -> str:
    """Returns `keys` in the dotted form of `--set`."""
    return ".".join(map(str, keys))


def shown(value: object) -> str:
    """Returns `value` as Python writes it, shortened."""
    try:
        text = repr(value)
    except ValueError:  # an integer of thousands of digits has no text form
        return "a number of too many digits"
    return text if len(text) <= _MAX_SHOWN_CHARS else f"{text[:_MAX_SHOWN_CHARS]}…"
