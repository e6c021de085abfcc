"""A PostgreSQL server on this machine, for as long as a test needs it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PASSWORD = "only-in-the-environment"
_BIN = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), Path("/nowhere"))
INITDB = shutil.which("initdb") or shutil.which("initdb", path=str(_BIN))
POSTGRES = shutil.which("postgres") or shutil.which("postgres", path=str(_BIN))
RUNUSER = shutil.which("runuser")


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def wait_for(port: int) -> None:
    """Waits until a server listens on `port`; fails after a minute."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError("waited a minute for PostgreSQL")


@contextmanager
def postgres() -> Iterator[str]:
    """The address of a PostgreSQL server with a password; it never runs as root."""
    folder = Path(tempfile.mkdtemp(prefix="ragc-pg-"))
    alone = [str(RUNUSER), "-u", "postgres", "--"] if os.geteuid() == 0 else []
    secret = folder / "password"
    secret.write_text(PASSWORD)
    if alone:
        for path in (folder, secret):
            shutil.chown(path, "postgres")
    port, data = free_port(), folder / "data"
    init_options = ["-D", str(data), "-A", "scram-sha-256", "-U", "ragc", f"--pwfile={secret}", "--no-sync"]
    subprocess.run([*alone, str(INITDB), *init_options], check=True, capture_output=True, cwd=folder)
    options = ["-p", str(port), "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-k", str(folder)]
    job = subprocess.Popen(
        [*alone, str(POSTGRES), "-D", str(data), *options],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(port)
        time.sleep(0.5)
        yield f"postgresql+psycopg://ragc@127.0.0.1:{port}/postgres"
    finally:
        pid = int((data / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGINT)
        job.wait(timeout=60)
        shutil.rmtree(folder, ignore_errors=True)
