"""The JSON Schema of recipes (draft 2020-12), for completion and checks in editors.

It is generated from the models, so it states what `ragc` checks of one table. It cannot express checks across
tables: whether a program has a knob, or whether a file exists.
"""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

from ragc import metrics
from ragc.core.user_code import REFERENCE
from ragc.programs import NAMES
from ragc.recipe.models import Recipe
from ragc.recipe.values import dataset_names
from ragc.targets.base import ROLES

DIALECT = GenerateJsonSchema.schema_dialect
TITLE = "ragc recipe"

_OTHERS = r"@([0-9]+|[^k].*)$|:"
"""How metrics with a cut or a role, and functions of the user's own, are told."""


class _Toml(GenerateJsonSchema):
    """Leaves out what TOML cannot express: null, and defaults that mean an absent key."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> dict[str, Any]:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> dict[str, Any]:
        field = super().default_schema(schema)
        if field.get("default", True) in (None, "", {}, []):
            del field["default"]
        return field


def json_schema() -> dict[str, Any]:
    """Returns the schema of a recipe as parsed TOML."""
    schema = Recipe.model_json_schema(schema_generator=_Toml)
    tables = schema["$defs"]
    search = tables["Search"]["properties"]
    metric = {"anyOf": [{"enum": _metrics()}, {"type": "string", "pattern": _OTHERS}]}
    objective = {"anyOf": [{"enum": _metrics(signed=True)}, {"type": "string", "pattern": _OTHERS}]}
    tables["MetricsTable"]["properties"]["report"]["items"] |= metric
    search["objectives"]["items"] |= objective
    either = [{"type": "string"}, tables.pop("PickRule")]
    search["pick"] = {"description": search["pick"]["description"], "anyOf": either}
    search["targets"]["propertyNames"] = {"enum": list(ROLES)}
    knobs = {name: search["knobs"].pop(name) for name in ("type", "items")}
    search["knobs"]["anyOf"] = [{"const": "all"}, knobs]
    ids = [name for name in dataset_names() if not name.startswith("hf:")]
    tables["Data"]["properties"]["dataset"]["anyOf"] = [{"enum": ids}, {"type": "string", "pattern": "^hf:."}]
    schema["properties"]["program"]["anyOf"] = [
        {"enum": list(NAMES)},
        {"type": "string", "pattern": f"^{REFERENCE}$"},
    ]
    for family in ("sources", "targets"):
        _point_at_keys(schema["properties"][family]["additionalProperties"])
    return {"$schema": DIALECT, **schema, "title": TITLE}


def _metrics(*, signed: bool = False) -> list[str]:
    """Returns the ids of metrics; with `signed`, with `-` in front where less is better."""
    listed = [one for one in metrics.METRICS if not one.id.endswith("@k")]
    return [f"-{one.id}" if signed and not one.higher_is_better else one.id for one in listed]


def _point_at_keys(union: dict[str, Any]) -> None:
    """Repeats the kinds of a union as conditions, whose errors name the right key."""
    union["allOf"] = [
        {"if": {"properties": {"kind": {"const": kind}}, "required": ["kind"]}, "then": {"$ref": table}}
        for kind, table in union["discriminator"]["mapping"].items()
    ]
