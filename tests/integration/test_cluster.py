"""One study on several machines: PostgreSQL, Redis and Ray for real, and a worker that is killed mid-trial."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cluster import PASSWORD, Cluster, cluster, missing, wait
from tests.integration.loopback_server import Loopback, loopback

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(bool(missing()), reason=missing()),
    pytest.mark.timeout(900),
]

RECIPE = """
program = "vanilla"
seed = 5
concurrency = 8
[search]
knobs = ["top_k", "query_pos", "temperature"]
demos = 3
trials = 8
batch = 4
objectives = ["f1"]
[data]
dataset = "pydocs"
train = 40
dev = 40
test = 40
[sources.local]
kind = "bm25"
[targets.main]
kind = "vllm"
model = "echo"
base_url = "http://127.0.0.1:{port}/v1"
[targets.main.options]
api_key_env = "LOOPBACK_KEY"
"""
SHARED = """
[study]
storage = "{storage}"
store = "{store}/{number}"
workers = "{ray}"
"""
MORE = """
[budget]
lm_calls = 90
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Loopback]:
    with loopback() as made:
        yield made


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


def begin(machines: Cluster, recipe: str, out: Path) -> subprocess.Popen[str]:
    """The command line, compiling to `out`."""
    written = out.with_suffix(".toml")
    written.write_text(recipe, "utf-8")
    return subprocess.Popen(
        [sys.executable, "-m", "ragc", "compile", str(written), "--out", str(out), "--json"],
        env=machines.environment("runner"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(job: subprocess.Popen[str]) -> dict[str, Any]:
    said, told = job.communicate(timeout=600)
    assert job.returncode == 0, told[-4000:]
    return dict(json.loads(said))


def status(machines: Cluster, out: Path) -> dict[str, Any]:
    code = (
        "import json, sys; from ragc.optimizers.status import status; "
        "print(json.dumps(status(sys.argv[1]).to_json()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(out)],
        env=machines.environment("asker"),
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(json.loads(done.stdout))


def held_with_both_at_work(server: Loopback) -> bool:
    """Hold all replies back; whether both workers wait for some. What was answered before has been kept."""
    server.holding = True
    time.sleep(2)
    if server.at_work("a") and server.at_work("b"):
        return True
    server.holding = False
    time.sleep(0.1)
    return False


def test_a_worker_that_is_killed_mid_trial_changes_nothing(
    server: Loopback, machines: Cluster, tmp_path: Path
) -> None:
    recipe = RECIPE.format(port=server.port)
    end(begin(machines, recipe, tmp_path / "whole"))
    alone = list(server.asked)
    server.asked.clear()
    server.askers.clear()
    shared = recipe + SHARED.format(
        storage=machines.storage, store=machines.store, number=0, ray=machines.ray
    )
    job = begin(machines, shared, tmp_path / "cut")
    wait(lambda: {"a", "b"} <= set(server.askers) or job.poll() is not None, 300, "both workers")
    wait(lambda: held_with_both_at_work(server) or job.poll() is not None, 120, "both workers mid-trial")
    running = status(machines, tmp_path / "cut")
    flying = server.at_work("a")
    machines.kill("a")
    wait(lambda: {key for _, key in server.dropped} >= flying, 60, "the dead worker's connections")
    server.holding = False
    end(job)

    repeated = {key for key, times in Counter(server.asked).items() if times > 1}
    assert flying
    assert repeated <= flying  # what was not finished; of what was, nothing
    assert set(server.asked) == set(alone)
    for path in sorted((tmp_path / "whole").rglob("*")):
        if path.is_file() and path.name not in ("run.json", "recipe.toml"):
            twin = tmp_path / "cut" / path.relative_to(tmp_path / "whole")
            assert path.read_bytes() == twin.read_bytes(), path.name
    assert running["state"] == "running"
    assert running["workers"] == machines.ray
    assert running["trials"]["running"] >= 1
    finished = status(machines, tmp_path / "cut")
    assert finished["state"] == "finished"
    assert finished["trials"]["done"] == finished["trials"]["wanted"] == 8
    assert finished["budget"]["lm_calls"]["spent"] == len(set(alone))
    kept = [path for path in (machines.folder / "home" / "studies").rglob("*") if path.is_file()]
    assert kept
    assert not [path for path in (*kept, tmp_path / "cut" / "recipe.toml") if PASSWORD in _text(path)]


def _text(path: Path) -> str:
    return path.read_bytes().decode("latin-1")


def test_a_budget_holds_for_all_workers_and_another_machine_may_join(
    server: Loopback, machines: Cluster, tmp_path: Path
) -> None:
    machines.start("c")
    server.asked.clear()
    server.askers.clear()
    recipe = RECIPE.format(port=server.port) + MORE
    shared = recipe + SHARED.format(
        storage=machines.storage, store=machines.store, number=1, ray=machines.ray
    )
    found = end(begin(machines, shared, tmp_path / "small"))
    assert len(server.asked) == len(set(server.asked)) <= 90
    assert found["counters"]["sent"] == len(server.asked)
    assert (tmp_path / "small" / "program.json").exists()
    assert status(machines, tmp_path / "small")["budget"]["lm_calls"] == {
        "spent": len(server.asked),
        "limit": 90,
    }
