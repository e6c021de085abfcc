"""Recipes as texts, and folders that hold one with its data."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.rows import write_rows

FILES = {"questions": "questions.jsonl", "corpus": "corpus.jsonl"}


def vllm(url: str, model: str = "m", **options: Any) -> dict[str, Any]:
    """Returns the table of a target: a server of vLLM at `url`."""
    table: dict[str, Any] = {"kind": "vllm", "model": model, "base_url": url}
    return table | ({"options": options} if options else {})


def recipe_toml(
    program: str = "vanilla",
    *,
    data: Mapping[str, Any] | None = None,
    sources: Sequence[str] | Mapping[str, Any] = ("local",),
    targets: Sequence[str] | Mapping[str, Any] = ("main",),
    metrics: Sequence[str] = (),
    **more: Any,
) -> str:
    """Returns a recipe of `program` as TOML, with the keys and tables of `more`.

    `data` stands beside the two names of FILES, or alone where it names a data set. Sources that are only
    named are BM25, and targets embedded; a text instead of a table is a kind. `metrics` are those reported.
    """
    data = data or {}
    tables: dict[str, Any] = {
        "program": program,
        **more,
        "data": data if "dataset" in data else {**FILES, **data},
        "sources": _kinds(sources, "bm25"),
        "targets": _kinds(targets, "embedded"),
    }
    return _toml(tables | ({"metrics": {"report": metrics}} if metrics else {}))


def write_files(
    folder: Path,
    *,
    recipe: str = "",
    questions: Iterable[Any] | None = None,
    corpus: Iterable[Any] | None = None,
) -> Path:
    """Writes what is given of a recipe and the rows of FILES into `folder`, and returns the folder."""
    if recipe:
        (folder / "recipe.toml").write_text(recipe, "utf-8")
    for name, rows in (("questions", questions), ("corpus", corpus)):
        if rows is not None:
            write_rows(folder / FILES[name], rows)
    return folder


def _kinds(named: Sequence[str] | Mapping[str, Any], kind: str) -> dict[str, Any]:
    tables = named if isinstance(named, Mapping) else dict.fromkeys(named, kind)
    return {name: {"kind": table} if isinstance(table, str) else table for name, table in tables.items()}


def _toml(table: Mapping[str, Any], path: str = "") -> str:
    lines = [f"[{path}]"] if path and not all(isinstance(item, Mapping) for item in table.values()) else []
    lines += [f"{name} = {value(item)}" for name, item in table.items() if not isinstance(item, Mapping)]
    inner = [
        _toml(item, f"{path}.{name}" if path else name)
        for name, item in table.items()
        if isinstance(item, Mapping)
    ]
    return "\n".join([*lines, ""]) + "".join(inner) if lines else "".join(inner)


def value(item: object) -> str:
    """Returns `item` as TOML on one line."""
    if isinstance(item, Mapping):
        pairs = [
            f"{name if name.isidentifier() else json.dumps(name)} = {value(item[name])}" for name in item
        ]
        return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
    return f"[{', '.join(map(value, item))}]" if isinstance(item, list | tuple) else json.dumps(item)
