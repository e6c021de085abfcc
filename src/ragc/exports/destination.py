"""Writes an export as a whole, and never over foreign files."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
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


def refuse_existing(out: Path, *, force: bool, consumer_folders: Collection[str] = ()) -> None:
    """Raises UsageError when `out` exists, unless `force` is true and it is empty or an unchanged export.

    Folders called as in `consumer_folders`, which consumers make in an export, do not count. Also raises
    UsageError when a test write fails.
    """
    if os.path.lexists(out) and not force:
        raise UsageError(f"{out} exists; choose another --out, or replace it with --force.")
    where = resolve_out(out)
    if where.is_dir() and (_is_export(where) or not any(where.iterdir())):
        check_folder(where, GRAPH, what="an export", ours=_is_export, made=consumer_folders)
    elif os.path.lexists(where) and (where.is_dir() or not _is_own_file(where)):
        hint = " (a single file is known when it was exported on this machine, unchanged)"
        raise UsageError(
            f"{out} exists and is no export, so it is not replaced{'' if where.is_dir() else hint}; choose "
            "another --out or move it away."
        )
    else:
        check_writable(where)


def _is_export(folder: Path) -> bool:
    try:
        return bool(json.loads(read_bytes(folder / GRAPH))["ragc"] == VERSION)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False


def _is_own_file(path: Path) -> bool:
    """Returns whether the regular file `path` is empty, or an unchanged export of this machine."""
    try:
        content = read_bytes(path)
        return not content or sha256(content) in read_text(cache_home() / WRITTEN).split()
    except (OSError, ValueError):
        return False


def write_atomically(
    out: Path, tree: bytes | Mapping[str, bytes], consumer_folders: Collection[str] = ()
) -> None:
    """Writes a file, or a folder of files by relative path, to `out`, which `refuse_existing` accepted.

    An existing export is replaced as a whole, with the `consumer_folders` in it. Raises UsageError where a
    folder would become a file or a file a folder, or the folder was changed meanwhile, and OSError.
    """
    where, is_file = resolve_out(out), isinstance(tree, bytes)
    if os.path.lexists(where) and where.is_dir() == is_file:
        change = "folder, and the export is a file" if is_file else "file, and the export is a folder"
        raise UsageError(f"{out} is a {change}; remove it first, or choose another --out.")
    if not isinstance(tree, bytes):
        put_folder(where, tree, GRAPH, consumer_folders)
        return
    with suppress(OSError):  # it then only cannot be replaced later
        record = make_private(cache_home()) / WRITTEN
        record.touch(PRIVATE_FILE)
        with record.open("a", encoding="ascii") as file:
            file.write(f"{sha256(tree)}\n")  # first: a kill must not leave a file that nobody may replace
    put_file(where, tree)
