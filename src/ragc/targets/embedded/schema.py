"""JSON schemas as llama.cpp enforces them by LLGuidance, and the check of its replies.

A keyword that LLGuidance cannot enforce is left to the check of each complete reply. Strings and lists
without a limit get one, so that a small model that repeats itself still closes its brackets. A reply that
reaches such a limit is reported as cut.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ragc.core.redact import shorten
from ragc.errors import RequestRefused

_HOW = {"lenient": True, "whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


def grammar(schema: Mapping[str, Any], tokens: int) -> str:
    """Returns the grammar of `schema` for a reply of at most `tokens`."""
    limited = {**with_limits(schema, tokens), "x-guidance": _HOW}
    return f"%llguidance {{}}\nstart: %json {json.dumps(limited)}"


def with_limits(node: Any, tokens: int) -> Any:
    """Returns the schema `node` with the limits that it lacks, for a reply of at most `tokens`."""
    if isinstance(node, list):
        return [with_limits(part, tokens) for part in node]
    if not isinstance(node, Mapping):
        return node
    limits: dict[str, Any] = {}
    if node.get("type") == "object":
        limits = {"additionalProperties": not node.get("properties")}
    elif node.get("type") == "array":
        limits = {"maxItems": max(_items(tokens), node.get("minItems", 0))}
    elif node.get("type") == "string" and not {"format", "pattern", "enum", "const"} & node.keys():
        limits = {"maxLength": max(_characters(tokens), node.get("minLength", 0))}
    return limits | {
        name: value if name in ("enum", "const", "default", "examples") else with_limits(value, tokens)
        for name, value in node.items()
    }


def _characters(tokens: int) -> int:
    return max(64, 5 * tokens // 2)


def _items(tokens: int) -> int:
    return max(4, tokens // 8)


def is_cut(text: str, schema: Mapping[str, Any], tokens: int) -> bool:
    """Returns whether a reply reached a limit of ours. Raises RequestRefused where it left `schema`."""
    from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

    value: Any = None
    try:
        value = json.loads(text)
        wrong: Any = next(Draft202012Validator(schema).iter_errors(value), None)
    except (ValueError, RecursionError) as error:
        wrong = error
    if wrong is not None:
        why = shorten(getattr(wrong, "message", f"{wrong} in {text[:80]!r}"), 160)
        raise RequestRefused(
            f"A reply of the embedded model left its JSON schema: {why}.", "failed", refused=False
        )
    return _is_full(value, tokens)


def _is_full(value: Any, tokens: int) -> bool:
    if isinstance(value, str):
        return len(value) == _characters(tokens)
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    full = isinstance(value, list) and len(value) == _items(tokens)
    return full or any(_is_full(part, tokens) for part in inside)
