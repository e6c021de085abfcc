"""Writes an export as a whole, and never over foreign files."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ragc.core.files import (
    PRIVATE_FILE,
    cache_home,
    check_folder,
    check_writable,
    make_private,
    put_file,
    put_folder,
    read_bytes,
    read_text,
    resolve_out,
    sha256,
)
from ragc.errors import UsageError

GRAPH = "graph.json"
VERSION = "export/1"
"""The value of the key `ragc` in every `graph.json`."""


WRITTEN = "exports.sha256"
"""The cache file with the digests of all single-file exports, which have no manifest."""


def refuse_existing(out: Path, *, force: bool) -> None:
    """Raises UsageError when `out` exists, unless `force` is true and it is empty or an unchanged export.

    Also raises it when a test write fails.
    """
    if os.path.lexists(out) and not force:
        raise UsageError(f"{out} exists; choose another --out, or replace it with --force.")
    where = resolve_out(out)
    if os.path.lexists(where):
        _check(where, out)
    if not where.is_dir():
        check_writable(where)


def _check(where: Path, out: Path) -> None:
    """Raises UsageError unless `where` holds an unchanged export."""
    folder = stat.S_ISDIR(where.lstat().st_mode)
    if not (_is_export(where) or not any(where.iterdir()) if folder else _is_own_file(where)):
        known = "" if folder else " (a single file is known when it was exported on this machine, unchanged)"
        raise UsageError(
            f"{out} exists and is no export, so it is not replaced{known}; choose another --out or move it "
            "away."
        )
    if folder:
        check_folder(where, GRAPH, what="an export", ours=_is_export)


def _is_export(folder: Path) -> bool:
    try:
        graph = json.loads(read_bytes(folder / GRAPH))
        return bool(graph["ragc"] == VERSION)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False


def _is_own_file(path: Path) -> bool:
    """Returns whether the regular file `path` is empty, or an unchanged export of this machine."""
    try:
        content = read_bytes(path)
        known = read_text(_record_file()).split() if content else ()
    except (OSError, ValueError):
        return False
    return not content or sha256(content) in known


def _record_file() -> Path:
    return cache_home() / WRITTEN


def _record_export(content: bytes) -> None:
    """Records a single-file export; if that fails, it only cannot be replaced later."""
    with suppress(OSError):
        make_private(_record_file().parent)
        _record_file().touch(PRIVATE_FILE)
        with _record_file().open("a", encoding="ascii") as file:
            file.write(f"{sha256(content)}\n")


def write_atomically(out: Path, tree: bytes | Mapping[str, bytes]) -> None:
    """Writes a file, or a folder of files by relative path, to `out`, which `refuse_existing` accepted.

    An existing export is replaced as a whole. Raises UsageError where a folder would become a file or a file
    a folder, or the folder was changed meanwhile, and OSError.
    """
    where = resolve_out(out)
    is_file = isinstance(tree, bytes)
    if os.path.lexists(where) and where.is_dir() == is_file:
        change = "folder, and the export is a file" if is_file else "file, and the export is a folder"
        raise UsageError(f"{out} is a {change}; remove it first, or choose another --out.")
    if isinstance(tree, bytes):
        _record_export(tree)  # first: a kill between the two must not leave a file that nobody may replace
    if isinstance(tree, bytes):
        put_file(where, tree)
    else:
        put_folder(where, tree, GRAPH)
