"""Lifecycle of a vLLM server: reused if running, otherwise started; stopped by the process that started it.

The settings that identify a server are hashed to the name of a folder in the cache. The folder holds a lock,
the address and the log.

`last_error` and `last_line` summarize the end of vLLM's log for users.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx
from filelock import FileLock, Timeout

from ragc.core.digest import digest
from ragc.core.files import cache_home
from ragc.core.progress import notify
from ragc.core.redact import shorten
from ragc.errors import TargetError, TargetUnavailable
from ragc.targets.vllm import supervisor

_SHOWN = 300
_TAIL = 2**18
_BEFORE = re.compile(r"^(?:\([^()]* pid=\d+\) )?(?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)[: ]+)?"
                     r"(?:\d\d-\d\d \d\d:\d\d:\d\d )?(?:\[[^\]]*\] )?")  # fmt: skip
_ERROR = re.compile(r"(?:^|[\s.])(?:[A-Za-z_]*(?:Error|Exception)|error): \S|^Value error, \S")
_ABOUT_OTHERS = "root cause above"


def last_error(log: Path) -> str:
    """Returns the last line of `log` with an actual error, not a pointer to one; otherwise its last line."""
    lines = _lines(log)
    named = [line for line in lines if _ERROR.search(line) and _ABOUT_OTHERS not in line]
    last = (named or lines or ["it wrote nothing"])[-1]
    return shorten(last, _SHOWN)


def last_line(log: Path) -> str:
    """Returns the last line of `log`; "nothing yet" while it is empty."""
    return shorten((_lines(log) or ["nothing yet"])[-1], _SHOWN)


def _lines(log: Path) -> list[str]:
    """Returns the last non-empty lines, without vLLM's process, time and file prefixes."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    return [rest for line in text.splitlines() if (rest := _BEFORE.sub("", line.strip()).strip())]


MODULE = "vllm.entrypoints.openai.api_server"
_POLL_S, _TELL_S, _HEALTH_S = 0.5, 10.0, 10.0
_ENDING = 20
"""Polls that an unresponsive server has to exit."""
_BUSY = 6
"""Health checks that may time out before a busy server counts as gone."""


@dataclass(frozen=True, slots=True)
class Serving:
    """The settings that identify a server.

    `python` is the interpreter that has vLLM, `context` the maximum tokens of prompt and reply (0: the
    model's own), `flags` further command-line flags of vLLM: True for a bare flag, False for none, a list for
    several values.
    """

    python: str
    model: str
    dtype: str = ""
    context: int = 0
    flags: Mapping[str, Any] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """The folder of its lock, address and log."""
        return cache_home() / "vllm" / digest(asdict(self))[:16]

    def command(self, port: int) -> list[str]:
        """Returns the command that serves on `port` of localhost only."""
        parts = [self.python, "-m", MODULE, "--host", "127.0.0.1", "--port", str(port), "--model", self.model]
        if self.dtype:
            parts += ["--dtype", self.dtype]
        if self.context:
            parts += ["--max-model-len", str(self.context)]
        for name, value in self.flags.items():
            if value is not False:
                values = value if isinstance(value, (list, tuple)) else [] if value is True else [value]
                parts += [f"--{name.replace('_', '-')}", *map(str, values)]
        return parts


_started: dict[Path, subprocess.Popen[bytes]] = {}
_users: dict[Path, int] = {}


async def acquire(serving: Serving, patience_s: float) -> str:
    """Returns the address of a server, /v1 included; starts one if none runs. `release` releases it.

    Waits at most `patience_s` seconds for it to be ready. Raises TargetUnavailable after that, and
    TargetError with vLLM's own last error when the server exits.
    """
    folder, until = serving.folder, time.monotonic() + patience_s
    folder.mkdir(parents=True, exist_ok=True)
    async with _folder_lock(folder, serving.model, until):
        address = await _find_server(folder) or await _start(serving, folder, until)
    _users[folder] = _users.get(folder, 0) + 1
    return address


def release(serving: Serving) -> None:
    """Releases one `acquire`; the last one stops the server if this process started it."""
    folder = serving.folder
    _users[folder] = _users.get(folder, 0) - 1
    if _users[folder] <= 0:
        del _users[folder]
        _stop(folder)


async def is_alive(serving: Serving) -> bool:
    """Returns whether the server answers or may still do so; False if another process's server is gone.

    Raises TargetError when this process started it and it has exited.
    """
    folder = serving.folder
    if await _find_server(folder):
        return True
    process = _started.get(folder)
    if process is None:
        return False
    for _ in range(_ENDING):
        if process.poll() is not None:
            raise _exit_error(serving.model, folder, process.poll())
        await asyncio.sleep(_POLL_S)
    return True


@contextlib.asynccontextmanager
async def _folder_lock(folder: Path, model: str, until: float) -> AsyncIterator[None]:
    """Holds the folder's lock, which another process may hold while its server starts."""
    lock, waits = FileLock(folder / "lock", thread_local=False), False
    while True:
        try:
            lock.acquire(timeout=0)
            break
        except Timeout:
            if time.monotonic() > until:
                raise TargetUnavailable(
                    f"Another process is starting vLLM with {model} for too long; look at {folder / 'log'}."
                ) from None
        if not waits:
            notify(f"another process is starting vLLM with {model}; waiting for it")
            waits = True
        await asyncio.sleep(_POLL_S)
    try:
        yield
    finally:
        lock.release()


async def _find_server(folder: Path) -> str:
    """Returns the address of a running server that answers; "" without one."""
    try:
        noted = json.loads((folder / "address.json").read_text("utf-8"))
        address, pid = str(noted["address"]), int(noted["pid"])
        os.kill(pid, 0)
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    for _ in range(_BUSY):
        try:
            return address if await _check_health(address) else ""
        except httpx.TimeoutException:  # it exists but is busy
            continue
    return ""


async def _start(serving: Serving, folder: Path, until: float) -> str:
    """Starts a server and waits until it answers; stops it if that fails or is cancelled."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    begun, address, log = time.monotonic(), f"http://127.0.0.1:{port}/v1", folder / "log"
    _stop(folder)  # a server of this process that no longer answers
    notify(f"starting vLLM with {serving.model}; its log is {log}")
    log.unlink(missing_ok=True)
    process = _start_supervised(serving.command(port), log)
    _started[folder] = process
    try:
        await _ready(serving.model, folder, process, address, until)
        note = folder / f"address.{os.getpid()}"
        note.write_text(json.dumps({"address": address, "pid": process.pid}), "utf-8")
        note.replace(folder / "address.json")
    except BaseException:
        _stop(folder)
        raise
    notify(f"vLLM serves {serving.model} after {time.monotonic() - begun:.0f} s")
    return address


def _start_supervised(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    """Returns the supervisor that runs `command` while this process holds its stdin. Interrupts do not reach
    it.
    """
    return subprocess.Popen(
        [sys.executable, supervisor.__file__, str(log), *command],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip


async def _ready(
    model: str, folder: Path, process: subprocess.Popen[bytes], address: str, until: float
) -> None:
    """Waits until the server is healthy, and reports its last log line now and then."""
    begun = spoken = time.monotonic()
    while not await _is_healthy(address):
        now = time.monotonic()
        if process.poll() is not None:
            raise _exit_error(model, folder, process.poll())
        if now > until:
            raise TargetUnavailable(
                f"vLLM did not serve {model} within {now - begun:.0f} s; its last line: "
                f"{last_line(folder / 'log')} (all of it in {folder / 'log'}). Raise the option start_s."
            )
        if now - spoken > _TELL_S:
            notify(f"vLLM has been starting for {now - begun:.0f} s: {last_line(folder / 'log')}")
            spoken = now
        await asyncio.sleep(_POLL_S)


async def _check_health(address: str) -> bool:
    """Returns whether the server reports health; raises httpx.TimeoutException when it does not respond."""
    try:
        async with httpx.AsyncClient(timeout=_HEALTH_S, trust_env=False) as client:
            return (await client.get(f"{address.removesuffix('/v1')}/health")).status_code == 200
    except httpx.TimeoutException:
        raise
    except httpx.HTTPError:
        return False


async def _is_healthy(address: str) -> bool:
    try:
        return await _check_health(address)
    except httpx.TimeoutException:
        return False


def _exit_error(model: str, folder: Path, code: int | None) -> TargetError:
    log = folder / "log"
    return TargetError(f"vLLM with {model} ended (exit code {code}): {last_error(log)}. Its log is {log}.")


def _stop(folder: Path) -> None:
    """Stops the server of `folder` if this process started it, and waits until it has exited."""
    process = _started.pop(folder, None)
    if process is None:
        return
    if process.poll() is None:
        (folder / "address.json").unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        if process.stdin is not None:
            process.stdin.write(b".")  # closing alone is not enough: a forked process may hold the pipe too
            process.stdin.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(supervisor.PATIENCE_S + 10)


@atexit.register
def _stop_all() -> None:
    for folder in list(_started):
        _stop(folder)
