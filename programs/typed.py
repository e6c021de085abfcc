"""Typed outputs of a signature: the pydantic model, its strict JSON schema, and reading replies."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import json_repair
import pydantic
from pydantic.fields import FieldInfo

from ragc.errors import ParseFailure

_NOISE = ("title", "description", "default", "desc", "prefix", "__dspy_field_type")


@lru_cache(maxsize=512)
def output_model(signature: Any) -> type[pydantic.BaseModel]:
    """A pydantic model of the output fields, constraints included."""
    fields: dict[str, Any] = {}
    for name, info in signature.output_fields.items():
        plain = FieldInfo(annotation=info.annotation)
        plain.metadata = list(info.metadata)
        fields[name] = (info.annotation, plain)
    return pydantic.create_model("Reply", __config__=pydantic.ConfigDict(extra="ignore"), **fields)


@lru_cache(maxsize=512)
def reply_schema(signature: Any) -> dict[str, Any]:
    """The strict JSON schema of a reply: every property required, none added, bounds kept."""
    strict: dict[str, Any] = _strict(output_model(signature).model_json_schema())
    return strict


def _strict(node: Any, *, named: bool = False) -> Any:
    """`node` without prose; `named` tells that its keys are names of ours, not schema keywords."""
    if isinstance(node, list):
        return [_strict(item) for item in node]
    if not isinstance(node, dict):
        return node
    out = {
        key: _strict(value, named=key in ("properties", "$defs") and not named)
        for key, value in node.items()
        if named or key not in _NOISE
    }
    if not named and out.get("type") == "object" and "properties" in out:
        out["required"] = list(out["properties"])
        out["additionalProperties"] = False
    return out


def read_json(signature: Any, text: str, *, truncated: bool = False) -> dict[str, Any]:
    """The typed outputs in a JSON reply, by field name.

    A reply with prose around it, or one that was cut short (`truncated`), is mended first. Raises
    ParseFailure saying which field is wrong.
    """
    model = output_model(signature)
    try:
        made = model.model_validate_json(text)
    except pydantic.ValidationError:
        made = _mended(model, text, truncated)
    return {name: getattr(made, name) for name in signature.output_fields}


def _mended(model: type[pydantic.BaseModel], text: str, truncated: bool) -> pydantic.BaseModel:
    value = json_repair.loads(text)
    if truncated and isinstance(value, dict):
        for name, info in model.model_fields.items():
            if name not in value and info.annotation is str:
                value[name] = ""
    try:
        return model.model_validate(value)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the reply"
        start = json.dumps(text[:80], ensure_ascii=False)
        raise ParseFailure(
            f"A reply does not fit its signature: {where}: {first['msg']}. It began {start}."
        ) from error
