"""Programs: one file per method and baseline, and the table that lists them all.

Importing this package is quick: DSPy is imported only when a method is built.
"""

from __future__ import annotations

from pathlib import Path

from ragc.errors import UnknownName
from ragc.programs.baselines import BASELINES
from ragc.programs.ggatrieval import METHOD as GGATRIEVAL
from ragc.programs.method import Method
from ragc.programs.prefrag import METHOD as PREFRAG
from ragc.programs.ragx import METHOD as RAGX
from ragc.programs.rqrag import METHOD as RQRAG
from ragc.programs.slimplm import METHOD as SLIMPLM

METHODS: tuple[Method, ...] = (*BASELINES[:2], PREFRAG, RAGX, GGATRIEVAL, RQRAG, SLIMPLM, *BASELINES[2:])
"""Every program, in the order of all listings: two plain baselines, the five methods, the other baselines."""

NAMES: tuple[str, ...] = tuple(name for entry in METHODS for name in (entry.id, *entry.also))
"""Every name that a program answers to."""


def table() -> str:
    """Returns the programs as a Markdown table, as the documentation lists them."""
    rows = ["| program | what it does | from | sources | roles |", "| --- | --- | --- | --- | --- |"]
    for entry in METHODS:
        names = ", ".join((*entry.sources, *(f"({name})" for name in entry.optional_sources))) or "-"
        roles = ", ".join((*entry.roles, *(f"({name})" for name in entry.optional_roles)))
        rows.append(f"| `{entry.id}` | {entry.about} | {entry.paper} | {names} | {roles} |")
    return "\n".join(rows)


def method(id: str, base: Path | None = None) -> Method:
    """Returns the method called `id`; raises UnknownName with the nearest one.

    A user's own program, from the folder `base`, is found if it was imported before; nothing is imported for
    it.
    """
    for entry in METHODS:
        if id in (entry.id, *entry.also):
            return entry
    if ":" in id:
        from ragc.programs.own import registered

        return registered(id, base)
    raise UnknownName("program", id, NAMES)


__all__ = ["METHODS", "NAMES", "Method", "method", "table"]
