"""Processes that tests start: the command line of ragc, and scripts that import it.

Importing DSPy, LiteLLM and Optuna takes a process more than a second. On a developer's machine processes are
therefore forked from one that has imported them and done nothing else; where `CI` is set each starts anew.
The forked process has its own folder, environment and streams, and ends as any interpreter does.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO

from tests.examples import THOROUGH
from tests.paths import ROOT, SRC

_POWERS = "-dac_override,-dac_read_search,-fowner"
DROPPING = ("setpriv", f"--bounding-set={_POWERS}", f"--inh-caps={_POWERS}", "--")
"""The start of a command that runs without the capabilities by which root writes where nobody may."""

PATH = f"{SRC}{os.pathsep}{ROOT}"
"""PYTHONPATH of a process that imports ragc, tests and experiments."""

Stream = int | IO[bytes]
"""A file descriptor, an open file, or DEVNULL or PIPE of `subprocess`."""


class ForkedProcess:
    """A process that the fork server started: `reports` tell its id and its exit status."""

    def __init__(self, reports: socket.socket, files: Sequence[IO[bytes]]) -> None:
        self._reports, self._files = reports, files
        self.pid = int(reports.recv(64))
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit status; None while the process runs."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """The exit status, once the process has ended. Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            self._reports.settimeout(timeout)
            try:
                self.returncode = int(self._reports.recv(64))
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired("a forked process", timeout or 0) from None
            self._reports.close()
        return self.returncode

    def communicate(self, *, timeout: float | None = None) -> tuple[str, str]:
        """What the process wrote to stdout and stderr, once it has ended."""
        self.wait(timeout)
        texts = []
        for file in self._files:
            file.seek(0)
            texts.append(file.read().decode("utf-8", "backslashreplace"))
            file.close()
        out, err = texts
        return out, err

    def send_signal(self, sig: int) -> None:
        """Send a signal; none to a process that has ended."""
        if self.poll() is None:
            os.kill(self.pid, sig)


Process = subprocess.Popen[str] | ForkedProcess
"""What tests use of a process is alike in both."""


def environment_of(folder: Path | None = None, **more: str) -> dict[str, str]:
    """Returns this environment with PATH and `more`; what ragc stores is in `folder`, where that is given."""
    home = {"RAGC_HOME": str(folder / "home")} if folder else {}
    return {**os.environ, "PYTHONPATH": PATH, **home, **more}


@cache
def fork_server() -> socket.socket:
    """The connection to this process's fork server, which ends with this process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", "tests.fork_server", str(theirs.fileno())]
    environment = environment_of()
    server = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()]
    )
    theirs.close()

    def end() -> None:
        ours.close()
        server.wait()

    atexit.register(end)
    return ours


def start(
    command: Sequence[str | bytes],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    stdin: Stream = subprocess.DEVNULL,
    stdout: Stream = subprocess.PIPE,
    stderr: Stream = subprocess.PIPE,
    unprivileged: bool = False,
    forked: bool = False,
) -> Process:
    """Start `python COMMAND`, which is `-m MODULE ARGUMENTS` or `-c SCRIPT ARGUMENTS`.

    What is no UTF-8 in its output is escaped. `unprivileged` takes root's power over permissions away.
    `forked` forks it where `CI` is set too.
    """
    if THOROUGH and not forked:
        before = DROPPING if unprivileged and os.getuid() == 0 else ()
        return subprocess.Popen(
            [*before, sys.executable, *command], cwd=cwd, env=environment, stdin=stdin, stdout=stdout,
            stderr=stderr, encoding="utf-8", errors="backslashreplace",
        )  # fmt: skip
    request = {
        "command": [os.fsdecode(part) for part in command],
        "cwd": str(cwd),
        "environment": dict(environment),
        "unprivileged": unprivileged,
    }
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs, Path(os.devnull).open("r+b", buffering=0) as nothing:
        streams: list[Stream] = [
            tempfile.TemporaryFile() if stream == subprocess.PIPE else stream  # noqa: SIM115
            for stream in (stdin, stdout, stderr)
        ]
        descriptors = [
            nothing.fileno()
            if stream == subprocess.DEVNULL
            else stream
            if isinstance(stream, int)
            else stream.fileno()
            for stream in streams
        ]
        socket.send_fds(fork_server(), [json.dumps(request).encode()], [*descriptors, theirs.fileno()])
    return ForkedProcess(ours, [stream for stream in streams[1:] if not isinstance(stream, int)])


def run(
    command: Sequence[str | bytes],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    timeout: float = 120,
    unprivileged: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run `python COMMAND` to its end, as `start`."""
    process = start(command, cwd=cwd, environment=environment, unprivileged=unprivileged)
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.communicate()
        raise
    return subprocess.CompletedProcess([os.fsdecode(part) for part in command], process.wait(), out, err)


def ragc(folder: Path, *words: str) -> tuple[int, str, str]:
    """Runs `ragc WORDS` in `folder`: its exit status, stdout, and stderr, which holds no traceback."""
    done = run(["-m", "ragc", *words], cwd=folder, environment=environment_of(folder))
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr
