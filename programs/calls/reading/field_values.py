"""Values of outputs that a text or a tag holds: numbers, lists and objects among them.

This module is part of exported Python files too: it needs nothing but the standard library.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from ragc.programs.calls.reading.json_objects import Tally
from ragc.programs.calls.reading.meaning import is_text, loads, numbers_in, python_value
from ragc.programs.calls.reading.mending import Mender
from ragc.programs.calls.reading.parsed import unfenced


def field_value(schema: Mapping[str, Any], value: Any, mender: Mender, repair: Callable[[str], Any]) -> Any:
    """The value of an output that a text or tags hold. `repair` makes a value of broken lists and objects."""
    kind = mender.resolve(schema)
    if not isinstance(value, str) or is_text(kind):
        return value
    if kind.get("type") == "boolean" and value in ("True", "False"):
        return value == "True"
    if "enum" in kind and value in kind["enum"]:
        return value
    held = loads(unfenced(value))
    if held is not None:
        return held
    if value.strip() in ("null", "None"):
        return None
    numbered = mender.resolve(kind.get("items") or {}).get("type") == "integer" and numbers_in(value)
    if kind.get("type") in ("array", "object") and not numbered:
        written = python_value(unfenced(value)) if re.search(r"[\[({]", value) else None
        if isinstance(written, (list, dict)):
            return written
    broken = kind.get("type") in ("array", "object") and unfenced(value).lstrip()[:1] in ("[", "{")
    return repair(value) if broken and not numbered else value


def resolved(schema: Mapping[str, Any], kind: Mapping[str, Any]) -> Mapping[str, Any]:
    """`kind`, or the schema among those of `schema` that it refers to."""
    return Mender(schema.get("$defs", {}), Tally()).resolve(kind)


def options_of(kind: Mapping[str, Any]) -> list[str]:
    """The words that `kind` allows; none where it allows anything else."""
    options = kind.get("enum") or ([kind["const"]] if "const" in kind else [])
    return list(options) if options and all(isinstance(option, str) for option in options) else []


def sole_output(schema: Mapping[str, Any]) -> str:
    """The only output, or the only one that must be there; "" where there are several."""
    names = list(schema["properties"])
    needed = names if len(names) == 1 else [name for name in names if name in schema.get("required", names)]
    return needed[0] if len(needed) == 1 else ""
