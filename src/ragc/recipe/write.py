"""Writes recipes as TOML: the inverse of reading, for the values that recipes hold.

The same values give the same text: tables keep their given order, inline tables are sorted.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ragc.recipe.values import RISK, PickRule

if TYPE_CHECKING:
    from ragc.recipe.base import Recipe
    from ragc.recipe.models import Data, SourceSpec
    from ragc.targets.options import TargetSpec

_LATER = ("instruction_rounds", "prompt_tokens", "front")
"""Keys of `[search]` that are left out where they are 0 or empty."""

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def key(name: str) -> str:
    """Returns `name` as a TOML key, quoted only where it must be."""
    return name if _BARE_KEY.fullmatch(name) else _string(name)


def value(item: object) -> str:
    """Returns `item` on one line: text, a number, a boolean, or sequences and mappings of them.

    Raises TypeError for anything else and ValueError for a number that is not finite.
    """
    match item:
        case bool():
            return "true" if item else "false"
        case int():
            return str(item)
        case float():
            if not math.isfinite(item):
                raise ValueError(f"{item} cannot be written in a recipe")
            return repr(item)
        case str():
            return _string(item)
        case Mapping():
            pairs = ", ".join(f"{key(str(name))} = {value(inner)}" for name, inner in sorted(item.items()))
            return f"{{ {pairs} }}" if pairs else "{}"
        case Sequence():
            return f"[{', '.join(value(inner) for inner in item)}]"
    raise TypeError(f"{type(item).__name__} cannot be written as TOML")


def recipe_text(recipe: Recipe) -> str:
    """Returns `recipe` as TOML with all defaults; reading it returns an equal recipe."""
    search = {
        name: value
        for name, value in recipe.search
        if name not in ("ranges", "targets", "efforts", "looks", "risk", "limits", *_LATER)
    }
    if isinstance(recipe.search.pick, PickRule):
        search["pick"] = dict(recipe.search.pick)
    search |= {name: value for name in _LATER if (value := getattr(recipe.search, name))}
    search["looks"] = recipe.search.looks
    search |= {"risk": recipe.search.risk} if recipe.search.risk != RISK else {}
    data, maps = data_values(recipe.data), ("fields", "corpus_fields", "where")
    top = {"program": recipe.program, "seed": recipe.seed, "concurrency": recipe.concurrency}
    tables: dict[tuple[str, ...], Mapping[str, object]] = {
        (): top,
        ("knobs",): recipe.knobs,
        ("search",): search,
        ("search", "ranges"): recipe.search.ranges,
        ("search", "limits"): dict(recipe.search.limits),
        ("search", "targets"): recipe.search.targets,
        ("prompts",): dict(sorted(recipe.prompts.items())),
        ("data",): {name: value for name, value in data.items() if value != "" and name not in maps},
        **{("data", name): data[name] for name in maps},
    }
    specs: dict[tuple[str, str], SourceSpec | TargetSpec] = {
        **{("sources", name): spec for name, spec in sorted(recipe.sources.items())},
        **{("targets", role): target for role, target in sorted(recipe.targets.items())},
    }
    for path, member in specs.items():
        pairs = spec_values(member)
        options, fields = pairs.pop("options"), pairs.pop("fields", {})
        tables[path] = {key: value for key, value in pairs.items() if value != ""}
        tables[*path, "options"] = dict(sorted(options.items()))
        tables[*path, "fields"] = fields
    tables["metrics",] = {"report": recipe.report} | dict(recipe.assessing)
    tables["budget",] = dict(recipe.budget)
    tables["study",] = recipe.study.model_dump(exclude_defaults=True)
    grid = recipe.grid.model_dump(exclude={"product"})
    if any(grid.values()):
        tables["grid",] = grid
    tables["training_data",] = recipe.training_data.model_dump(exclude_defaults=True)
    return document(tables)


def data_values(data: Data) -> dict[str, Any]:
    """Returns the values of the table `[data]` by key, its maps of fields as they are given."""
    return {**dict(data), "fields": data.fields.explicit, "corpus_fields": data.corpus_fields.explicit}


def spec_values(spec: SourceSpec | TargetSpec) -> dict[str, Any]:
    """Returns the values of a table of sources or targets by key, its map of fields as it is given."""
    values: dict[str, Any] = {"kind": spec.kind} | dict(spec)
    return values | {"fields": values["fields"].explicit} if "fields" in values else values


def document(tables: Mapping[tuple[str, ...], Mapping[str, object]]) -> str:
    """Returns a document of `tables` in their order; the table `()` holds the keys at the top and comes
    first.

    A key whose value is None is left out, and so is a table that is then empty.
    """
    parts = []
    for path, pairs in tables.items():
        lines = [f"{key(name)} = {value(item)}" for name, item in pairs.items() if item is not None]
        if lines and path:
            lines.insert(0, f"[{'.'.join(map(key, path))}]")
        if lines:
            parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _string(text: str) -> str:
    """Returns a basic string; JSON's escapes are TOML's, except that TOML also escapes U+007F."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
