"""Checks that a local folder in the format of the `datasets` library refers only to files inside it.

Its card (`README.md`, `.huggingface.yaml`) and the records of `save_to_disk` name files, and the library
would follow them to any path and address. They are checked here first, with symbolic links resolved.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

_CARD, _YAML = "README.md", ".huggingface.yaml"
_PATHS = frozenset({"data_files", "data_dir"})
_UP = re.compile(r"(^|[/\\])\.\.([/\\]|$)")


def find_outside_path(folder: Path) -> str:
    """Describes a reference in `folder` that leads out of it; "" if there is none.

    Raises the library's errors for an unreadable card.
    """
    root = folder.resolve()
    for link in _symlinks(folder):
        if not link.resolve().is_relative_to(root):
            return f"`{link.relative_to(folder)}` is a link to a place outside the folder"
    for name, value in _named_paths(folder):
        if leads_out(value):
            return f"`{name}` names {value[:200]!r}, which is not a path within the folder"
    return ""


def files_outside(folder: Path, data_files: Mapping[str, Iterable[str]] | None) -> str:
    """Returns the first of `data_files`, by split, that is not in `folder`; "" when all are."""
    root = folder.resolve()
    for files in (data_files or {}).values():
        for file in map(str, files):
            if "://" in file or "::" in file or not Path(file).resolve().is_relative_to(root):
                return file
    return ""


def leads_out(path: str) -> bool:
    """Returns whether `path` may lead out of the folder of the file that names it."""
    return "://" in path or "::" in path or path.startswith(("/", "~", "\\")) or _UP.search(path) is not None


def _symlinks(folder: Path) -> Iterator[Path]:
    for at, folders, files in os.walk(folder):
        yield from (Path(at, name) for name in (*folders, *files) if Path(at, name).is_symlink())


def _named_paths(folder: Path) -> Iterator[tuple[str, str]]:
    """Yields the paths named by the folder's own files, each with the naming file."""
    for name, configs in _configs(folder):
        for key, text in _texts(configs, ""):
            if key in _PATHS or "://" in text or "::" in text:
                yield name, text
    for state in sorted(folder.rglob("state.json")):
        for entry in _read_list(state, "_data_files"):
            if isinstance(entry, dict) and isinstance(entry.get("filename"), str):
                yield str(state.relative_to(folder)), entry["filename"]
    for split in _read_list(folder / "dataset_dict.json", "splits"):
        if isinstance(split, str):
            yield "dataset_dict.json", split


def _configs(folder: Path) -> Iterator[tuple[str, Any]]:
    if (folder / _CARD).is_file():
        from huggingface_hub import DatasetCard

        card: Any = DatasetCard.load(folder / _CARD)
        yield _CARD, card.data.to_dict().get("configs")
    if (folder / _YAML).is_file():
        import yaml

        read = yaml.safe_load((folder / _YAML).read_text("utf-8"))
        yield _YAML, read.get("configs") if isinstance(read, dict) else None


def _texts(value: Any, key: str) -> Iterator[tuple[str, str]]:
    """Yields every text in `value`, with its key, or with the enclosing key of a path."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _texts(inner, key if key in _PATHS else str(name))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner, key)


def _read_list(path: Path, key: str) -> list[Any]:
    """Returns the list under `key` of a JSON file; [] if it is missing, which the library reports."""
    try:
        read = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return []
    listing = read.get(key) if isinstance(read, dict) else None
    return listing if isinstance(listing, list) else []
