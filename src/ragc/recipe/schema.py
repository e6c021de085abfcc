"""The JSON Schema of recipes (draft 2020-12), for completion and checks in editors.

It is generated from the models, so it states what `ragc` checks of one table. It cannot express checks across
tables: whether a knob belongs to the program, or whether a file exists.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from ragc import metrics
from ragc.core.user_code import REFERENCE
from ragc.metrics import cost, retrieval
from ragc.programs import METHODS
from ragc.programs.knobs import NAME, Knob
from ragc.recipe.models import RecipeTables
from ragc.targets.base import ROLES

DIALECT = GenerateJsonSchema.schema_dialect
TITLE = "ragc recipe"

_SCALAR = {"type": ["string", "number", "boolean"]}
_OWN_VALUE = {"anyOf": [_SCALAR, {"type": "array", "items": _SCALAR, "minItems": 1}]}
"""What a knob of a user's own program, or its range, may be."""

_FILTER: dict[str, Any] = {
    "description": "A value, a list of values of which one is enough, or a table of further paths.",
    "anyOf": [
        _SCALAR,
        {"type": "array", "items": _SCALAR, "minItems": 1},
        {"type": "object", "additionalProperties": {"$ref": "#/$defs/Filter"}},
    ],
}


def json_schema() -> dict[str, Any]:
    """Returns the schema of a recipe as parsed TOML."""
    schema = RecipeTables.model_json_schema()
    tables = schema["$defs"]
    for table in (schema, *tables.values()):
        fields = table.get("properties", {})
        for field in fields.values():
            _tidy(field)
        for first in {"kind", "report"} & fields.keys():  # before the keys that depend on it
            table["properties"] = {first: fields[first]} | fields
    knobs = _knobs_by_name()
    schema["properties"]["knobs"] |= _table({name: _value_schema(same) for name, same in knobs.items()})
    search = tables["Search"]["properties"]
    search["ranges"] |= _table({name: _range_schema(same) for name, same in knobs.items()})
    values = {name: _value_schema(same) for name, same in knobs.items()}
    grid = tables["GridSpec"]["properties"]
    grid["settings"]["items"] = {"type": "object", "properties": values}
    names = {"type": "array", "items": {"enum": sorted(knobs)}, "uniqueItems": True}
    search["knobs"]["anyOf"] = [{"const": "all"}, names]
    tables["Metric"], tables["Objective"], tables["Filter"] = _metric(), _metric(signed=True), _FILTER
    search["objectives"]["items"] = {"$ref": "#/$defs/Objective"}
    search["pick"]["anyOf"][0] = {"$ref": "#/$defs/Objective"}
    tables["MetricsTable"]["properties"]["report"]["items"] = {"$ref": "#/$defs/Metric"}
    tables["Data"]["properties"]["where"]["additionalProperties"] = {"$ref": "#/$defs/Filter"}
    for family in ("sources", "targets"):
        _point_at_keys(schema["properties"][family]["additionalProperties"])
    search["targets"]["propertyNames"] = {"enum": list(ROLES)}
    return {"$schema": DIALECT, **schema, **_own_knobs(schema, search), "title": TITLE}


def _own_knobs(schema: dict[str, Any], search: dict[str, Any]) -> dict[str, Any]:
    """Returns the condition under which knobs may have any name: a user's own program, which declares them.

    The restrictions of names are moved out of `schema` and its table `search`.
    """
    own = {"properties": {"program": {"pattern": f"^{REFERENCE}$"}}, "required": ["program"]}
    strict: dict[str, Any] = {"knobs": {}, "search": {"properties": {"ranges": {}, "knobs": {}}}}
    for limits, table in ((strict, schema["properties"]), (strict["search"]["properties"], search)):
        for name in ("knobs", "ranges"):
            if name in limits and "additionalProperties" in table[name]:
                limits[name] = {"propertyNames": {"enum": sorted(table[name]["properties"])}}
                table[name]["additionalProperties"] = _OWN_VALUE
    listed = search["knobs"]["anyOf"][1]
    strict["search"]["properties"]["knobs"] = {"anyOf": [{"const": "all"}, {"items": dict(listed["items"])}]}
    listed["items"] = {"anyOf": [listed["items"], {"type": "string"}]}
    return {"if": own, "else": {"properties": strict}}


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


def _metric(*, signed: bool = False) -> dict[str, Any]:
    """Returns the ids of metrics; with `signed`, prefixed with `-` where less is better."""
    ids, patterns = [], []
    for metric in metrics.METRICS:
        sign = "-" if signed and not metric.higher_is_better else ""
        name, _, cut = metric.id.partition("@")
        if cut == "k" and name in retrieval.CUT:
            patterns.append(f"^{sign}{name}@[1-9][0-9]*$")
        else:
            ids.append(f"{sign}{metric.id}")
        if name in cost.BY:
            patterns.append(f"^{sign}{name}@.+$")
    patterns.append(f"^{REFERENCE}$")
    described = "A metric, with - before one where less is better." if signed else "A metric."
    either = [{"enum": ids}, *({"type": "string", "pattern": pattern} for pattern in dict.fromkeys(patterns))]
    return {"description": described, "anyOf": either}


def _knobs_by_name() -> dict[str, list[Knob]]:
    """Returns the knobs of all programs by name; those of one name may differ in range."""
    knobs: dict[str, list[Knob]] = {}
    for method in METHODS:
        for knob in method.knobs.list_knobs():
            knobs.setdefault(knob.name, []).append(knob)
    return knobs


def _table(properties: dict[str, Any]) -> dict[str, Any]:
    return {"properties": properties, "additionalProperties": False}


def _value_schema(knobs: Iterable[Knob]) -> dict[str, Any]:
    """Returns the values of a knob, over all programs that have it."""
    knobs = list(knobs)
    return {"description": knobs[0].about, **_either([_one_value(knob) for knob in knobs])}


def _range_schema(knobs: Iterable[Knob]) -> dict[str, Any]:
    knobs = list(knobs)
    return {"description": knobs[0].about, **_either([_one_range(knob) for knob in knobs])}


def _either(schemas: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the union of `schemas`, without duplicates."""
    distinct = [schema for at, schema in enumerate(schemas) if schema not in schemas[:at]]
    return distinct[0] if len(distinct) == 1 else {"anyOf": distinct}


def _one_value(knob: Knob) -> dict[str, Any]:
    if knob.kind == "switch":
        return {"type": "boolean"}
    if knob.kind == "choice" and knob.named:
        return {"type": "string", "pattern": NAME}
    if knob.kind == "choice":
        return {"enum": list(knob.options)}
    limits = {"minimum": knob.low, "maximum": knob.high}
    kind = "integer" if knob.kind == "int" else "number"
    return {"type": kind, **{name: limit for name, limit in limits.items() if limit is not None}}


def _one_range(knob: Knob) -> dict[str, Any]:
    items = {"type": "array", "items": _one_value(knob), "minItems": 1}
    if knob.kind in ("int", "float"):
        return {**items, "minItems": 2, "maxItems": 2}
    return {**items, "uniqueItems": True}
