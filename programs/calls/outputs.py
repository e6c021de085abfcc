"""The outputs of a signature: their pydantic model and JSON schemas."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pydantic
from pydantic.fields import FieldInfo

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
def parsing_schema(signature: Any) -> dict[str, Any]:
    """Returns the schema that replies are parsed by: `reply_schema`, but defaults are not required."""
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
