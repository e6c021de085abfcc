"""Where indexes live on disk: built once, whole or not at all, opened by as many processes as like.

    <cache home>/indexes/<kind>/<digest of corpus fingerprint and settings>/
        index.json      what it is, and the size of every other file; written last
        ...             whatever the builder of that kind writes
    <cache home>/indexes/<kind>/<digest>.lock       held while one process builds
    <cache home>/indexes/<kind>/<digest>.building/  an unfinished one; the next builder removes it
    <cache home>/indexes/<kind>/<digest>.aside-1/   something else that stood in the way, or a damaged index

The folder is renamed to its name in one step when everything in it has reached the disk, so a build that
is killed leaves no half index behind. This file knows nothing of what an index holds.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from ragc import inputs, paths
from ragc.errors import SourceError
from ragc.fingerprint import digest, pretty
from ragc.progress import Progress, Silent

FORMAT = "ragc.index/1"
MANIFEST = "index.json"
BUILDING = ".building"

Step = Callable[[int], None]
Build = Callable[[Path, Step], None]


@dataclass(frozen=True, slots=True)
class IndexFolder:
    """An index that is ready: where it is, its size in bytes, and whether this call built it."""

    path: Path
    size: int
    built: bool


def indexes_home() -> Path:
    """The folder of all indexes. Not created here."""
    return paths.cache_home() / "indexes"


def index_path(kind: str, corpus: str, settings: Mapping[str, Any], home: Path | None = None) -> Path:
    """Where the index of `kind` over the corpus with the fingerprint `corpus` belongs, built or not.

    `settings` are JSON values and must name all that changes the files: equal arguments, same folder.
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
    """The index at `index_path(...)`, made by `build(folder, step)` when it is not there yet.

    `build` writes into the `folder` it is given, which holds no more than the manifest, keeps no file open,
    and calls `step(n)` when `n` more of `total` steps are done. Of several processes and threads that ask at
    once, one builds and the others wait. An index whose files are not all there in full is built anew; what
    has no manifest of ours is set aside, never removed.
    What `build` raises is passed on, and nothing is left. Raises SourceError when the disk refuses.
    """
    path = index_path(kind, corpus, settings, home)
    if (size := _size(path)) is not None:
        return IndexFolder(path, size, built=False)
    told = progress or Silent()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(f"{path}.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            told.note(f"another process builds the {kind} index {path.name}; waiting for it")
            lock.acquire()
    except OSError as error:
        raise SourceError(_refused(kind, path, error)) from error
    try:
        if (size := _size(path)) is not None:
            return IndexFolder(path, size, built=False)
        about = {"kind": kind, "corpus": corpus, "settings": dict(settings)}
        told.phase(f"index {kind}", total)
        return IndexFolder(path, _built(path, about, build, told.step), built=True)
    finally:
        lock.release()


def _built(path: Path, about: Mapping[str, Any], build: Build, step: Step) -> int:
    """Build beside `path` and rename; the size in bytes. The caller holds the lock."""
    work = path.with_name(path.name + BUILDING)
    try:
        _clear(work)
        _clear(path)
        work.mkdir()
        (work / MANIFEST).write_text(pretty({"format": FORMAT, **about}), encoding="utf-8")
    except OSError as error:
        raise SourceError(_refused(str(about["kind"]), path, error)) from error
    try:
        build(work, step)
        manifest = work / MANIFEST
        held = [file for file in _files(work) if file != manifest]
        sizes = {str(file.relative_to(work)): file.stat().st_size for file in held}
        manifest.write_text(pretty({"format": FORMAT, **about, "files": sizes}), encoding="utf-8")
        for place in (*_files(work), work):
            _sync(place)
        size = sum(sizes.values()) + manifest.stat().st_size
        work.replace(path)
        _sync(path.parent)
    except OSError as error:
        shutil.rmtree(work, ignore_errors=True)
        raise SourceError(_refused(str(about["kind"]), path, error)) from error
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    return size


def _size(path: Path) -> int | None:
    """The bytes of the index at `path`; None when there is none, or one that lost something."""
    try:
        text = (path / MANIFEST).read_text(encoding="utf-8")
        sizes = json.loads(text)["files"]
        whole = all((path / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None
    return sum(sizes.values()) + len(text.encode()) if whole else None


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file())


def _clear(place: Path) -> None:
    """Remove an index or an unfinished one at `place`; anything else there gets another name."""
    if not os.path.lexists(place):
        return
    if _is_own(place):
        shutil.rmtree(place)
        return
    aside = (place.with_name(f"{place.name}.aside-{number}") for number in count(1))
    place.rename(next(free for free in aside if not os.path.lexists(free)))


def _is_own(place: Path) -> bool:
    """Whether `place` is a folder that its manifest calls an index, with no file that is not of it."""
    if place.is_symlink() or not place.is_dir():
        return False
    try:
        about = json.loads(inputs.read_bytes(place / MANIFEST))
        if about["format"] != FORMAT:
            return False
        listed = about.get("files")  # not there yet in one that was not finished
        return listed is None or {str(file.relative_to(place)) for file in _files(place)} <= {
            *listed,
            MANIFEST,
        }
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return not any(place.iterdir())


def _sync(place: Path) -> None:
    """Wait until a file's content, or a folder's list of names, is on the disk."""
    handle = os.open(place, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _refused(kind: str, path: Path, error: OSError) -> str:
    return (
        f"The {kind} index could not be written to {path}: {error.strerror or error}. Make room or grant "
        "access there, or set RAGC_HOME to another folder."
    )
