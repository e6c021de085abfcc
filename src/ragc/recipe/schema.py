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

_OTHERS = r"@([0-9]+|[^k].*)$|:"
"""How metrics with a cut or a role, and functions of the user's own, are told."""


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
        {"enum": list(PROGRAMS)},
        {"type": "string", "pattern": f"^{REFERENCE}$"},
    ]
    search["programs"]["items"]["enum"] = list(PROGRAMS)
    grid = tables["GridSpec"]["properties"]["product"]
    grid["anyOf"] = [grid["items"], {"type": grid.pop("type"), "items": grid.pop("items")}]
    for family in ("sources", "targets"):
        _point_at_keys(schema["properties"][family]["additionalProperties"])
    return {"$schema": DIALECT, **schema, "title": TITLE}


def _metrics(*, signed: bool = False) -> list[str]:
    """Returns the ids of metrics; with `signed`, with `-` in front where less is better."""
    listed = [one for one in metrics.METRICS if not one.id.endswith("@k")]
    return [f"-{one.id}" if signed and not one.higher_is_better else one.id for one in listed]


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
