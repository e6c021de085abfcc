"""Programs: one file per method and baseline, and the table that lists them all.

Importing this package is quick: DSPy is imported only when a method is built, and the package of a paper when
it is named.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from ragc.errors import UnknownName
from ragc.programs.baselines import BASELINES
from ragc.programs.method import Method

PAPERS = ("prefrag", "ragx", "ggatrieval", "rqrag", "slimplm")
"""The methods of a paper each, whose packages have their names."""

METHODS: tuple[Method, ...]
"""Every program, in the order of all listings: two plain baselines, the five methods, the other baselines."""

_BASELINES = {name: entry for entry in BASELINES for name in (entry.id, *entry.also)}

NAMES: tuple[str, ...] = (*tuple(_BASELINES)[:2], *PAPERS, *tuple(_BASELINES)[2:])
"""Every name that a program answers to."""


def table() -> str:
    """Returns the programs as a Markdown table, as the documentation lists them."""
    rows = ["| program | what it does | from | sources | roles |", "| --- | --- | --- | --- | --- |"]
    for entry in _methods():
        names = ", ".join((*entry.sources, *(f"({name})" for name in entry.optional_sources))) or "-"
        roles = ", ".join((*entry.roles, *(f"({name})" for name in entry.optional_roles)))
        rows.append(f"| `{entry.id}` | {entry.about} | {entry.paper} | {names} | {roles} |")
    return "\n".join(rows)


def method(id: str, base: Path | None = None) -> Method:
    """Returns the method called `id`; raises UnknownName with the nearest one.

    A user's own program, from the folder `base`, is found if it was imported before; nothing is imported for
    it.
    """
    if id in _BASELINES:
        return _BASELINES[id]
    if id in PAPERS:
        return _of_paper(id)
    if ":" in id:
        from ragc.programs.own import registered

        return registered(id, base)
    raise UnknownName("program", id, NAMES)


def _of_paper(id: str) -> Method:
    entry: Method = import_module(f"{__name__}.{id}").METHOD
    return entry


def _methods() -> tuple[Method, ...]:
    return (*BASELINES[:2], *map(_of_paper, PAPERS), *BASELINES[2:])


def __getattr__(name: str) -> Any:
    """Returns `METHODS`, for which the packages of all papers are imported."""
    if name == "METHODS":
        return _methods()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["METHODS", "NAMES", "Method", "method", "table"]
