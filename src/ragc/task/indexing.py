"""Builds the indexes that a recipe's program searches, before any question is asked."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from ragc.core.progress import SILENT, Progress
from ragc.corpora.storage.index_cache import IndexFolder
from ragc.programs.runtime import Runtime
from ragc.recipe import Recipe
from ragc.task.base import prepare


def index(recipe: Recipe, *, progress: Progress = SILENT) -> list[dict[str, Any]]:
    """Builds the indexes for the program of `recipe` with its fixed knobs; no model is called.

    One row an index: `id` (the source's name), `kind`, `passages`, `path`, `bytes`, `seconds`, and `built`,
    False if it existed. A source without an index on disk gives no row. Raises DataError, UsageError and
    SourceError.
    """
    task = prepare(recipe, questions=False, progress=progress, answering=False)
    program = task.method.build(task.runtime, recipe.fixed(task.method))
    cut = list(_leaves(vars(program), []))
    rows: dict[str, dict[str, Any]] = {}
    for name, root in task.runtime.sources.items():
        for leaf in _leaves(root, []):
            searched = [part for part in cut if _same_corpus(part, leaf)] or [leaf]
            for part in searched:
                if row := _row(name, part, progress):
                    rows.setdefault(row["path"], row)
    return list(rows.values())


def _row(name: str, source: Any, progress: Progress) -> dict[str, Any] | None:
    started = time.monotonic()
    folder: IndexFolder | None = source.build(progress)
    if folder is None:
        return None
    seconds = round(time.monotonic() - started, 3)
    return {
        "id": name,
        "about": f"{source.kind}, {len(source.passages):,} passages, {folder.size:,} bytes, "
        + (f"built in {seconds:.1f} s" if folder.built else "was there"),
        "kind": source.kind,
        "passages": len(source.passages),
        "path": str(folder.path),
        "bytes": folder.size,
        "built": folder.built,
        "seconds": seconds,
    }


def _same_corpus(part: Any, root: Any) -> bool:
    return part.kind == root.kind and part.corpus is root.corpus


def _leaves(value: Any, seen: list[int]) -> Iterator[Any]:
    """Yields the sources in `value` that have an index, including those nested in other sources."""
    if id(value) in seen or isinstance(value, Runtime | str):
        return
    seen.append(id(value))
    if callable(getattr(value, "build", None)) and hasattr(value, "corpus"):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _leaves(inner, seen)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _leaves(inner, seen)
    elif _is_source(value):
        public = {name: inner for name, inner in vars(value).items() if not name.startswith("_")}
        yield from _leaves(public, seen)


def _is_source(value: Any) -> bool:
    return all(hasattr(value, name) for name in ("search", "fingerprint", "rechunk"))
