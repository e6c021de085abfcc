"""The cache of indexes on disk: built once, opened by any number of processes.

    <cache home>/indexes/<kind>/<digest of corpus fingerprint and settings>/
        index.json      what it is, and size and digest of every other file; written last
        ...             the files of the builder of that kind
    <cache home>/indexes/<kind>/<digest>.lock               held while one process builds
    <cache home>/indexes/<kind>/<digest>.building-*/        an unfinished one; the next builder removes it
    <cache home>/indexes/<kind>/<digest>.aside-*/           a damaged index, or whatever else had its name

An index gets its name by one rename, so a killed build leaves no partial index. One with missing files, or
files of another size, is built again.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from filelock import FileLock
from pydantic import BaseModel, Field

from ragc.core.digest import digest, file_digest
from ragc.core.files import PRIVATE_FILE, cache_home, make_private
from ragc.core.progress import SILENT, Progress
from ragc.errors import SourceError

Step = Callable[[int], None]
"""Reports that so many more steps are done."""


class IndexFolder(BaseModel):
    """An index that is ready: its folder, and whether this call built it.

    `about` has the kind, the fingerprint of the corpus and the settings; `files` the size in bytes and the
    SHA-256 of each file, by its path in the folder.
    """

    about: list[Any]
    files: dict[str, tuple[int, str]]
    path: Path = Field(default=Path(), exclude=True)
    built: bool = Field(default=False, exclude=True)

    @property
    def size(self) -> int:
        """The bytes of the folder."""
        return sum(size for size, _ in self.files.values()) + (self.path / "index.json").stat().st_size


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
    path, listener = index_path(kind, corpus, settings, home), progress or SILENT
    if index := _ready(path):
        return index
    try:
        make_private(path.parent)
        if any(path.parent.glob(f"{path.name}.building-*")):
            listener.note(f"the {kind} index {path.name} is being built, or its builder was stopped; waiting")
        with FileLock(f"{path}.lock", mode=PRIVATE_FILE):
            if index := _ready(path):
                return index
            for unfinished in path.parent.glob(f"{path.name}.building-*"):
                shutil.rmtree(unfinished, ignore_errors=True)
            if path.exists() or path.is_symlink():
                aside = path.rename(f"{path}.aside-{uuid4().hex[:8]}")
                listener.note(
                    f"the {kind} index {path.name} is damaged; it is built again, and is now {aside}"
                )
            listener.phase(f"index {kind}", total, "passages")
            with TemporaryDirectory(
                prefix=f"{path.name}.building-", dir=path.parent, ignore_cleanup_errors=True
            ) as unfinished_folder:
                work = Path(unfinished_folder)
                build(work, listener.step)
                index = IndexFolder(
                    about=[kind, corpus, dict(settings)],
                    files={
                        file.relative_to(work).as_posix(): (file.stat().st_size, file_digest(file))
                        for file in work.rglob("*")
                        if file.is_file()
                    },
                    path=path,
                    built=True,
                )
                (work / "index.json").write_text(index.model_dump_json(indent=2), encoding="utf-8")
                work.rename(path)
            return index
    except OSError as error:
        raise SourceError(
            f"The {kind} index could not be written to {path}: {error.strerror or error}. Make room or grant "
            "access there, or set RAGC_HOME to another folder."
        ) from error


def _ready(path: Path) -> IndexFolder | None:
    """Returns the index at `path`; None if it is missing, damaged, or another one."""
    try:
        index = IndexFolder.model_validate_json((path / "index.json").read_bytes())
        is_whole = all((path / name).stat().st_size == size for name, (size, _) in index.files.items())
    except (OSError, ValueError):
        return None
    index.path, index.built = path, False
    return index if is_whole and digest(index.about)[:32] == path.name else None
