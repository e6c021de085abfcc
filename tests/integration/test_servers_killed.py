"""PostgreSQL and Redis killed in turn under a study: one sentence, and with --resume the same bytes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.security.command_line import NOISE
from tests.integration.cluster import INITDB, PASSWORD, POSTGRES, RUNUSER, listens, wait
from tests.optimizers.distributed.redis_server import PROGRAM, free_port
from tests.paths import ROOT
from tests.support.loopback import MODEL, Loopback
from tests.support.loopback_world import write_data
from tests.support.recipes import recipe_toml, vllm


def _missing() -> str:
    if INITDB is None or POSTGRES is None:
        return "PostgreSQL is not installed (Debian package postgresql)"
    if os.geteuid() == 0 and RUNUSER is None:
        return "PostgreSQL does not run as root, and there is no runuser"
    if PROGRAM is None:
        return "redis-server is not on PATH (Debian package redis-server)"
    return next((f"{name} is not installed" for name in ("psycopg", "redis") if find_spec(name) is None), "")


pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(bool(_missing()), reason=_missing()),
    pytest.mark.timeout(600),
]

RECIPE = recipe_toml(
    seed=5,
    concurrency=4,
    search={"knobs": ["top_k", "query_pos"], "trials": 4, "batch": 4, "objectives": ["em"]},
    targets={"main": vllm("%s", MODEL)},
)


@dataclass
class Server:
    """A server that is killed and started again on the same data."""

    command: list[str]
    folder: Path
    port: int
    job: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        for stale in self.folder.glob("data/postmaster.pid"):  # of the killed one
            stale.unlink()
        self.job = subprocess.Popen(
            self.command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        wait(lambda: listens(self.port), 60, self.command[0])
        time.sleep(0.5)

    def kill(self) -> None:
        """kill -9 of the server and all its processes."""
        if self.job is not None:
            os.killpg(self.job.pid, signal.SIGKILL)
            self.job.wait(timeout=60)
            wait(lambda: not listens(self.port), 60, "the end of a killed server")


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, Server]]:
    folder = Path(tempfile.mkdtemp(prefix="ragc-killed-"))
    alone = [str(RUNUSER), "-u", "postgres", "--"] if os.geteuid() == 0 else []
    secret = folder / "password"
    secret.write_text(PASSWORD)
    for path in (folder, secret) if alone else ():
        shutil.chown(path, "postgres")
    options = ["-A", "scram-sha-256", "-U", "ragc", f"--pwfile={secret}", "--no-sync"]
    command = [*alone, str(INITDB), "-D", str(folder / "data"), *options]
    subprocess.run(command, check=True, capture_output=True, cwd=folder)
    ports = free_port(), free_port()
    postgres = [*alone, str(POSTGRES), "-D", str(folder / "data"), "-p", str(ports[0])]
    postgres += ["-c", "listen_addresses=127.0.0.1", "-k", str(folder)]
    redis = [str(PROGRAM), "--bind", "127.0.0.1", "--port", str(ports[1]), "--save", ""]
    redis += ["--appendonly", "yes", "--appendfsync", "always", "--dir", str(folder)]
    both = {"postgres": Server(postgres, folder, ports[0]), "redis": Server(redis, folder, ports[1])}
    for server in both.values():
        server.start()
    yield both
    for server in both.values():
        server.kill()
    shutil.rmtree(folder, ignore_errors=True)


Compile = Callable[[Path], "subprocess.Popen[str]"]


def begin(folder: Path, servers: dict[str, Server], number: int) -> subprocess.Popen[str]:
    """`ragc compile --resume` in `folder`, with its study and its replies on the servers."""
    own = {
        "PYTHONPATH": str(ROOT / "src"), "RAGC_HOME": str(folder / "home"), "PGPASSWORD": PASSWORD,
        "RAGC_STORAGE": f"postgresql+psycopg://ragc@127.0.0.1:{servers['postgres'].port}/postgres",
        "RAGC_STORE": f"redis://127.0.0.1:{servers['redis'].port}/{number}",
    }  # fmt: skip
    command = [sys.executable, "-m", "ragc", "compile", "recipe.toml", "--out", "out", "--resume"]
    return subprocess.Popen(
        command,
        cwd=folder,
        env=os.environ | own,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def laid(folder: Path, provider: Loopback) -> Path:
    folder.mkdir()
    write_data(folder, 0, 10, 6)
    (folder / "recipe.toml").write_text(RECIPE % provider.url, "utf-8")
    return folder


def compiled(folder: Path) -> dict[str, bytes]:
    out = folder / "out"
    files = (path for path in out.rglob("*") if path.is_file() and path.name != "run.json")
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in files}


def test_a_study_goes_on_when_its_servers_are_back(servers: dict[str, Server], tmp_path: Path) -> None:
    with Loopback(latency_s=0.05) as provider:
        whole = begin(laid(tmp_path / "whole", provider), servers, 0)
        _, err = whole.communicate(timeout=300)
        assert whole.returncode == 0, err
        expected = provider.log.requests
        folder, before = laid(tmp_path / "cut", provider), provider.log.requests
        for number, name in enumerate(("postgres", "redis", "postgres")):
            job, goal = begin(folder, servers, 1), before + (number + 1) * expected // 5
            while provider.log.requests < goal and job.poll() is None:
                time.sleep(0.01)
            servers[name].kill()
            _, err = job.communicate(timeout=300)
            servers[name].start()
            assert job.returncode == 1, err
            assert not [word for word in NOISE if word in err], err
            (sentence,) = [line for line in err.splitlines() if line.startswith("ragc: ")]
            assert PASSWORD not in sentence
        last = begin(folder, servers, 1)
        _, err = last.communicate(timeout=300)
        assert last.returncode == 0, err
        assert compiled(folder) == compiled(tmp_path / "whole")
        # Only what was on its way when Redis was killed could not be kept.
        assert provider.log.requests - before <= expected + 4
