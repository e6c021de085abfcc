"""Runs a command until it ends or this script's input does: `python supervisor.py LOG COMMAND ...`.

Whoever starts it holds the other end of its input. When that process ends, in whatever way, the system closes
the pipe, and the command is stopped with all that it started. Only the standard library is used, so that any
Python can run this file.
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
"""Seconds that the command has to end by itself once it is told to."""


def main(log: str, command: list[str]) -> int:
    """The exit code of `command`, whose output goes to the file `log`."""
    with Path(log).open("wb") as out:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
    ended = threading.Event()
    threading.Thread(target=_watch, args=(child.pid, ended), daemon=True).start()
    code = child.wait()
    ended.set()
    _signal(child.pid, signal.SIGKILL)  # what it started and left behind
    return code


def _watch(group: int, ended: threading.Event) -> None:
    """Stop the processes of `group` when the input of this script ends."""
    sys.stdin.buffer.read(1)
    _signal(group, signal.SIGTERM)
    if not ended.wait(PATIENCE_S):
        _signal(group, signal.SIGKILL)


def _signal(group: int, what: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, what)


if __name__ == "__main__":
    os._exit(main(sys.argv[1], sys.argv[2:]) & 0xFF)
