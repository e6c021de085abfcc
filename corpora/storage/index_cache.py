"""The cache of indexes on disk: built atomically once, opened by any number of processes.

    <cache home>/indexes/<kind>/<digest of corpus fingerprint and settings>/
        index.json      what it is, and size and SHA-256 of every other file; written last
        ...             the files of the builder of that kind
    <cache home>/indexes/<kind>/<digest>.verified   a large one's files when they were last read completely
    <cache home>/indexes/<kind>/<digest>.lock       held while one process builds
    <cache home>/indexes/<kind>/<digest>.building/  an unfinished one; the next builder removes it
    <cache home>/indexes/<kind>/<digest>.aside-1/   a foreign folder with that name, or a damaged index

The folder gets its final name by one rename, so a killed build leaves no partial index. A damaged index is
rebuilt. A small index is verified whenever it is opened; a large one when the inode, size or times of its
files have changed since the last verification. This module does not depend on the contents of an index.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from ragc.core.digest import digest, file_digest, pretty
from ragc.core.files import (
    PRIVATE_FILE,
    PRIVATE_FOLDER,
    cache_home,
    make_private,
    put_file,
    read_bytes,
)
from ragc.core.progress import Progress, Silent
from ragc.errors import SourceError

FORMAT = "ragc.index/1"
MANIFEST = "index.json"
_KEYS = {"kind", "corpus", "settings", "files", "sha256"}
BUILDING = ".building"

SMALL = 64 * 2**20
"""The most bytes of an index that is verified whenever it is opened; SHA-256 takes 40 to 200 ms."""

VERIFIED = ".verified"

_TICK_S = 0.02
"""Seconds longer than the resolution of file times, so that later writes get a different time."""

Step = Callable[[int], None]
Build = Callable[[Path, Step], None]


@dataclass(frozen=True, slots=True)
class IndexFolder:
    """An index that is ready: its folder, its size in bytes, and whether this call built it."""

    path: Path
    size: int
    built: bool


def indexes_home() -> Path:
    """Returns the folder of all indexes; not created here."""
    return cache_home() / "indexes"


def index_path(kind: str, corpus: str, settings: Mapping[str, Any], home: Path | None = None) -> Path:
    """Returns the folder of the index of `kind` over the corpus with the fingerprint `corpus`, built or not.

    `settings` are JSON values and must name everything that changes the files: equal arguments, same folder.
    """
    return (home or indexes_home()) / kind / digest([FORMAT, kind, corpus, dict(settings)])[:32]


def open_or_build(
    kind: str,
    corpus: str,
    settings: Mapping[str, Any],
    build: Build,
    *,
    home: Path | None = None,
    total: int | None = None,
    progress: Progress | None = None,
) -> IndexFolder:
    """Opens the index at `index_path(...)`, or builds it with `build(folder, step)`.

    `build` writes into `folder`, which holds only the manifest, keeps no file open, and calls `step(n)` when
    `n` more of `total` steps are done. Of concurrent processes and threads, one builds and the others wait.
    An index that is damaged, or not of this `corpus` and these `settings`, is rebuilt, and `progress` shows a
    note. A folder without a manifest of ours is renamed, never removed. Errors of `build` are raised, and
    nothing is left. Raises SourceError if the disk cannot be written.
    """
    path = index_path(kind, corpus, settings, home)
    about = {"kind": kind, "corpus": corpus, "settings": json.loads(json.dumps(dict(settings)))}
    listener = progress or Silent()
    if (size := _size(path, about, listener)) is not None:
        return IndexFolder(path, size, built=False)
    try:
        make_private(path.parent)
        lock = FileLock(f"{path}.lock", mode=PRIVATE_FILE)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            listener.note(f"another process builds the {kind} index {path.name}; waiting for it")
            lock.acquire()
    except OSError as error:
        raise SourceError(_write_error(kind, path, error)) from error
    try:
        if (size := _size(path, about, listener)) is not None:
            return IndexFolder(path, size, built=False)
        if path.exists():
            listener.note(
                f"the {kind} index {path.name} is damaged or of an earlier version; it is built anew"
            )
        listener.phase(f"index {kind}", total, "passages")
        return IndexFolder(path, _build_index(path, about, build, listener.step), built=True)
    finally:
        lock.release()


def damage(path: Path, step: Step) -> str:
    """Describes the damage of the index in the folder `path`, "" if there is none; all files are read.

    `step` counts bytes. Raises OSError for an existing file that cannot be read.
    """
    about = _read_manifest(path)
    if about is None:
        return f"{MANIFEST} is missing, damaged or of an earlier version"
    if path != index_path(about["kind"], about["corpus"], about["settings"], path.parent.parent):
        return "it is not the index that belongs there"
    for name, size in about["files"].items():
        try:
            if (path / name).stat().st_size != size:
                return f"{name} has another size"
            checksum = file_digest(path / name)
        except FileNotFoundError:
            return f"{name} is missing"
        if checksum != about["sha256"].get(name):
            return f"{name} has another content"
        step(size)
    return ""


def _build_index(path: Path, about: Mapping[str, Any], build: Build, step: Step) -> int:
    """Builds beside `path` and renames. Returns the size in bytes. The caller holds the lock."""
    work = path.with_name(path.name + BUILDING)
    try:
        _clear(work)
        _clear(path)
        work.mkdir(PRIVATE_FOLDER)
        (work / MANIFEST).write_text(pretty({"format": FORMAT, **about}), encoding="utf-8")
    except OSError as error:
        raise SourceError(_write_error(str(about["kind"]), path, error)) from error
    try:
        build(work, step)
        manifest = work / MANIFEST
        sizes = {
            str(file.relative_to(work)): file.stat().st_size for file in _files(work) if file != manifest
        }
        content = {name: file_digest(work / name) for name in sizes}
        text = pretty({"format": FORMAT, **about, "files": sizes, "sha256": content})
        manifest.write_text(text, encoding="utf-8")
        size = sum(sizes.values()) + manifest.stat().st_size
        work.replace(path)
        if size > SMALL:
            time.sleep(_TICK_S)
            _write_stamps(path, _stamps(path, sizes))
    except BaseException as error:
        shutil.rmtree(work, ignore_errors=True)
        if isinstance(error, OSError):
            raise SourceError(_write_error(str(about["kind"]), path, error)) from error
        raise
    return size


def _size(path: Path, about: Mapping[str, Any], progress: Progress) -> int | None:
    """Returns the bytes of the index `about` at `path`; None if it is missing or damaged."""
    held = _read_manifest(path)
    if held is None or any(held[name] != value for name, value in about.items()):
        return None
    try:
        size: int = sum(held["files"].values()) + (path / MANIFEST).stat().st_size
        if size > SMALL:
            if _read_verified(path) == _stamps(path, held["files"]):
                return size
            progress.note(f"the {held['kind']} index {path.name} is read whole once: {size >> 20} MiB")
            time.sleep(_TICK_S)
            stamps = _stamps(path, held["files"])
        if damage(path, lambda n: None):
            return None
    except OSError:
        return None
    if size > SMALL:
        _write_stamps(path, stamps)
    return size


def _read_manifest(path: Path) -> dict[str, Any] | None:
    """Returns the manifest at `path`; None if it is missing, damaged or without digests."""
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return manifest if isinstance(manifest, dict) and manifest.keys() >= _KEYS else None


def _stamps(path: Path, names: Iterable[str]) -> dict[str, list[int]]:
    """Returns inode, size and times of each file; equal if nothing was written. Raises OSError."""
    stats = ((name, (path / name).stat()) for name in names)
    return {name: [at.st_ino, at.st_size, at.st_mtime_ns, at.st_ctime_ns] for name, at in stats}


def _read_verified(path: Path) -> dict[str, list[int]] | None:
    """Returns the stamps of the files of `path` at their last verification; None if unknown."""
    try:
        verified: dict[str, list[int]] = json.loads(Path(f"{path}{VERIFIED}").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return verified


def _write_stamps(path: Path, stamps: Mapping[str, list[int]]) -> None:
    """Records that the files of `path` are verified; if that fails they are verified again next time."""
    note = Path(f"{path}{VERIFIED}")
    with contextlib.suppress(OSError):
        put_file(note, pretty(dict(stamps)).encode(), private=True)


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file())


def _clear(path: Path) -> None:
    """Removes an index or an unfinished one at `path`; anything else there is renamed."""
    if not os.path.lexists(path):
        return
    if _is_own(path):
        shutil.rmtree(path)
        return
    aside = (path.with_name(f"{path.name}.aside-{number}") for number in count(1))
    path.rename(next(free for free in aside if not os.path.lexists(free)))


def _is_own(path: Path) -> bool:
    """Returns whether `path` is a folder with the manifest of an index and no file outside it."""
    if path.is_symlink() or not path.is_dir():
        return False
    try:
        about = json.loads(read_bytes(path / MANIFEST))
        if about["format"] != FORMAT:
            return False
        listed = about.get("files")  # missing in an unfinished index
        return listed is None or {str(file.relative_to(path)) for file in _files(path)} <= {
            *listed,
            MANIFEST,
        }
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return not any(path.iterdir())


def _write_error(kind: str, path: Path, error: OSError) -> str:
    return (
        f"The {kind} index could not be written to {path}: {error.strerror or error}. Make room or grant "
        "access there, or set RAGC_HOME to another folder."
    )
