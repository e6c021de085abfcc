"""PostgreSQL, Redis and a Ray cluster on this machine, for as long as a test needs them."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from tests.optimizers.distributed.redis_server import free_port, serving
from tests.paths import ROOT

PASSWORD = "only-in-the-environment"
_BIN = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), Path("/nowhere"))
INITDB = shutil.which("initdb") or shutil.which("initdb", path=str(_BIN))
POSTGRES = shutil.which("postgres") or shutil.which("postgres", path=str(_BIN))
RUNUSER = shutil.which("runuser")


def missing() -> str:
    """What this machine lacks, as a reason to skip; "" for nothing."""
    if INITDB is None or POSTGRES is None:
        return "PostgreSQL is not installed (Debian package postgresql)"
    if os.geteuid() == 0 and RUNUSER is None:
        return "PostgreSQL does not run as root, and there is no runuser"
    if shutil.which("redis-server") is None:
        return "redis-server is not on PATH (Debian package redis-server)"
    return next(
        (f"{name} is not installed" for name in ("ray", "psycopg", "redis") if find_spec(name) is None), ""
    )


def wait(done: Callable[[], object], seconds: float, what: str) -> None:
    """Wait until `done()` is true; fails after `seconds`."""
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, f"waited {seconds:g} s for {what}"
        time.sleep(0.05)


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


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
        wait(lambda: listens(port), 60, "PostgreSQL")
        time.sleep(0.5)
        yield f"postgresql+psycopg://ragc@127.0.0.1:{port}/postgres"
    finally:
        pid = int((data / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGINT)
        job.wait(timeout=60)
        shutil.rmtree(folder, ignore_errors=True)


@dataclass
class Cluster:
    """Servers and a Ray head without cores of its own; workers are started and killed by name."""

    storage: str
    store: str
    ray: str
    folder: Path
    workers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def environment(self, who: str) -> dict[str, str]:
        """What every process has around it; `who` is the key it sends to the loopback server."""
        own = {
            "PYTHONPATH": str(ROOT / "src"),
            "RAGC_HOME": str(self.folder / "home"),
            "PGPASSWORD": PASSWORD,
            "LOOPBACK_KEY": who,
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_AUTH_MODE": "disabled",  # a token in the home folder of whoever runs this is not ours
        }
        return {**os.environ, **own}

    def start(self, who: str) -> None:
        """A worker for one trial at a time."""
        code = f"from ragc.optimizers.distributed.worker import join; join({self.ray!r}, trials=1)"
        command = [sys.executable, "-c", code]
        self.workers[who] = _node(command, self.environment(who), self.folder / f"{who}.log")

    def kill(self, who: str) -> None:
        """kill -9: its node and all that runs on it die with it."""
        job = self.workers.pop(who)
        job.kill()
        job.wait(timeout=60)

    def end(self) -> None:
        """Ctrl-C for all workers."""
        for job in self.workers.values():
            interrupt(job)


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """A cluster with two workers, `a` and `b`."""
    with ExitStack() as stack:
        storage, store = stack.enter_context(postgres()), stack.enter_context(serving(folder))
        port, temporary = free_port(), tempfile.mkdtemp(prefix="ragc-ray-")
        stack.callback(shutil.rmtree, temporary, ignore_errors=True)
        ray_cluster = Cluster(storage, store.removesuffix("/0"), f"127.0.0.1:{port}", folder)
        command = [
            sys.executable,
            "-m",
            "ray.scripts.scripts",
            "start",
            "--head",
            "--block",
            "--num-cpus",
            "0",
        ]
        command += ["--port", str(port), "--include-dashboard", "false"]
        command += ["--object-store-memory", str(128 * 2**20), "--temp-dir", temporary]
        head = _node(command, ray_cluster.environment("head"), folder / "head.log")
        stack.callback(interrupt, head)
        stack.callback(ray_cluster.end)
        for who in "ab":
            ray_cluster.start(who)
        yield ray_cluster


def _node(command: list[str], environment: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    """A Ray node that has started. One that shares its machine with others now and then waits for ever; it
    is started again.
    """
    for _ in range(4):
        with log.open("wb") as out:
            job = subprocess.Popen(
                command, env=environment, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
            )
        end = time.monotonic() + 40
        while time.monotonic() < end and job.poll() is None:
            if b"Ray runtime started" in log.read_bytes():
                return job
            time.sleep(0.1)
        job.kill()
        job.wait(timeout=60)
    raise AssertionError(f"no Ray node started: {log.read_text()[-2000:]}")


def interrupt(job: subprocess.Popen[bytes]) -> None:
    """As Ctrl-C does; fails when the process does not end by itself."""
    job.send_signal(signal.SIGINT)
    try:
        job.wait(timeout=60)
    finally:
        job.kill()
        job.wait(timeout=60)
