"""The JSON Schema of recipes (draft 2020-12), for completion and checks in editors.

It is generated from the models, so it states what `ragc` checks of one table. It cannot express checks across
tables: whether a program has a knob, or whether a file exists.
"""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from ragc import metrics
from ragc.core.user_code import REFERENCE
from ragc.recipe.models import Recipe
from ragc.recipe.values import PROGRAMS, dataset_names
from ragc.targets.base import ROLES

DIALECT = GenerateJsonSchema.schema_dialect
TITLE = "ragc recipe"


def json_schema() -> dict[str, Any]:
    """Returns the schema of a recipe as parsed TOML."""
    schema = Recipe.model_json_schema()
    tables = schema["$defs"]
    for table in (schema, *tables.values()):
        fields = table.get("properties", {})
        for field in fields.values():
            _tidy(field)
        for first in {"kind", "report"} & fields.keys():  # before the keys that depend on it
            table["properties"] = {first: fields[first]} | fields
    search = tables["Search"]["properties"]
    metric = {"anyOf": [{"enum": [one.id for one in metrics.METRICS]}, {"pattern": "[@:]"}]}
    objective = {"anyOf": [{"enum": _objectives()}, {"pattern": "[@:]"}]}
    tables["MetricsTable"]["properties"]["report"]["items"] |= metric
    search["objectives"]["items"] |= objective
    search["targets"]["propertyNames"] = {"enum": list(ROLES)}
    search["knobs"] = {**search["knobs"], "type": ["array", "string"]}
    ids = [name for name in dataset_names() if not name.startswith("hf:")]
    tables["Data"]["properties"]["dataset"]["anyOf"] = [{"enum": ids}, {"pattern": "^hf:."}]
    schema["properties"]["program"]["anyOf"] = [{"enum": list(PROGRAMS)}, {"pattern": f"^{REFERENCE}$"}]
    search["programs"]["items"]["enum"] = list(PROGRAMS)
    grid = tables["GridSpec"]["properties"]["product"]
    grid["anyOf"] = [grid["items"], {"type": grid.pop("type"), "items": grid.pop("items")}]
    for family in ("sources", "targets"):
        _point_at_keys(schema["properties"][family]["additionalProperties"])
    return {"$schema": DIALECT, **schema, "title": TITLE}


def _objectives() -> list[str]:
    return [one.id if one.higher_is_better else f"-{one.id}" for one in metrics.METRICS]


def _tidy(field: dict[str, Any]) -> None:
    """Removes what TOML cannot express: null, and defaults that mean an absent key."""
    kinds = [kind for kind in field.get("anyOf", ()) if kind != {"type": "null"}]
    if len(kinds) == 1:
        field |= kinds[0]
        del field["anyOf"]
    elif kinds:
        field["anyOf"] = kinds
    if field.get("default", True) in (None, "", {}) or (field.get("default") == [] and "minItems" in field):
        del field["default"]


def _point_at_keys(union: dict[str, Any]) -> None:
    """Repeats the kinds of a union as conditions, whose errors name the right key."""
    union["allOf"] = [
        {"if": {"properties": {"kind": {"const": kind}}, "required": ["kind"]}, "then": {"$ref": table}}
        for kind, table in union["discriminator"]["mapping"].items()
    ]
