"""The targets of a recipe: each by its role or name, checked by the target itself, and its fallbacks."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Literal, cast

from ragc import targets
from ragc.errors import UnknownName, UsageError
from ragc.recipe_secrets import holds_key, note_secrets
from ragc.recipe_table import Table
from ragc.targets.base import ROLES, TargetSpec

_VARIABLE = re.compile(r"([A-Za-z_]\w*)?", re.ASCII)
_REMEDY = "put it into an environment variable and name that in api_key_env"


def read_kind(table: Table, known: list[str], kind: str) -> str:
    """The kind of the source or target in `table`, one of `known`; "" is noted."""
    if "kind" not in table.values:
        table.note("kind", f"{table.name('kind')} is missing. Known: {', '.join(known)}.")
    return table.one_of("kind", known, kind)


def read_targets(table: Table, base: Path | None, players: Collection[str]) -> dict[str, TargetSpec]:
    """The targets by name: a role, one of the `players` that may stand in for a role, or a fallback."""
    found = {name: _target(inner, base) for name, inner in table.tables()}
    stand_ins = {other for spec in found.values() for other in _fallbacks(spec)}
    for name in [*found]:
        if name not in {*ROLES, *players, *stand_ins}:
            table.note(name, str(UnknownName("target role", name, ROLES)))
            del found[name]
    for name, spec in found.items():
        for other in _fallbacks(spec):
            if other not in found:
                table.note(
                    name, f"{table.name(name)} falls back on [targets.{other}], which is not there; add it"
                )
            elif other == name:
                table.note(name, f"{table.name(name)} lists itself in fallbacks; name other targets there")
    return found


def _fallbacks(spec: TargetSpec) -> list[str]:
    listed = spec.options.get("fallbacks")
    return [name for name in listed if isinstance(name, str)] if isinstance(listed, list | tuple) else []


def _target(table: Table, base: Path | None) -> TargetSpec:
    kind = read_kind(table, list(targets.TARGETS), "target kind")
    weights = kind == "embedded"  # a GGUF file, while the others name a model
    model = table.path("model", base) if weights else table.text("model")
    url = table.text("base_url")
    options = table.options("options")
    table.close(
        "What only one kind understands goes into an `options` table; keys come from the environment."
    )
    if "@" in url:
        name = table.name("base_url")
        table.note("base_url", f"{name} must not hold a name or password: recipes are passed on")
    else:
        note_secrets(table, "base_url", url, remedy=_REMEDY)
    note_secrets(table, "model", model, remedy=_REMEDY)
    variable = options.pop("api_key_env", "")
    secret = note_secrets(table, "options", options, remedy=_REMEDY)
    if holds_key(variable) or (isinstance(variable, str) and not _VARIABLE.fullmatch(variable)):
        name = f"{table.name('options')}.api_key_env"
        text = f"{name} must name an environment variable, such as OPENAI_API_KEY, not hold the key itself"
        table.notes.add((*table.keys, "options", "api_key_env"), text, hidden=True)
    elif variable != "":
        options["api_key_env"] = variable
    spec = TargetSpec(cast(Literal["embedded", "vllm", "hosted"], kind), model, url, options)
    if kind and not secret:  # what the target says may repeat a value
        _try_build(table, replace(spec, model="") if kind == "embedded" else spec)
    return spec


def _try_build(table: Table, spec: TargetSpec) -> None:
    """Note what the target itself says against `spec`; nothing is opened."""
    try:
        targets.build(spec)
    except UsageError as error:
        table.notes.add(table.keys, f"[{'.'.join(map(str, table.keys))}]: {error}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("ragc"):
            raise
        # The extra is not installed: opening the target says so, and a recipe may be checked elsewhere.
