"""JSON schemas reduced to what hosted providers accept in strict mode.

Providers refuse a strict schema with unsupported keywords. Those are removed here; the bounds they express
are checked when the reply is read. From the providers' documentation of structured output:

    anthropic, bedrock    no bounds of numbers, texts and lists (lists: at least 0 or 1 item)
    openai, azure         no lengths of texts
    xai                   no lengths of texts and lists
    cohere                no bounds of numbers, texts and lists
    groq, cerebras        no bounds of numbers, texts and lists

Other providers, and servers at a `base_url` of the recipe, receive the full schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TEXTS = frozenset({"minLength", "maxLength"})
_LISTS = frozenset({"minItems", "maxItems"})
_NUMBERS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_ALL = _TEXTS | _LISTS | _NUMBERS

REFUSED: Mapping[str, frozenset[str]] = {
    "anthropic": _ALL,
    "azure": _TEXTS,
    "bedrock": _ALL,
    "cerebras": _ALL,
    "cohere": _ALL,
    "cohere_chat": _ALL,
    "groq": _ALL,
    "openai": _TEXTS,
    "xai": _TEXTS | _LISTS,
}
"""Unsupported keywords in a strict schema, by LiteLLM's name of the provider."""


def accepted_schema(schema: Mapping[str, Any], provider: str) -> dict[str, Any]:
    """`schema` without the keywords that `provider` refuses; field names are never mistaken for keywords."""
    refused = REFUSED.get(provider, frozenset())
    accepted: dict[str, Any] = _without(schema, refused)
    return accepted


def _without(node: Any, refused: frozenset[str], *, named: bool = False) -> Any:
    if isinstance(node, list):
        return [_without(item, refused) for item in node]
    if not isinstance(node, Mapping):
        return node
    return {
        key: value
        if key in ("enum", "const") and not named
        else _without(value, refused, named=key in ("properties", "$defs") and not named)
        for key, value in node.items()
        if named or key not in refused
    }
