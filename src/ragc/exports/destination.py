"""Writes an export to disk atomically, and never over foreign files."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ragc.core import inputs, outputs
from ragc.core.activity import doing
from ragc.core.home import cache_home, make_private, open_private
from ragc.errors import UsageError

GRAPH = "graph.json"
VERSION = "export/1"
"""The value of the key `ragc` in every `graph.json`."""

_NAMES = re.compile(r"([\w-][^/]*/){0,2}[\w-][^/]*")
"""The files of an export: at most two folders deep, and none hidden."""

WRITTEN = "exports.sha256"
"""The cache file with the digests of all single-file exports, which have no manifest."""


def refuse_existing(out: Path, *, force: bool) -> None:
    """Raises UsageError when `out` exists, unless `force` is true and it is empty or an unchanged export.

    Also raises it when a test write fails.
    """
    if os.path.lexists(out) and not force:
        raise UsageError(f"{out} exists; choose another --out, or replace it with --force.")
    where = outputs.resolve_out(out)
    if os.path.lexists(where):
        _check(where, out)
    outputs.check_writable(where)


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
        outputs.check_folder(where, GRAPH, what="an export", ours=_is_export, names=_NAMES)


def _is_export(folder: Path) -> bool:
    try:
        graph = json.loads(inputs.read_bytes(folder / GRAPH))
        return bool(graph["ragc"] == VERSION)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False


def _is_own_file(path: Path) -> bool:
    """Returns whether the regular file `path` is empty, or an unchanged export of this machine."""
    try:
        content = inputs.read_bytes(path)
        known = inputs.read_text(_record_file()).split() if content else ()
    except (OSError, ValueError):
        return False
    return not content or outputs.sha256(content) in known


def _record_file() -> Path:
    return cache_home() / WRITTEN


def _record_export(content: bytes) -> None:
    """Records a single-file export; if that fails, it only cannot be replaced later."""
    with suppress(OSError):
        make_private(_record_file().parent)
        with open(_record_file(), "a", encoding="ascii", opener=open_private) as file:
            file.write(f"{outputs.sha256(content)}\n")


def write_atomically(out: Path, tree: bytes | Mapping[str, bytes]) -> None:
    """Writes a file, or a folder of files by relative path, to `out`, which `refuse_existing` accepted.

    An existing export is replaced atomically; foreign files in its folder stay. Raises UsageError when one is
    in the way, and OSError.
    """
    where = outputs.resolve_out(out)
    if isinstance(tree, bytes):
        _record_export(tree)  # first: a kill between the two must not leave a file that nobody may replace
    with doing(f"Writing the export to {out}"):
        if where.is_dir() == isinstance(tree, bytes) and os.path.lexists(where):
            _replace(where, tree)
        else:
            _put(where, tree)


def _put(where: Path, tree: bytes | Mapping[str, bytes]) -> None:
    if isinstance(tree, bytes):
        outputs.put_file(where, tree)
    else:
        outputs.put_folder(where, tree, GRAPH)


def _replace(where: Path, tree: bytes | Mapping[str, bytes]) -> None:
    """Replaces a folder by a file, or a file by a folder."""
    if where.is_dir():
        foreign = _foreign(where)
        if foreign is not None:
            raise UsageError(
                f"{foreign} is not part of the export at {where}, which a single file is to replace; move it "
                "away or choose another --out."
            )
    aside = Path(tempfile.mkdtemp(prefix=f".{where.name[:60]}-", dir=where.parent))
    other = aside / "other"
    try:
        _put(other, tree)
        _exchange(other, where)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)  # the new export, in a folder whose name is random
        raise
    if other.is_dir():
        outputs.remove(other, GRAPH)
        with suppress(OSError):
            other.rmdir()
    else:
        other.unlink()
    with suppress(OSError):
        aside.rmdir()


def _exchange(new: Path, where: Path) -> None:
    """Swaps the export at `where` and the `new` one, so that one of them is there at any moment."""
    try:
        outputs.exchange(new, where)
    except OSError as error:
        if error.errno not in (errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
            raise
        held = "folder and would become a file" if where.is_dir() else "file and would become a folder"
        raise UsageError(
            f"{where} is a {held}, and this file system cannot swap the two at once; remove it first, or "
            "choose another --out."
        ) from None


def _foreign(folder: Path) -> Path | None:
    """Returns a file in `folder` that its manifest does not list; None when all are listed."""
    listed = outputs.own_files(folder, GRAPH)
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name not in listed and not (
            stat.S_ISDIR(path.lstat().st_mode) and any(each.startswith(f"{name}/") for each in listed)
        ):
            return path
    return None
