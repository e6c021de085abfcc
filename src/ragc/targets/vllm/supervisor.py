"""Runs a command until it or this script's stdin ends: `python supervisor.py LOG COMMAND ...`.

The parent process holds the other end of stdin. When it ends for whatever reason, the system closes the pipe,
and the command is stopped with all its child processes. Only the standard library is used, so that any Python
can run this file.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

PATIENCE_S = 20.0
"""Seconds that the command has to exit after SIGTERM."""


def main(log: str, command: list[str]) -> int:
    """Runs `command` with its output in the file `log`; returns its exit code."""
    with Path(log).open("wb") as out:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
    ended = threading.Event()
    threading.Thread(target=_watch, args=(child.pid, ended), daemon=True).start()
    code = child.wait()
    ended.set()
    _signal(child.pid, signal.SIGKILL)  # child processes that outlived it
    return code


def _watch(group: int, ended: threading.Event) -> None:
    """Stops the process `group` when the stdin of this script ends."""
    sys.stdin.buffer.read(1)
    _signal(group, signal.SIGTERM)
    if not ended.wait(PATIENCE_S):
        _signal(group, signal.SIGKILL)


def _signal(group: int, what: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, what)


if __name__ == "__main__":
    os._exit(main(sys.argv[1], sys.argv[2:]) & 0xFF)
