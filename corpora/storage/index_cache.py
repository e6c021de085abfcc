"""The cache of indexes on disk: built once, opened by any number of processes.

    <cache home>/indexes/<kind>/<digest of corpus fingerprint and settings>/
        index.json      what it is, and the size of every other file; written last
        ...             the files of the builder of that kind
    <cache home>/indexes/<kind>/<digest>.lock               held while one process builds
    <cache home>/indexes/<kind>/<digest>.building-*/        an unfinished one; the next builder removes it
    <cache home>/indexes/<kind>/<digest>.aside-*/           a damaged index, or whatever else had its name

An index gets its name by one rename, so a killed build leaves no partial index. One with missing files, or
files of another size, is built again.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from filelock import FileLock, Timeout
from pydantic import BaseModel

from ragc.core.digest import digest
from ragc.core.files import PRIVATE_FILE, cache_home, make_private
from ragc.core.progress import SILENT, Progress
from ragc.errors import SourceError

Step = Callable[[int], None]
"""Reports that so many more steps are done."""


@dataclass(frozen=True, slots=True)
class IndexFolder:
    """An index that is ready: its folder, the bytes of its files, and whether this call built it."""

    path: Path
    size: int
    built: bool


class _Manifest(BaseModel):
    """What an index is, and the size in bytes of each file by its path in the folder."""

    kind: str
    corpus: str
    settings: dict[str, Any]
    files: dict[str, int]


def index_path(kind: str, corpus: str, settings: Mapping[str, Any], home: Path | None = None) -> Path:
    """Returns the folder of the index of `kind` over the corpus with the fingerprint `corpus`, built or not.

    `settings` are JSON values and must name everything that changes the files: equal arguments, same folder.
    """
    return (home or cache_home() / "indexes") / kind / digest([kind, corpus, dict(settings)])[:32]


def open_or_build(
    kind: str,
    corpus: str,
    settings: Mapping[str, Any],
    build: Callable[[Path, Step], None],
    *,
    home: Path | None = None,
    total: int | None = None,
    progress: Progress | None = None,
) -> IndexFolder:
    """Opens the index at `index_path(...)`, or builds it with `build(folder, step)`.

    `build` writes into the empty `folder`, keeps no file open, and calls `step(n)` when `n` more of `total`
    steps are done. Of concurrent processes and threads, one builds and the others wait. Whatever has the name
    of the index and is not a complete index of this `corpus` and these `settings` is renamed, never removed,
    and `progress` shows a note. Errors of `build` are raised, and nothing is left. Raises SourceError if the
    disk cannot be written.
    """
    path = index_path(kind, corpus, settings, home)
    if (size := _size(path)) is not None:
        return IndexFolder(path, size, built=False)
    listener = progress or SILENT
    try:
        make_private(path.parent)
        lock = FileLock(f"{path}.lock", mode=PRIVATE_FILE)
        try:
            locked = lock.acquire(timeout=0)
        except Timeout:
            listener.note(f"another process builds the {kind} index {path.name}; waiting for it")
            locked = lock.acquire()
        with locked:
            if (size := _size(path)) is not None:
                return IndexFolder(path, size, built=False)
            for unfinished in path.parent.glob(f"{path.name}.building-*"):
                shutil.rmtree(unfinished, ignore_errors=True)
            if path.exists() or path.is_symlink():
                aside = path.rename(f"{path}.aside-{uuid4().hex[:8]}")
                listener.note(
                    f"the {kind} index {path.name} is damaged; it is built again, and is now {aside}"
                )
            listener.phase(f"index {kind}", total, "passages")
            work = Path(tempfile.mkdtemp(prefix=f"{path.name}.building-", dir=path.parent))
            try:
                build(work, listener.step)
                sizes = {
                    file.relative_to(work).as_posix(): file.stat().st_size
                    for file in work.rglob("*")
                    if file.is_file()
                }
                manifest = _Manifest(kind=kind, corpus=corpus, settings=dict(settings), files=sizes)
                (work / "index.json").write_text(manifest.model_dump_json(indent=2), encoding="utf-8")
                work.rename(path)
            finally:
                shutil.rmtree(work, ignore_errors=True)
            return IndexFolder(path, _size(path) or 0, built=True)
    except OSError as error:
        raise SourceError(
            f"The {kind} index could not be written to {path}: {error.strerror or error}. Make room or grant "
            "access there, or set RAGC_HOME to another folder."
        ) from error


def _size(path: Path) -> int | None:
    """Returns the bytes of the index at `path`; None if it is missing or damaged."""
    try:
        content = (path / "index.json").read_bytes()
        manifest = _Manifest.model_validate_json(content)
        sizes = {name: (path / name).stat().st_size for name in manifest.files}
    except (OSError, ValueError):
        return None
    described = index_path(manifest.kind, manifest.corpus, manifest.settings, path.parent.parent)
    return len(content) + sum(sizes.values()) if described == path and sizes == manifest.files else None
