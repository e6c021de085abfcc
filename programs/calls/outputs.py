"""The outputs of a signature: their model and JSON schemas, and replies that are exactly as requested."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any

import dspy
import pydantic
from pydantic import ValidationError, WrapValidator
from pydantic.fields import FieldInfo

from ragc.core.text import repair_surrogates
from ragc.programs.calls.reading.meaning import is_option
from ragc.signatures.wording import output_texts

LONGEST = 100_000
"""Characters of a reply that are read into typed outputs."""

DEEPEST = 100
"""Brackets that may stand open in a reply at once."""

_BRACKET = re.compile(r"[\[\](){}]")
_NOISE = ("title", "description", "default", "desc", "prefix", "__dspy_field_type")


@lru_cache(maxsize=512)
def output_model(signature: Any) -> type[pydantic.BaseModel]:
    """Returns a pydantic model of the output fields, constraints and defaults included."""
    fields: dict[str, Any] = {}
    for name, info in signature.output_fields.items():
        plain = FieldInfo(
            annotation=info.annotation, default=info.default, default_factory=info.default_factory
        )
        plain.metadata = list(info.metadata)
        fields[name] = (info.annotation, plain)
    return pydantic.create_model(
        "Reply", __config__=pydantic.ConfigDict(extra="ignore", allow_inf_nan=False), **fields
    )


@lru_cache(maxsize=512)
def reply_schema(signature: Any) -> dict[str, Any]:
    """Returns the strict JSON schema of a reply: every property required, none added, bounds kept."""
    strict: dict[str, Any] = _strict(output_model(signature).model_json_schema())
    # The order in which pydantic has them where some output lacks a default: requests, and their keys in
    # the store, are the same whether outputs have one.
    last: dict[str, Any] = {
        name: strict.pop(name) for name in ("required", "type", "additionalProperties") if name in strict
    }
    return {**strict, **last}


@lru_cache(maxsize=512)
def reading_schema(signature: Any) -> dict[str, Any]:
    """Returns the schema that replies are read by: `reply_schema`, but defaults are not required."""
    loose: dict[str, Any] = _strict(output_model(signature).model_json_schema(), require=False)
    return loose


def _strict(node: Any, *, named: bool = False, require: bool = True) -> Any:
    """Returns `node` without prose; `named` says that its keys are our names, not schema keywords.

    With `require` every property is required, and no other is allowed.
    """
    if isinstance(node, list):
        return [_strict(item, require=require) for item in node]
    if not isinstance(node, dict):
        return node
    out = {
        key: _strict(value, named=key in ("properties", "$defs") and not named, require=require)
        for key, value in node.items()
        if named or key not in _NOISE
    }
    if not named and out.get("type") == "object" and "properties" in out:
        out["required"] = list(out["properties"]) if require else out.get("required", [])
        if require:
            out["additionalProperties"] = False
    return out


@dataclass(frozen=True, slots=True)
class Reading:
    """The typed `outputs` of a reply by field name, and how many values were `mended` and items `dropped`."""

    outputs: dict[str, Any]
    mended: int = 0
    dropped: int = 0


def is_too_deep(text: str) -> bool:
    """Returns whether `text` opens more than `DEEPEST` nested brackets, wherever they are in it."""
    if text.count("[") + text.count("{") + text.count("(") <= DEEPEST:
        return False
    depth = 0
    for bracket in _BRACKET.findall(text):
        depth = depth + 1 if bracket in "[{(" else max(0, depth - 1)
        if depth > DEEPEST:
            return True
    return False


def beginning(text: str) -> str:
    """Returns how a reply begins, for messages."""
    return f"began {json.dumps(repair_surrogates(text[:80]), ensure_ascii=False)}"


@lru_cache(maxsize=512)
def flat_fields(signature: Any) -> Mapping[str, Any] | None:
    """Options or the greatest length of each output, where all are texts, options or truth values."""
    fields: dict[str, Any] = {}
    for name, schema in reading_schema(signature).get("properties", {}).items():
        if "enum" in schema:
            fields[name] = tuple(schema["enum"])
        elif schema.get("type") == "string":
            fields[name] = schema.get("maxLength", LONGEST)
        elif schema.get("type") == "boolean":
            fields[name] = (True, False)
        else:
            return None
    return fields


def has_shape(fields: Mapping[str, Any], value: Any) -> bool:
    """Returns whether `value` has exactly the outputs `fields`, within their rules: nothing needs mending."""
    if not isinstance(value, dict) or value.keys() != fields.keys():
        return False
    for name, rule in fields.items():
        held = value[name]
        if isinstance(rule, tuple):
            if not is_option(held, rule):
                return False
        elif type(held) is not str or len(held) > rule:
            return False
    return True


@lru_cache(maxsize=512)
def unfilled_values(signature: Any) -> frozenset[str]:
    """Returns the placeholder texts of the outputs in a form that is not filled in."""
    texts = output_texts(signature)
    blanks = {
        mark.format(name)
        for name in texts
        for mark in ("{{{}}}", "<{}>", "[{}]", "<your {}>", "your {} here")
    }
    return frozenset({"...", "string", "<string>", "<name>", "<text>", *blanks}.union(*texts.values()))


_FIRST_WORDS = (
    *("i'm ", "i\u2019m ", "i am ", "i can", "i could", "i do", "i apologi"),
    *("sorry", "as an ai", "unfortunately", "please "),
)


def _may_refuse(value: Mapping[str, Any]) -> bool:
    """Returns whether a text in the object `value` begins as refusals do."""
    return any(
        isinstance(held, str) and held[:14].casefold().startswith(_FIRST_WORDS) for held in value.values()
    )


def read_exact(signature: Any, text: str) -> Reading | None:
    """Reads a JSON object that is exactly as requested, whatever its texts say; None for others."""
    fields = flat_fields(signature) if text[:1] == "{" else None
    if fields is None or len(text) > LONGEST or is_too_deep(text):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if (
        not has_shape(fields, value)
        or _may_refuse(value)
        or not unfilled_values(signature).isdisjoint(map(str, value.values()))
    ):
        return None
    with contextlib.suppress(Exception):  # half of a surrogate pair, or a validator, which may raise anything
        return Reading(dict(vars(output_model(signature).model_validate_json(text))))
    return None


@lru_cache(maxsize=512)
def forgiving(signature: Any) -> Any:
    """Returns `signature` whose marked outputs default to their mark if they are missing or do not fit.

    An output marked `unread=value` (`ragc.signatures.wording.output_field`) is requested again like any
    other. If the second reply lacks it too, it becomes that value, and the other outputs are kept.
    """
    forgiven = signature
    for position, (name, info) in enumerate(signature.output_fields.items()):
        extra = info.json_schema_extra or {}
        if "unread" in extra:
            kind: Any = Annotated[(info.annotation, *info.metadata, WrapValidator(_read_or(extra["unread"])))]
            field = dspy.OutputField(desc=extra.get("desc"), default=extra["unread"])
            forgiven = forgiven.delete(name).insert(position, name, field, kind)
    return forgiven


def _read_or(unread: Any) -> Callable[[Any, Callable[[Any], Any]], Any]:
    def read_or_unread(value: Any, read: Callable[[Any], Any]) -> Any:
        try:
            return read(value)
        except ValidationError:
            return unread

    return read_or_unread
