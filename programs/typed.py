"""Typed outputs of a signature: the pydantic model, its strict JSON schema, and reading replies."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

import json_repair
import pydantic
from pydantic.fields import FieldInfo

from ragc.errors import ParseFailure
from ragc.targets.sound import well_formed

LONGEST = 100_000
"""Characters of a reply that are read into typed outputs."""

DEEPEST = 100
"""Brackets that may stand open in a reply at once."""

_BRACKET = re.compile(r"[\[\](){}]")
_NOISE = ("title", "description", "default", "desc", "prefix", "__dspy_field_type")


@lru_cache(maxsize=512)
def output_model(signature: Any) -> type[pydantic.BaseModel]:
    """A pydantic model of the output fields, constraints included."""
    fields: dict[str, Any] = {}
    for name, info in signature.output_fields.items():
        plain = FieldInfo(annotation=info.annotation)
        plain.metadata = list(info.metadata)
        fields[name] = (info.annotation, plain)
    return pydantic.create_model(
        "Reply", __config__=pydantic.ConfigDict(extra="ignore", allow_inf_nan=False), **fields
    )


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
    if len(text) > LONGEST:
        raise ParseFailure(f"A reply has {len(text):,} characters; {LONGEST:,} at most are read.")
    if nested(text):
        raise ParseFailure(
            f"A reply opens more than {DEEPEST} brackets inside each other. It {_began(text)}."
        )
    model = output_model(signature)
    try:
        made = model.model_validate_json(text)
    except pydantic.ValidationError:
        made = _mended(model, text, truncated)
    except Exception as error:
        raise ParseFailure(f"A reply cannot be read ({type(error).__name__}). It {_began(text)}.") from error
    return {name: getattr(made, name) for name in signature.output_fields}


def nested(text: str) -> bool:
    """Whether `text` opens more than `DEEPEST` brackets inside each other, wherever they stand in it."""
    if text.count("[") + text.count("{") + text.count("(") <= DEEPEST:
        return False
    depth = 0
    for bracket in _BRACKET.findall(text):
        depth = depth + 1 if bracket in "[{(" else max(0, depth - 1)
        if depth > DEEPEST:
            return True
    return False


def _mended(model: type[pydantic.BaseModel], text: str, truncated: bool) -> pydantic.BaseModel:
    try:
        value = whole(json_repair.loads(text))
        if truncated and isinstance(value, dict):
            for name, info in model.model_fields.items():
                if name not in value and info.annotation is str:
                    value[name] = ""
        return model.model_validate(value)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the reply"
        raise ParseFailure(
            f"A reply does not fit its signature: {where}: {first['msg']}. It {_began(text)}."
        ) from error
    except Exception as error:  # json_repair, and validators of signatures, may raise anything
        raise ParseFailure(f"A reply cannot be read ({type(error).__name__}). It {_began(text)}.") from error


def whole(value: Any) -> Any:
    """`value`, of JSON, with every text in it well formed: an escape may name half of a surrogate pair."""
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, list):
        return [whole(item) for item in value]
    if isinstance(value, dict):
        return {well_formed(str(name)): whole(item) for name, item in value.items()}
    return value


def _began(text: str) -> str:
    return f"began {json.dumps(well_formed(text[:80]), ensure_ascii=False)}"
