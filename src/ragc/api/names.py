"""The names that recipes may use, from the tables that the code itself reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ragc import corpora, metrics
from ragc.core.plugins import Registry
from ragc.core.user_code import is_reference
from ragc.corpora import SOURCES, datasets
from ragc.errors import UnknownName, UsageError
from ragc.exports import write
from ragc.programs import METHODS, Method, method
from ragc.targets import TARGETS

KINDS = (
    "programs",
    "knobs",
    "metrics",
    "datasets",
    "sources",
    "rerankers",
    "embedders",
    "targets",
    "exports",
)
"""What `list_names` lists."""


def list_names(kind: str, program: str | None = None) -> list[dict[str, Any]]:
    """Lists the names of a `kind` that recipes may use, each as a JSON object with `id` and what it is.

    `kind` is programs, metrics, datasets, sources, rerankers, embedders, targets or exports, or knobs with
    the name of a `program`, which may be one of your own (`my_module:MyProgram`).

        [row["id"] for row in ragc.list_names("knobs", "vanilla")]

    Raises UnknownName, with the nearest name, and UsageError for knobs without a program or a program where
    none belongs.
    """
    if kind not in KINDS:
        raise UnknownName("kind of names", kind, KINDS)
    if kind == "knobs":
        if not program:
            raise UsageError("ragc list knobs needs a program: ragc list knobs vanilla.")
        return [knob.to_json() for knob in _method(program).knobs.list_knobs()]
    if program:
        raise UsageError(f"ragc list {kind} takes nothing more, found {program!r}.")
    if kind == "programs":
        return [entry.to_json() for entry in METHODS]
    if kind == "metrics":
        own = [{"id": m.id, "about": m.about, "unit": m.unit} for m in metrics.METRICS]
        return own + _added(metrics.ADDED)
    if kind == "datasets":
        cards = [datasets.card(id) for id in datasets.FILES]
        return [_entry(entry) for entry in corpora.DATASETS] + [card.to_json() for card in cards]
    if kind == "exports":
        return [write.format_of(id).to_json() for id in write.FORMATS] + _added(write.FORMATS)
    return [{"id": name, "about": about} for name, about in _registry(kind).about().items()]


def _added(registry: Registry[Any]) -> list[dict[str, Any]]:
    """What other packages add, which is not imported for a list."""
    return [{"id": id, "about": about} for id, about in registry.about().items() if id not in registry]


def _registry(kind: str) -> Registry[Any]:
    """Returns the registry of the kinds `kind`; those of models need numpy."""
    if kind == "rerankers":
        from ragc.corpora.rerank import RERANKERS

        return RERANKERS
    if kind == "embedders":
        from ragc.corpora.embed import EMBEDDERS

        return EMBEDDERS
    return SOURCES if kind == "sources" else TARGETS


def _method(program: str) -> Method:
    """Returns the program of that name; a user's own is imported from the working directory."""
    if not is_reference(program):
        return method(program)
    from ragc.programs.own import own_method

    return own_method(program, Path.cwd())


def _entry(entry: corpora.Entry) -> dict[str, Any]:
    return {"id": entry.id, "about": entry.about}
