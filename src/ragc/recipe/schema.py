"""The JSON Schema of recipes (draft 2020-12), for completion and checks in editors.

It is generated from the models, so it states what `ragc` checks of one table. It cannot express checks across
tables: whether a program has a knob, or whether a file exists.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal

from pydantic import Field, create_model
from pydantic.json_schema import GenerateJsonSchema

from ragc import metrics
from ragc.core.plugins import Registry
from ragc.core.tables import Table
from ragc.corpora import SOURCES
from ragc.recipe.models import Recipe, SourceSpec, one_of
from ragc.targets import TARGETS
from ragc.targets.options import TargetSpec

_OTHERS = r"@([0-9]+|[^k].*)$|:"
"""How metrics with a cut or a role, and functions of the user's own, are told."""


def json_schema() -> dict[str, Any]:
    """Returns the schema of a recipe as parsed TOML."""
    schema = create_model(
        "Recipe",
        __base__=Recipe,
        __doc__=Recipe.__doc__,
        sources=_tables("sources", SOURCES, SourceSpec),
        targets=_tables("targets", TARGETS, TargetSpec),
    ).model_json_schema()
    for name in ("sources", "targets"):  # conditions, whose errors name the right key
        union = schema["properties"][name]["additionalProperties"]
        own = {"kind": {"type": "string", "pattern": ":", "description": "A class of your own, module:name."}}
        union["oneOf"].append({"type": "object", "properties": own, "required": ["kind"]})
        union["allOf"] = [
            {"if": {"properties": {"kind": {"const": kind}}, "required": ["kind"]}, "then": {"$ref": table}}
            for kind, table in union["discriminator"]["mapping"].items()
        ]
    listed = {one.id: one.higher_is_better for one in metrics.METRICS if not one.id.endswith("@k")}
    tables = schema["$defs"]
    tables["MetricsTable"]["properties"]["report"]["items"] = one_of(listed, _OTHERS).json_schema
    tables["Search"]["properties"]["objectives"]["items"] = one_of(
        (name if better else f"-{name}" for name, better in listed.items()), _OTHERS
    ).json_schema
    return {"$schema": GenerateJsonSchema.schema_dialect, **schema, "title": "ragc recipe"}


def _tables(key: str, registry: Registry[Any], shared: type[Table]) -> Any:
    """Returns the type and the field of the tables at `key`, of each kind in `registry`, told apart by
    `kind`.
    """
    models: list[Any] = []
    for name in registry:
        options, about = registry.get(name).options, registry.about()[name]
        needed = any(field.is_required() for field in options.model_fields.values())
        default: dict[str, Any] = {} if needed else {"default_factory": options}
        fields: dict[str, Any] = {
            "kind": (Literal[name], Field(description="Kind, which says what options there are.")),
            "options": (options, Field(description="What only this kind understands.", **default)),
        }
        models.append(
            create_model(
                f"{name.title()}Table", __base__=shared, __doc__=f"{about[:1].upper()}{about[1:]}.", **fields
            )
        )
    kinds: Any = Annotated[reduce(or_, models), Field(discriminator="kind")]
    return dict[str, kinds], Field(default_factory=dict, description=Recipe.model_fields[key].description)
