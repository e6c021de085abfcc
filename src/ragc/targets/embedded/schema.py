"""Narrows JSON schemas to what llama.cpp enforces, and checks the replies.

llama.cpp with LLGuidance drops the whole grammar at a keyword that it does not know; the reply is then free
text. So such a schema is refused, and every complete reply is checked against the schema as it was asked.
Numbers, and strings and lists without a limit, get one, so that a small model that repeats itself still
closes its brackets. A reply that reaches such a limit is reported as cut.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ragc.errors import RequestRefused

_SAID = frozenset({
    "title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly",
    "discriminator", "$comment", "$schema", "$id", "contentEncoding", "contentMediaType",
})  # fmt: skip
_KEPT = frozenset({
    "type", "properties", "required", "additionalProperties", "items", "prefixItems", "minItems", "maxItems",
    "minLength", "maxLength", "pattern", "format", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "multipleOf", "enum", "anyOf", "allOf", "$ref", "$defs", "definitions",
})  # fmt: skip
_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
_BEYOND_REGEX = re.compile(r"\(\?[=!<]|\\[1-9bB]")
_MOST = {"integer": 10**15 - 1, "number": 10**9}
_COMPACT = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


def grammar(schema: Mapping[str, Any], tokens: int) -> str:
    """Returns the grammar of `schema` for a reply of at most `tokens`. Raises RequestRefused."""
    narrow = {**narrowed(schema, tokens), "x-guidance": _COMPACT}
    return f"%llguidance {{}}\nstart: %json {json.dumps(narrow)}"


def narrowed(node: Any, tokens: int, where: str = "") -> Any:
    """Returns the schema `node` as it is enforced for a reply of at most `tokens`. Raises RequestRefused."""
    if isinstance(node, list):
        return [narrowed(part, tokens, f"{where}/{number}") for number, part in enumerate(node)]
    if not isinstance(node, Mapping):
        return node
    kept: dict[str, Any] = {}
    for name, value in node.items():
        if name in ("properties", "$defs", "definitions"):
            kept[name] = {key: narrowed(part, tokens, f"{where}/{key}") for key, part in value.items()}
        elif name in ("enum", "const"):
            kept["enum"] = [value] if name == "const" else value
        elif name == "oneOf" or name in _KEPT:
            kept["anyOf" if name == "oneOf" else name] = narrowed(value, tokens, where)
        elif name not in _SAID and not (name == "uniqueItems" and value is False):
            raise _refused(where, name)
    if kept.get("format", "date") not in _FORMATS or _BEYOND_REGEX.search(kept.get("pattern", "")):
        raise _refused(
            where, f"format {kept['format']!r}" if "format" in kept else "a pattern that looks around"
        )
    return kept | _limits(kept, tokens)


def _limits(node: Mapping[str, Any], tokens: int) -> dict[str, Any]:
    """Returns the limits that the schema `node` lacks."""
    kind = node.get("type")
    if kind == "object" and "additionalProperties" not in node:
        return {"additionalProperties": not node.get("properties")}
    if kind == "array" and "maxItems" not in node and node.get("items") is not False:
        return {"maxItems": max(_items(tokens), node.get("minItems", 0))}
    if kind == "string" and not {"format", "pattern", "enum", "maxLength"} & node.keys():
        return {"maxLength": max(_characters(tokens), node.get("minLength", 0))}
    if (most := _MOST.get(str(kind))) and "enum" not in node:
        sides = (("minimum", "exclusiveMinimum", -most), ("maximum", "exclusiveMaximum", most))
        return {name: edge for name, other, edge in sides if not {name, other} & node.keys()}
    return {}


def _characters(tokens: int) -> int:
    return max(64, 5 * tokens // 2)


def _items(tokens: int) -> int:
    return max(4, tokens // 8)


def _refused(where: str, what: str) -> RequestRefused:
    place = where.strip("/") or "its top"
    return RequestRefused(
        f"The embedded target cannot fit replies to this JSON schema: at {place}, {what} cannot be enforced.",
        "failed",
    )


@lru_cache(maxsize=256)
def _validator(schema: str) -> Any:
    return importlib.import_module("jsonschema").Draft202012Validator(json.loads(schema))


def is_cut(text: str, schema: Mapping[str, Any], tokens: int, *, stopped: bool = False) -> bool:
    """Returns whether a reply reached a limit of ours or, if `stopped`, a stop string inside its JSON.

    Raises RequestRefused where it left `schema`.
    """
    try:
        value = json.loads(text)
        wrong = next((error.message for error in _validator(json.dumps(schema)).iter_errors(value)), None)
    except (ValueError, RecursionError) as error:
        if stopped:
            return True
        wrong, value = f"{error} in {text[:80]!r}", None
    if wrong is not None:
        text = f"A reply of the embedded model left its JSON schema: {wrong[:160]}."
        raise RequestRefused(text, "failed", refused=False)
    return _is_full(value, tokens)


def _is_full(value: Any, tokens: int) -> bool:
    if isinstance(value, str):
        return len(value) == _characters(tokens)
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    full = isinstance(value, list) and len(value) == _items(tokens)
    return full or any(_is_full(part, tokens) for part in inside)
