"""JSON schemas reduced to what hosted providers accept in strict mode.

Providers refuse a strict schema with a keyword that they do not know. Such keywords are removed; the bounds
that they express are checked, and mended, when the reply is read. A keyword removed in vain costs little, one
that is sent in vain costs the request: where sources differ, it is removed.

    openai, azure    no lengths of texts, no uniqueItems, contains and the like, no bounds of objects, no
                     conditions; formats of dates, times, addresses and uuids only; patterns without
                     look-around. From pydantic-ai-slim 2.68.0, profiles/openai.py. OpenAI takes lengths for
                     some models, and not for fine-tuned ones.
    anthropic        none of these, no bounds but minItems of 0 or 1, no patterns. From anthropic 2.12.0,
                     lib/_parse/_transform.py, and litellm 1.106.2, llms/anthropic/chat/transformation.py.
    bedrock          as anthropic. From pydantic-ai-slim 2.68.0, providers/bedrock.py, which tried it, and
                     instructor 1.17.0, v2/providers/bedrock/handlers.py, which refuses lengths too.
    cerebras         no bounds and no patterns either; pydantic-ai-slim 2.68.0 treats it as openai.
    cohere, groq     the same; no package has a list.

For all of these `oneOf` becomes `anyOf`, and a tuple a list whose items are of any of its types. Gemini
refuses nothing, and overlooks `const`, which becomes an `enum` of one value (google-genai 3.4.0,
`response_json_schema` in types.py). xAI enforces what it can and overlooks the rest (its documentation of
structured outputs; pydantic-ai-slim 2.68.0 sends it whole schemas).

Other providers, and servers at a `base_url` of the recipe, receive the full schema. So does vLLM, whose
xgrammar (0.2.8; vLLM's v1/structured_output/backend_xgrammar.py) has no multipleOf, uniqueItems, contains,
and no lengths beside a pattern or a format: its backend `auto` then takes another one. The prompts of ragc
use none of these.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_LENGTHS = frozenset({"minLength", "maxLength"})
_LISTS = frozenset({"minItems", "maxItems"})
_NUMBERS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_CONTENTS = frozenset({
    "contains", "maxContains", "maxProperties", "minContains", "minProperties", "patternProperties",
    "propertyNames", "unevaluatedItems", "unevaluatedProperties", "uniqueItems",
})  # fmt: skip
_CONDITIONS = frozenset(
    {"dependentRequired", "dependentSchemas", "discriminator", "else", "if", "not", "then"}
)
_FEW = _LENGTHS | _CONTENTS | _CONDITIONS
_MOST = _FEW | _LISTS | _NUMBERS | {"pattern"}

REFUSED: Mapping[str, frozenset[str]] = {
    "anthropic": _MOST,
    "azure": _FEW,
    "bedrock": _MOST,
    "cerebras": _MOST,
    "cohere": _MOST,
    "cohere_chat": _MOST,
    "groq": _MOST,
    "openai": _FEW,
}
"""Unsupported keywords in a strict schema, by LiteLLM's name of the provider."""

_WITHOUT_CONST = frozenset({"gemini", "vertex_ai", "vertex_ai_beta"})
_ONE_ITEM = frozenset({"anthropic", "bedrock"})
"""Who takes a `minItems` of 0 or 1."""

_FORMATS = frozenset({"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid"})
_LOOK_AROUND = re.compile(r"\(\?<?[=!]")


def accepted_schema(schema: Mapping[str, Any], provider: str) -> dict[str, Any]:
    """Returns `schema` without keywords that `provider` refuses; field names never count as keywords."""
    accepted: dict[str, Any] = dict(schema)
    if provider in REFUSED or provider in _WITHOUT_CONST:
        accepted = _reduced(schema, provider)
    return accepted


def _reduced(node: Any, provider: str, *, named: bool = False) -> Any:
    """Returns `node`, a schema or, if `named`, schemas by name."""
    if isinstance(node, list):
        return [_reduced(item, provider) for item in node]
    if not isinstance(node, Mapping):
        return node
    if named:
        return {name: _reduced(value, provider) for name, value in node.items()}
    reduced: dict[str, Any] = {}
    for keyword, value in node.items():
        if keyword == "const" and provider in _WITHOUT_CONST:
            reduced["enum"] = [value]
        elif keyword in ("enum", "const"):
            reduced[keyword] = value
        elif keyword == "prefixItems" and provider in REFUSED:
            kinds = [_reduced(kind, provider) for kind in value]
            distinct = [kind for at, kind in enumerate(kinds) if kind not in kinds[:at]]
            reduced["items"] = distinct[0] if len(distinct) == 1 else {"anyOf": distinct}
        elif provider not in REFUSED or not _is_refused(keyword, value, provider):
            name = "anyOf" if keyword == "oneOf" and provider in REFUSED else keyword
            reduced[name] = _reduced(value, provider, named=keyword in ("properties", "$defs"))
    return reduced


def _is_refused(keyword: str, value: Any, provider: str) -> bool:
    """Returns whether `provider` refuses a schema with `keyword` of this value."""
    if keyword == "minItems" and provider in _ONE_ITEM:
        return value not in (0, 1)
    if keyword == "format":
        return value not in _FORMATS
    if keyword == "pattern" and isinstance(value, str) and _LOOK_AROUND.search(value):
        return True
    return keyword in REFUSED[provider]
