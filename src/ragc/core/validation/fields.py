"""Field types for a `Model`: each has a description for errors, a JSON Schema and a strict check.

`true` is not a number and `"3"` is not an integer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, cast

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema

from ragc.errors import UnknownName, UsageError

EXPECTED, SENTENCE, REMARK = "expected", "sentence", "remark"
"""Our error types: the expected value, a complete sentence, and a remark after which the value is used."""

REMARKS, CODE = "remarks", "code"
"""Keys of the validation context: whether remarks are made, and whether other packages may be imported."""

_HUGE = 1e15
"""The upper bound for any number."""


class Checked:
    """Wraps pydantic's check of a type: any failure becomes one error in ragc's words."""

    expected: str

    def schema(self) -> CoreSchema:
        """Returns Pydantic's schema of the type."""
        raise NotImplementedError

    def accept(self, value: object) -> object:
        """Returns `value` after further checks; raises PydanticCustomError."""
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_wrap_validator_function(self._check, self.schema())

    def _check(self, value: object, inner: Callable[[object], object]) -> object:
        try:
            valid = inner(value)
        except (ValidationError, OverflowError):
            raise wrong(self.expected) from None
        return self.accept(valid)


class Whole(Checked):
    """An integer from `low` to `high`."""

    def __init__(self, low: int, high: int | None = None, *, expected: str = "") -> None:
        self.low, self.high = low, high
        bounds = f"of at least {low}" if high is None else f"between {low} and {high}"
        self.expected = expected or f"an integer {bounds}"

    def schema(self) -> CoreSchema:
        """Returns Pydantic's schema of the type."""
        return core_schema.int_schema(strict=True, ge=self.low, le=self.high)


class Number(Checked):
    """A finite number within exclusive bounds `above` and `below`, or inclusive bounds `low` and `high`."""

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
        if low is not None and high is not None:
            self.expected = f"a number from {low:g} to {high:g}"
        elif low is not None and below is not None:
            self.expected = f"a number from {low:g} to below {below:g}"
        else:
            self.expected = (
                f"a number above {above:g}" if above is not None else f"a number of at least {low:g}"
            )

    def schema(self) -> CoreSchema:
        """Returns Pydantic's schema of the type."""
        limits = cast(Any, {name: limit for name, limit in self._limits.items() if limit is not None})
        return core_schema.float_schema(strict=True, allow_inf_nan=False, **limits)

    def accept(self, value: object) -> object:
        """Returns `value` after further checks; raises PydanticCustomError."""
        if isinstance(value, float) and abs(value) >= self._largest:
            raise wrong(f"{self.expected} and below {self._largest:g}")
        return value


class Switch(Checked):
    """True or false."""

    expected = "true or false"

    def schema(self) -> CoreSchema:
        """Returns Pydantic's schema of the type."""
        return core_schema.bool_schema(strict=True)


class Text(Checked):
    """A non-empty text; with `empty`, also the empty one."""

    def __init__(self, *, empty: bool = False, expected: str = "", pattern: str = "") -> None:
        self._empty, self._pattern = empty, pattern
        self.expected = expected or ("a text" if empty else "a text that is not empty")

    def schema(self) -> CoreSchema:
        """Returns Pydantic's schema of the type."""
        pattern = self._pattern or (None if self._empty else r"\S")
        return core_schema.str_schema(strict=True, pattern=pattern, regex_engine="python-re")


class Choice(Checked):
    """One of the ids `known`, named a `kind` in errors; an unknown one is reported with the nearest id."""

    expected = "a text that is not empty"

    def __init__(self, kind: str, known: Collection[str]) -> None:
        self._kind, self._known = kind, tuple(known)

    def schema(self) -> CoreSchema:
        """Returns Pydantic's schema of the type."""
        return core_schema.str_schema(strict=True, pattern=r"\S")

    def accept(self, value: object) -> object:
        """Returns `value` after further checks; raises PydanticCustomError."""
        if value not in self._known:
            raise sentence(UnknownName(self._kind, str(value), self._known))
        return value

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"type": "string", "enum": list(self._known)}


class Names:
    """A list of texts without duplicates; the empty list only with `empty`.

    `check` raises UsageError for an invalid item. The list is used regardless, so that values that refer to
    it can be checked. `added` says of an item that another package adds it: where code of packages is not
    allowed, `check` is not called for it. `items` is the JSON Schema of an item.
    """

    def __init__(
        self,
        expected: str = "a list of texts",
        *,
        empty: bool = False,
        repeated: bool = False,
        blank: bool = True,
        check: Callable[[str], object] | None = None,
        added: Callable[[str], bool] = lambda name: False,
        items: Mapping[str, Any] | None = None,
        word: str = "",
    ) -> None:
        self._expected, self._empty, self._repeated, self._word = expected, empty, repeated, word
        self._check, self._added, self._blank = check, added, blank
        self._items = dict(items or {"type": "string"}) | ({} if blank else {"minLength": 1})

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_info_plain_validator_function(self._read)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        listed: dict[str, Any] = {"type": "array", "items": self._items}
        listed |= {} if self._empty else {"minItems": 1}
        listed |= {} if self._repeated else {"uniqueItems": True}
        return {"anyOf": [{"const": self._word}, listed]} if self._word else listed

    def _read(self, value: object, info: core_schema.ValidationInfo) -> tuple[str, ...]:
        if self._word and value == self._word:
            return (self._word,)
        names = value if isinstance(value, list | tuple) else ()
        if not isinstance(value, list | tuple) or not (names or self._empty):
            raise wrong(self._expected)
        if not all(isinstance(name, str) and (name or self._blank) for name in names):
            raise wrong(self._expected)
        if (info.context or {}).get(REMARKS, True) and (
            remarks := list(self._remarks(names, code=bool((info.context or {}).get(CODE))))
        ):
            raise ValidationError.from_exception_data("list", remarks)
        return tuple(names) if self._repeated else tuple(dict.fromkeys(names))

    def _remarks(self, names: Sequence[str], *, code: bool) -> Iterator[InitErrorDetails]:
        for index, name in enumerate(names):
            if not self._repeated and name in names[:index]:
                yield _remark(index, Repeated(repr(name)))
            try:
                if self._check is not None and (code or not self._added(name)):
                    self._check(name)
            except UsageError as error:
                yield _remark(index, error)


class Repeated(UsageError):
    """A list item that occurs twice; the message is the item."""


class JsonTable:
    """A table of JSON values: no dates, no NaN, no infinity."""

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


class Tables:
    """A list of tables of JSON values; with `single`, also one table, which is a list of itself."""

    def __init__(self, *, single: bool = False) -> None:
        self._single = single

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._read)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        listed = {"type": "array", "items": {"type": "object"}}
        return {"anyOf": [{"type": "object"}, listed]} if self._single else listed

    def _read(self, value: object) -> tuple[Mapping[str, Any], ...]:
        tables = [value] if self._single and isinstance(value, Mapping) else value
        if not isinstance(tables, list | tuple) or not all(isinstance(table, Mapping) for table in tables):
            raise wrong("a table or a list of tables" if self._single else "a list of tables")
        if not all(map(is_json, tables)):
            raise wrong("tables of text, numbers, booleans, or lists of them")
        return tuple(dict(table) for table in tables)


def wrong(expected: str) -> PydanticCustomError:
    """Returns the error "must be `expected`"."""
    return PydanticCustomError(EXPECTED, "{expected}", {"expected": expected})


def sentence(error: UsageError) -> PydanticCustomError:
    """Returns the error for a value that is invalid for the reason in `error`."""
    return PydanticCustomError(SENTENCE, "{error}", {"error": error})


def _remark(index: int, error: UsageError) -> InitErrorDetails:
    kind = PydanticCustomError(REMARK, "{error}", {"error": error})
    return {"type": kind, "loc": (index,), "input": None}


def is_json(value: object) -> bool:
    """Returns whether JSON can represent `value`: no dates, no NaN, no infinity."""
    if isinstance(value, Mapping):
        return all(is_json(inner) for inner in value.values())
    if isinstance(value, list | tuple):
        return all(is_json(inner) for inner in value)
    return isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value))
