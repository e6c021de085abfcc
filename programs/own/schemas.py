"""Checks whether a reply's schema lists all of its fields; servers that enforce schemas refuse others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TYPED = ("type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const")


def is_closed(schema: Mapping[str, Any]) -> bool:
    """Returns whether every value that `schema` describes has a type, and every object only known fields."""
    return all(map(_node_is_closed, (schema, *schema.get("$defs", {}).values())))


def _node_is_closed(node: Any) -> bool:
    if not isinstance(node, Mapping) or not any(key in node for key in _TYPED):
        return False
    if node.get("type") == "object" and node.get("additionalProperties") is not False:
        return False
    if node.get("type") == "array" and "items" not in node and "prefixItems" not in node:
        return False
    inside = [*node.get("properties", {}).values(), *node.get("prefixItems", ())]
    inside += [node["items"]] if isinstance(node.get("items"), Mapping) else []
    inside += [one for key in ("anyOf", "oneOf", "allOf") for one in node.get(key, ())]
    return all(map(_node_is_closed, inside))
