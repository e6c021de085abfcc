"""Narrows JSON schemas to what llama.cpp enforces, and validates the replies.

llama.cpp with LLGuidance silently drops the whole grammar at an unknown keyword; the reply is then free text.
So a schema is first rewritten into the subset of JSON Schema that is reliably enforced, with limits where it
had none. Anything else is refused. Every complete reply is validated against the original schema.

Narrowed: objects have no additional keys, numbers are bounded with four decimals, and strings and lists
without a limit get one from the reply's token limit, so that a small model that repeats itself still closes
its brackets. A reply that reaches such a limit is reported as cut (`length`).
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NoReturn

from ragc.errors import TargetError

_ANNOTATIONS = frozenset(
    {"title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly"}
    | {"discriminator", "$comment", "$schema", "$id", "contentEncoding", "contentMediaType", "x-guidance"}
)
_KEYS: Mapping[str, frozenset[str]] = {
    "object": frozenset({"properties", "required", "additionalProperties"}),
    "array": frozenset({"items", "prefixItems", "minItems", "maxItems"}),
    "string": frozenset({"minLength", "maxLength", "pattern", "format"}),
    "integer": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
    "number": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}),
    "boolean": frozenset(),
    "null": frozenset(),
}
_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
_BEYOND_REGEX = re.compile(r"\(\?[=!<]|\\[1-9bB]")
_INTEGER, _NUMBER, _STEP = 10**15 - 1, 1_000_000_000, 0.0001
_COMPACT = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


class NarrowedSchema:
    """`schema` as enforced for replies of at most `max_tokens` tokens. Raises TargetError.

    `strings` (characters) and `lists` (items) are the limits for strings and lists without one of their own.
    """

    def __init__(self, schema: Mapping[str, Any], max_tokens: int) -> None:
        self.lists = max(4, max_tokens // 8)
        self._open: list[tuple[dict[str, Any], int]] = []
        self._names = frozenset(schema.get("$defs") or {}) | frozenset(schema.get("definitions") or {})
        self.schema = self._root(schema)
        shares = max(1, sum(weight for _, weight in self._open))
        self.strings = max(64, 5 * max_tokens // (2 * shares))
        for node, _ in self._open:
            node["maxLength"] = max(self.strings, node.get("minLength", 0))

    def is_cut(self, value: Any) -> bool:
        """Returns whether a string or list in `value` has reached such a limit."""
        if isinstance(value, str):
            return len(value) == self.strings and bool(self._open)
        if isinstance(value, Mapping):
            return any(self.is_cut(v) for v in value.values())
        if isinstance(value, list):
            return len(value) == self.lists or any(self.is_cut(v) for v in value)
        return False

    def _root(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        rest = {k: v for k, v in schema.items() if k not in ("$defs", "definitions")}
        definitions: dict[str, Any] = {}
        for key in ("$defs", "definitions"):
            if named := schema.get(key):
                definitions[key] = {name: self._node(s, f"{key}/{name}", 1) for name, s in named.items()}
        return {**definitions, **self._node(rest, "", 1)}

    def _node(self, schema: Any, where: str, weight: int) -> dict[str, Any]:
        if schema is True:
            return {}
        if not isinstance(schema, Mapping):
            _refuse(where, f"{schema!r}", "is no schema")
        node = {k: v for k, v in schema.items() if k not in _ANNOTATIONS}
        for key in ("$ref", "const", "enum", "allOf", "anyOf", "oneOf"):
            if key in node:
                return self._special(key, node, where, weight)
        kind = node.pop("type", None) or _implied_type(node)
        if isinstance(kind, list):
            known = frozenset().union(*(_KEYS.get(k, frozenset()) for k in kind))
            _refuse_other_keys(node, known, where)
            parts = [{"type": k, **{n: v for n, v in node.items() if n in _KEYS.get(k, ())}} for k in kind]
            return {"anyOf": [self._node(part, where, weight) for part in parts]}
        if kind is None:
            _refuse_other_keys(node, frozenset(), where)
            return {}
        if kind not in _KEYS:
            _refuse(where, f"type {kind!r}", "is no JSON type")
        _refuse_other_keys(node, _KEYS[kind], where)
        build = getattr(self, f"_{kind}", None)
        return build(node, where, weight) if build else {"type": kind}

    def _special(self, key: str, node: dict[str, Any], where: str, weight: int) -> dict[str, Any]:
        beside = {"type"} if key in ("const", "enum") else set[str]()
        _refuse_other_keys(node, frozenset({key} | beside), where)
        value = node[key]
        if key == "$ref":
            name = str(value).rsplit("/", 1)[-1]
            if not re.fullmatch(r"#/(\$defs|definitions)/[^/]+", str(value)) or name not in self._names:
                _refuse(where, f"$ref {value!r}", "leads nowhere in the schema")
            return {"$ref": value}
        if key == "const":
            return {"enum": [value]}
        if not value:
            _refuse(where, key, "is empty")
        if key == "enum":
            return {"enum": list(value)}
        if key == "allOf" and len(value) > 1:
            _refuse(where, "allOf of several", "cannot be enforced")
        parts = [self._node(part, f"{where}/{key}/{i}", weight) for i, part in enumerate(value)]
        return parts[0] if len(parts) == 1 else {"anyOf": parts}

    def _object(self, node: dict[str, Any], where: str, weight: int) -> dict[str, Any]:
        properties = node.get("properties") or {}
        more = node.get("additionalProperties", not properties)
        missing = [name for name in node.get("required", ()) if name not in properties]
        if missing:
            _refuse(where, f"required {missing}", "names no property")
        return {
            "type": "object",
            "properties": {n: self._node(s, f"{where}/{n}", weight) for n, s in properties.items()},
            "required": list(node.get("required", ())),
            "additionalProperties": self._node(more, f"{where}/*", weight * 4)
            if more is not False
            else False,
        }

    def _array(self, node: dict[str, Any], where: str, weight: int) -> dict[str, Any]:
        least, most = node.get("minItems", 0), node.get("maxItems")
        first, items = node.get("prefixItems") or [], node.get("items", True)
        if most is None:
            most = len(first) if items is False else max(self.lists, least + 1)
        _check_order(where, "minItems", least, "maxItems", most)
        array: dict[str, Any] = {"type": "array", "minItems": least, "maxItems": most}
        if first:
            array["prefixItems"] = [self._node(s, f"{where}/{i}", weight) for i, s in enumerate(first)]
        if items is False:
            return {**array, "items": False}
        if most > len(first):
            array["items"] = self._node(items, f"{where}[]", weight * max(1, min(most, 4)))
        return array

    def _string(self, node: dict[str, Any], where: str, weight: int) -> dict[str, Any]:
        if node.get("format", "date") not in _FORMATS:
            _refuse(where, f"format {node['format']!r}", "cannot be enforced")
        if _BEYOND_REGEX.search(node.get("pattern", "")):
            _refuse(where, f"pattern {node['pattern']!r}", "looks around, which cannot be enforced")
        if "format" in node and len(node) > 1:
            _refuse(where, f"format with {', '.join(sorted(set(node) - {'format'}))}", "cannot be enforced")
        string = {"type": "string", **node}
        if "maxLength" in node:
            _check_order(where, "minLength", node.get("minLength", 0), "maxLength", node["maxLength"])
        elif "format" not in node:
            self._open.append((string, weight))
        return string

    def _integer(self, node: dict[str, Any], where: str, weight: int) -> dict[str, Any]:
        step = node.get("multipleOf", 1)
        if step != int(step) or step < 1:
            _refuse(where, f"multipleOf {step}", "of an integer must be a whole number")
        return _add_bounds({"type": "integer", **node}, where, _INTEGER)

    def _number(self, node: dict[str, Any], where: str, weight: int) -> dict[str, Any]:
        number = _add_bounds({"type": "number", **node}, where, _NUMBER)
        low, high = _edges(number)
        return number | ({"multipleOf": _STEP} if high - low >= 100 * _STEP else {})


def _add_bounds(node: dict[str, Any], where: str, limit: int) -> dict[str, Any]:
    """Returns `node` with both bounds within ±`limit`; refused when that leaves no value."""
    for side, edge, pick in (("Minimum", -limit, max), ("Maximum", limit, min)):
        own = [name for name in (side.lower(), f"exclusive{side}") if name in node]
        if not own:
            node[side.lower()] = edge
        for name in own:
            node[name] = pick(node[name], edge)
    low, high = _edges(node)
    _check_order(where, "minimum", low, "maximum", high)
    return node


def _edges(node: Mapping[str, Any]) -> tuple[float, float]:
    return (
        max(node[name] for name in ("minimum", "exclusiveMinimum") if name in node),
        min(node[name] for name in ("maximum", "exclusiveMaximum") if name in node),
    )


def _implied_type(node: Mapping[str, Any]) -> str | None:
    return next((kind for kind, keys in _KEYS.items() if keys & node.keys() and kind != "integer"), None)


def _refuse_other_keys(node: Mapping[str, Any], known: frozenset[str], where: str) -> None:
    for key in node:
        if key not in known and not (key == "uniqueItems" and node[key] is False):
            _refuse(where, key, "cannot be enforced")


def _check_order(where: str, low: str, least: float, high: str, most: float) -> None:
    if least > most:
        _refuse(where, f"{low} {least} above {high} {most}", "leaves no value")


def _refuse(where: str, what: str, why: str) -> NoReturn:
    location = where.strip("/") or "its top"
    raise TargetError(
        f"The embedded target cannot fit replies to this JSON schema: at {location}, {what} {why}.",
        refused=True,
    )


@lru_cache(maxsize=256)
def prepare(schema: str, max_tokens: int) -> tuple[NarrowedSchema, str, Any]:
    """Returns the narrowed form of `schema` (JSON text), its grammar, and a validator of `schema` itself."""
    original = json.loads(schema)
    narrowed = NarrowedSchema(original, max_tokens)
    text = json.dumps({**narrowed.schema, "x-guidance": _COMPACT}, ensure_ascii=True)
    validator = importlib.import_module("jsonschema").Draft202012Validator(original)
    return narrowed, f"%llguidance {{}}\nstart: %json {text}", validator


def check_reply(text: str, schema: str, max_tokens: int) -> tuple[str, bool]:
    """Returns a complete reply without lone surrogates, and whether one of the added limits cut it.

    Raises TargetError when it does not fit the schema: decoding was not constrained after all.
    """
    narrowed, _, validator = prepare(schema, max_tokens)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TargetError(
            f"A reply of the embedded model left its JSON schema: {error} in {text[:80]!r}."
        ) from error
    if wrong := next(validator.iter_errors(value), None):
        raise TargetError(f"A reply of the embedded model left its JSON schema: {wrong.message[:160]}.")
    if "\\u" in text:
        plain = json.dumps(value, ensure_ascii=False)
        if plain != (clean := plain.encode("utf-8", "replace").decode()):
            text = clean
    return text, narrowed.is_cut(value)
