"""A Redis server for tests, on a free port of this machine, which keeps nothing."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROGRAM = shutil.which("redis-server")
MISSING = "redis-server is not on PATH (Debian package redis-server)"


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The address of a server that runs until the block ends."""
    port = free_port()
    lines = ["bind 127.0.0.1", f"port {port}", f'dir "{folder}"', 'save ""']
    job = subprocess.Popen([str(PROGRAM), "-"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert job.stdin is not None
    job.stdin.write("\n".join(lines).encode())
    job.stdin.close()
    try:
        _wait(port)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        job.terminate()
        job.wait(timeout=30)


def _wait(port: int) -> None:
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError(f"the Redis server on port {port} did not start")
