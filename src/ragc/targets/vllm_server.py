"""A vLLM server that ragc starts: shared by all who want the same, stopped by the process that started it.

    settings ─► digest ─► folder in the cache: lock, address, log

A process that is killed leaves its server running. The next run finds it by its address and uses it.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from functools import cached_property
from pathlib import Path

import httpx
from filelock import AsyncFileLock

from ragc.core.digest import digest
from ragc.core.files import cache_home, put_file
from ragc.core.progress import notify
from ragc.core.redact import shorten
from ragc.downloads import noted_digest
from ragc.errors import TargetError, TargetUnavailable, UsageError
from ragc.targets.base import ChatRequest, Reply, Watch
from ragc.targets.chat import ChatTarget
from ragc.targets.options import VllmOptions

_POLL_S, _ENDING_S, _HEALTH_S = 0.5, 20.0, 30.0
_ERROR = re.compile(r"(?:Error|Exception|\berror): \S|Value error, \S")

_started: dict[Path, subprocess.Popen[bytes]] = {}
_users: dict[Path, set[int]] = {}


def last_error(log: Path) -> str:
    """Returns the last line of `log` that has an actual error, not a pointer to one; else its last line."""
    lines = [line for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR.search(line) and "root cause above" not in line]
    return shorten((errors or lines or ["it wrote nothing"])[-1])


class ServedTarget(ChatTarget):
    """Sends requests for `model`, an id or a folder, to a server that `open` starts or finds.

    Targets with the same settings share one server, within this process and across processes. The identity
    covers what affects replies, the content of a folder among it, and not the address.
    """

    def __init__(self, model: str, options: VllmOptions) -> None:
        if not model:
            raise UsageError("A vllm target with serve = true needs a model: an id or the path of a folder.")
        self._python = shutil.which(options.python or sys.executable) or ""
        if not self._python:
            raise UsageError(
                f"No Python is at {options.python!r}, named by the option python of a vllm target."
            )
        where = Path(model)
        super().__init__("http://127.0.0.1:1/v1", str(where.resolve()) if where.is_dir() else model, options)
        self.name = f"vllm {where.name}"
        self.folder = cache_home() / "vllm" / digest(self.command(0))[:16]
        self._log = self.folder / "log"

    @property
    def plain_identity(self) -> str:
        """The model and how it is run."""
        return self._shown

    @cached_property
    def _shown(self) -> str:
        folder, named, options = Path(self.model), self.model, self.options
        if folder.is_dir():
            files = sorted(file for file in folder.iterdir() if file.is_file())
            named = f"{folder.name}@{digest({file.name: noted_digest(file) for file in files})[:16]}"
        shaping = [options.dtype, dict(options.flags), dict(options.sent), list(options.omit)]
        return options.identity or f"{named}#{digest(shaping)[:12]}"

    def command(self, port: int) -> list[str]:
        """Returns the command that serves on `port` of localhost only."""
        flags = {
            "host": "127.0.0.1",
            "port": port,
            "model": self.model,
            "dtype": self.options.dtype or False,
            "max-model-len": self.options.context_tokens or False,
            **self.options.flags,
        }
        parts = [self._python, "-m", "vllm.entrypoints.openai.api_server"]
        for name, value in flags.items():
            values = value if isinstance(value, list | tuple) else [] if isinstance(value, bool) else [value]
            parts += [] if value is False else [f"--{name.replace('_', '-')}", *map(str, values)]
        return parts

    async def open(self, progress: Watch | None = None) -> None:
        """Starts or finds the server, waits until it is healthy, and checks that it has the model.

        Raises TargetError with vLLM's own last error when it exits, TargetUnavailable when it takes longer
        than the option `start_s`.
        """
        if self._ready:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        async with AsyncFileLock(self.folder / "lock", run_in_executor=False):
            self.endpoint = await self._find() or await self._start()
        _users.setdefault(self.folder, set()).add(id(self))
        await super().open(progress)

    async def complete(self, request: ChatRequest) -> Reply:
        """Returns the reply to `request`; opens the target first if needed.

        If the server belonged to another process and has ended, the request is sent once more, to a server
        found or started again. Raises TargetError with vLLM's last error when a server of this process ended.
        """
        await self.open()
        try:
            return await super().complete(request)
        except TargetUnavailable:
            if await self._find():
                raise
            if process := _started.get(self.folder):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    await asyncio.to_thread(process.wait, _ENDING_S)
                    raise self._ended(process) from None
                raise
        await super().aclose()
        await self.open()
        return await super().complete(request)

    async def aclose(self) -> None:
        """Closes the connections; the last user in this process stops a server that this process started."""
        await super().aclose()
        users = _users.get(self.folder, set())
        users.discard(id(self))
        if not users:
            await asyncio.to_thread(_stop, self.folder)

    async def _find(self) -> str:
        """Returns the address of a running server that answers; "" without one."""
        with contextlib.suppress(OSError):
            address = (self.folder / "address").read_text("utf-8")
            if await asyncio.to_thread(_answers, address):
                return address
        return ""

    async def _start(self) -> str:
        """Starts a server and waits until it answers; stops it if that fails or is cancelled."""
        _stop(self.folder)  # a server of this process that no longer answers
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        begun, address = time.monotonic(), f"http://127.0.0.1:{port}/v1"
        notify(f"starting vLLM with {self.model}; its log is {self._log}")
        with self._log.open("wb") as log:
            process = _started[self.folder] = subprocess.Popen(  # noqa: ASYNC220 - it only starts here
                self.command(port),
                cwd=self.folder,  # ours: nothing is imported from where the user stands
                env={**os.environ, "PYTHONSAFEPATH": "1"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            while not await asyncio.to_thread(_answers, address):
                waited = time.monotonic() - begun
                if process.poll() is not None:
                    raise self._ended(process)
                if waited > self.options.start_s:
                    raise TargetUnavailable(
                        f"vLLM did not serve {self.model} within {waited:.0f} s; its log ends in "
                        f"{last_error(self._log)!r} (all of it in {self._log}). Raise the option start_s."
                    )
                await asyncio.sleep(_POLL_S)
            put_file(self.folder / "address", address.encode(), private=True)
        except BaseException:
            _stop(self.folder)
            raise
        notify(f"vLLM serves {self.model} after {time.monotonic() - begun:.0f} s")
        return address

    def _ended(self, process: subprocess.Popen[bytes]) -> TargetError:
        return TargetError(
            f"vLLM with {self.model} ended (exit code {process.returncode}): {last_error(self._log)}. "
            f"Its log is {self._log}."
        )


def _answers(address: str) -> bool:
    """Returns whether the server at `address` is healthy."""
    try:
        return httpx.get(
            f"{address.removesuffix('/v1')}/health", timeout=_HEALTH_S, trust_env=False
        ).is_success
    except httpx.HTTPError:
        return False


def _stop(folder: Path) -> None:
    """Stops the server of `folder` if this process started it, with all its processes."""
    if process := _started.pop(folder, None):
        (folder / "address").unlink(missing_ok=True)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_ENDING_S)
            os.killpg(process.pid, signal.SIGKILL)  # what outlived it
        process.wait()


@atexit.register
def _stop_all() -> None:
    for folder in list(_started):
        _stop(folder)
