"""Fields of typed calls that had other names or types when a program was compiled.

    steps: list of texts      ->  trajectory       ReAct and Self-Ask, until 0.1
    trajectory: one text      ->  one text a step  PrefRAG, until 0.1
    need: {"percent": 40}     ->  40               Self-RAG and RQ-RAG, until 0.1

A compiled program of then is read as if it had been written with the fields of now. Fields of a user's own
module that bear such a name with another type are left as they are. What a store holds of the calls above is
not found again, as prompts name the fields.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pydantic.fields import FieldInfo

from ragc.signatures.values import Trajectory

RENAMED = {"steps": "trajectory"}
"""Names of now by names of then."""

NOTHING = "none"
"""PrefRAG's trajectory before the first step, when it was one text."""


def present_name(name: str, present: Collection[str]) -> str:
    """Returns the name that field `name` has now, where a call has the fields `present`."""
    now = RENAMED.get(name, name)
    return now if name not in present and now in present else name


def present_demo(demo: Mapping[str, Any], present: Mapping[str, FieldInfo]) -> dict[str, Any]:
    """Returns a demonstration with the names and types of now, where a call has the fields `present`."""
    values = {present_name(name, present): value for name, value in demo.items()}
    types = {name: field.annotation for name, field in present.items()}
    match values:
        case {"trajectory": str(text)} if types.get("trajectory") == Trajectory:
            values["trajectory"] = [] if text in ("", NOTHING) else [text]
        case {"need": {"percent": percent}} if types.get("need") is int:
            values["need"] = percent
    return values
