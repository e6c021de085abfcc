"""Putting an export on disk at once, and never over something else."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ragc.errors import UsageError

GRAPH = "graph.json"
VERSION = "export/1"
"""What the key `ragc` of every `graph.json` says."""


def refuse_existing(out: Path, *, force: bool) -> None:
    """Raise UsageError when `out` exists, unless `force` is true and it is a file, empty, or an export."""
    if not (out.exists() or out.is_symlink()):
        return
    if not force:
        raise UsageError(f"{out} exists; choose another --out, or replace it with --force.")
    if out.is_symlink() or (out.is_dir() and not _ours(out)):
        raise UsageError(f"{out} exists and is no export, so it is not replaced; choose another --out.")


def _ours(folder: Path) -> bool:
    """Whether `folder` is empty, an export, or the exports of several formats, as its `graph.json` says."""
    return not any(folder.iterdir()) or _is_export(folder)


def _is_export(folder: Path) -> bool:
    try:
        told = json.loads((folder / GRAPH).read_text("utf-8"))
        return bool(told["ragc"] == VERSION)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def place(out: Path, tree: bytes | Mapping[str, bytes]) -> None:
    """Write a file, or a folder of files by relative path, to `out`; what is there is replaced at once."""
    out.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    try:
        made = fresh / "made"
        if isinstance(tree, bytes):
            made.write_bytes(tree)
        else:
            for name, data in tree.items():
                (made / name).parent.mkdir(parents=True, exist_ok=True)
                (made / name).write_bytes(data)
        if out.exists():
            out.rename(fresh / "old")
        made.replace(out)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
