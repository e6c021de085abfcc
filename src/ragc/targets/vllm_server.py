"""A vLLM server that ragc starts: shared by all who want the same, stopped by the process that started it.

    settings ─► digest ─► folder in the cache: lock, address.json (address, pid), log

A process that is killed leaves its server running. The next run finds it by its address and uses it.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import hashlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from functools import cached_property
from pathlib import Path

from filelock import FileLock, Timeout

from ragc.core.digest import digest
from ragc.core.files import cache_home, put_file
from ragc.core.progress import notify
from ragc.core.redact import shorten
from ragc.errors import TargetError, TargetUnavailable, UsageError
from ragc.targets.base import ChatRequest, Reply, Watch
from ragc.targets.chat import ChatTarget
from ragc.targets.options import VllmOptions

MODULE = "vllm.entrypoints.openai.api_server"
_POLL_S, _TELL_S, _PATIENCE_S, _ENDING = 0.5, 10.0, 20.0, 20
_ENDS = 2**20
_BEFORE = re.compile(r"^(?:\([^()]* pid=\d+\) )?(?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)[: ]+)?"
                     r"(?:\d\d-\d\d \d\d:\d\d:\d\d )?(?:\[[^\]]*\] )?")  # fmt: skip
_ERROR = re.compile(r"(?:^|[\s.])(?:[A-Za-z_]*(?:Error|Exception)|error): \S|^Value error, \S")

_started: dict[Path, subprocess.Popen[bytes]] = {}
_users: dict[Path, set[int]] = {}


def last_error(log: Path) -> str:
    """Returns the last line of `log` with an actual error, not a pointer to one; otherwise its last line."""
    lines = _lines(log)
    named = [line for line in lines if _ERROR.search(line) and "root cause above" not in line]
    return shorten((named or lines or ["it wrote nothing"])[-1])


def last_line(log: Path) -> str:
    """Returns the last line of `log`; "nothing yet" while it is empty."""
    return shorten((_lines(log) or ["nothing yet"])[-1])


def _lines(log: Path) -> list[str]:
    """Returns the last non-empty lines, without vLLM's process, time and file prefixes."""
    text = log.read_bytes()[-_ENDS:].decode("utf-8", "replace") if log.exists() else ""
    return [rest for line in text.splitlines() if (rest := _BEFORE.sub("", line.strip()).strip())]


def _ends(file: Path) -> list[str | int]:
    """Returns the size of `file`, and a digest of its two ends."""
    size = file.stat().st_size
    with file.open("rb") as data:
        read = data.read(_ENDS)
        data.seek(max(0, size - _ENDS))
        read += data.read()
    return [size, hashlib.sha256(read).hexdigest()]


class ServedTarget(ChatTarget):
    """Sends requests for `model`, an id or a folder, to a server that `open` starts or finds.

    Targets with the same settings share one server, within this process and across processes. The identity
    covers what affects replies, the content of a folder among it, and not the address.
    """

    def __init__(self, model: str, options: VllmOptions) -> None:
        if not model:
            raise UsageError("A vllm target with serve = true needs a model: an id or the path of a folder.")
        python = shutil.which(options.python or sys.executable)
        if python is None:
            raise UsageError(
                f"No Python is at {options.python!r}, named by the option python of a vllm target."
            )
        where = Path(model)
        super().__init__("http://127.0.0.1:1/v1", str(where.resolve()) if where.is_dir() else model, options)
        self.name = f"vllm {where.name}"
        self._python = python
        self.folder = cache_home() / "vllm" / digest(self.command(0))[:16]
        self._log = self.folder / "log"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r})"

    @cached_property
    def _shown(self) -> str:
        folder, options = Path(self.model), self.options
        named = self.model
        if folder.is_dir():
            try:
                contents = {file.name: _ends(file) for file in sorted(folder.iterdir()) if file.is_file()}
            except OSError as error:
                text = f"The model in {folder} cannot be read ({error.strerror or error})."
                raise TargetUnavailable(text) from error
            named = f"{folder.name}@{digest(contents)[:16]}"
        shaping = [options.dtype, dict(options.flags), dict(options.sent), list(options.omit)]
        return options.identity or f"{named}#{digest(shaping)[:12]}"

    @property
    def plain_identity(self) -> str:
        """The model and how it is run. Raises TargetUnavailable when its folder cannot be read."""
        return self._shown

    def command(self, port: int) -> list[str]:
        """Returns the command that serves on `port` of localhost only."""
        options = self.options
        parts = [
            self._python,
            "-m",
            MODULE,
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "--model",
            self.model,
        ]
        parts += ["--dtype", options.dtype] if options.dtype else []
        parts += ["--max-model-len", str(options.context_tokens)] if options.context_tokens else []
        for name, value in options.flags.items():
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
        until = time.monotonic() + self.options.start_s
        self.folder.mkdir(parents=True, exist_ok=True)
        async with self._alone(until):
            self.endpoint = await asyncio.to_thread(self._find) or await self._start(until)
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
            if await self._alive():
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

    @contextlib.asynccontextmanager
    async def _alone(self, until: float) -> AsyncIterator[None]:
        """Holds the folder's lock, which another process may hold while its server starts."""
        lock, told = FileLock(self.folder / "lock", thread_local=False), False
        while not lock.is_locked:
            try:
                lock.acquire(timeout=0)
            except Timeout:
                if time.monotonic() > until:
                    text = (
                        f"Another process is starting vLLM with {self.model} for too long; see {self._log}."
                    )
                    raise TargetUnavailable(text) from None
                if not told:
                    notify(f"another process is starting vLLM with {self.model}; waiting for it")
                told = True
                await asyncio.sleep(_POLL_S)
        try:
            yield
        finally:
            lock.release()

    def _find(self) -> str:
        """Returns the address of a running server that answers, or is too busy to; "" without one."""
        try:
            noted = json.loads((self.folder / "address.json").read_text("utf-8"))
            address, pid = str(noted["address"]), int(noted["pid"])
            os.kill(pid, 0)
        except (OSError, ValueError, LookupError, TypeError):
            return ""
        return address if _answers(address) is not False else ""

    async def _alive(self) -> bool:
        """Returns whether the server answers, or may. Raises TargetError where one of this process ended."""
        process = _started.get(self.folder)
        for _ in range(_ENDING):
            if await asyncio.to_thread(self._find):
                return True
            if process is None:
                return False
            if process.poll() is not None:
                raise self._ended(process)
            await asyncio.sleep(_POLL_S)
        return True

    async def _start(self, until: float) -> str:
        """Starts a server and waits until it answers; stops it if that fails or is cancelled."""
        _stop(self.folder)  # a server of this process that no longer answers
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        begun, address = time.monotonic(), f"http://127.0.0.1:{port}/v1"
        notify(f"starting vLLM with {self.model}; its log is {self._log}")
        # The folder is ours, and nothing is imported from where the user stands.
        environment = {**os.environ, "PYTHONSAFEPATH": "1"}
        with self._log.open("wb") as log:
            process = _started[self.folder] = subprocess.Popen(  # noqa: ASYNC220 - it only starts here
                self.command(port), cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, start_new_session=True,
            )  # fmt: skip
        try:
            await self._healthy(process, address, begun, until)
            note = json.dumps({"address": address, "pid": process.pid})
            put_file(self.folder / "address.json", note.encode(), private=True)
        except BaseException:
            _stop(self.folder)
            raise
        notify(f"vLLM serves {self.model} after {time.monotonic() - begun:.0f} s")
        return address

    async def _healthy(
        self, process: subprocess.Popen[bytes], address: str, begun: float, until: float
    ) -> None:
        """Waits until the server is healthy, and reports its last log line now and then."""
        told = begun
        while not await asyncio.to_thread(_answers, address):
            now = time.monotonic()
            if process.poll() is not None:
                raise self._ended(process)
            if now > until:
                raise TargetUnavailable(
                    f"vLLM did not serve {self.model} within {now - begun:.0f} s; its last line: "
                    f"{last_line(self._log)} (all of it in {self._log}). Raise the option start_s."
                )
            if now - told > _TELL_S:
                notify(f"vLLM has been starting for {now - begun:.0f} s: {last_line(self._log)}")
                told = now
            await asyncio.sleep(_POLL_S)

    def _ended(self, process: subprocess.Popen[bytes]) -> TargetError:
        text = f"vLLM with {self.model} ended (exit code {process.returncode}): {last_error(self._log)}"
        return TargetError(f"{text}. Its log is {self._log}.")


def _answers(address: str) -> bool | None:
    """Returns whether the server at `address` is healthy; None where it is too busy to say."""
    connection = http.client.HTTPConnection(address.split("/")[2], timeout=10)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except TimeoutError:
        return None
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _stop(folder: Path) -> None:
    """Stops the server of `folder` if this process started it, with all its processes."""
    process = _started.pop(folder, None)
    if process is None:
        return
    (folder / "address.json").unlink(missing_ok=True)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_PATIENCE_S)
        os.killpg(process.pid, signal.SIGKILL)  # what outlived it
    process.wait()


@atexit.register
def _stop_all() -> None:
    for folder in list(_started):
        _stop(folder)
