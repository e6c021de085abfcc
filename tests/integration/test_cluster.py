"""One study on several machines: PostgreSQL, Redis and Ray for real, and a worker killed mid-trial."""

from __future__ import annotations

import json
import signal
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
from tests.support.recipes import recipe_toml, vllm

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(bool(missing()), reason=missing()),
    pytest.mark.timeout(900),
]

RECIPE = recipe_toml(
    seed=5,
    concurrency=8,
    search={
        "knobs": ["top_k", "query_pos", "temperature"],
        "demos": 3,
        "trials": 8,
        "batch": 4,
        "objectives": ["f1"],
    },
    data={"dataset": "pydocs", "train": 40, "dev": 40, "test": 40},
    targets={"main": vllm("http://127.0.0.1:{port}/v1", "echo", api_key_env="LOOPBACK_KEY")},
)
SHARED = """
[study]
storage = "{storage}"
store = "{store}/{number}"
workers = "{ray}"
"""
MORE = """
[budget]
lm_calls = 250
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Loopback]:
    with loopback() as loopback_server:
        yield loopback_server


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster")) as running_cluster:
        yield running_cluster


@pytest.fixture(scope="module")
def whole(
    server: Loopback, machines: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, set[str]]:
    """The program that one process compiles, and what it asked."""
    out = tmp_path_factory.mktemp("whole") / "out"
    end(begin(machines, RECIPE.format(port=server.port), out))
    request_keys = set(server.request_keys)
    server.request_keys.clear()
    return out, request_keys


def identical(one: Path, other: Path) -> None:
    """Fails where two compiled programs differ; their recipes say who ran the trials."""
    for path in sorted(one.rglob("*")):
        if path.is_file() and path.name not in ("run.json", "recipe.toml"):
            assert path.read_bytes() == (other / path.relative_to(one)).read_bytes(), path.name


def begin(machines: Cluster, recipe: str, out: Path, *more: str) -> subprocess.Popen[str]:
    """The command line, compiling to `out`."""
    written = out.with_suffix(".toml")
    written.write_text(recipe, "utf-8")
    return subprocess.Popen(
        [sys.executable, "-m", "ragc", "compile", str(written), "--out", str(out), "--json", *more],
        env=machines.environment("runner"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(job: subprocess.Popen[str]) -> dict[str, Any]:
    stdout, stderr = job.communicate(timeout=600)
    assert job.returncode == 0, stderr[-4000:]
    return dict(json.loads(stdout))


def status(machines: Cluster, out: Path) -> dict[str, Any]:
    code = (
        "import json, sys; from ragc.optimizers.status import status; "
        "print(json.dumps(status(sys.argv[1]).to_json()))"
    )
    process = subprocess.run(
        [sys.executable, "-c", code, str(out)],
        env=machines.environment("asker"),
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(json.loads(process.stdout))


def hold_replies(server: Loopback, machines: Cluster) -> str:
    """Hold all replies back; the worker that waits for some. What was answered before is kept by then."""
    server.holding = True
    time.sleep(2)
    for who in machines.workers:
        if server.at_work(who):
            return who
    server.holding = False
    time.sleep(0.05)
    return ""


def test_a_worker_that_is_killed_mid_trial_changes_nothing(
    server: Loopback, machines: Cluster, whole: tuple[Path, set[str]], tmp_path: Path
) -> None:
    shared = RECIPE.format(port=server.port) + SHARED.format(
        storage=machines.storage, store=machines.store, number=0, ray=machines.ray
    )
    job = begin(machines, shared, tmp_path / "cut")
    wait(lambda: len(server.request_keys) > len(whole[1]) // 3 or job.poll() is not None, 300, "workers")
    wait(
        lambda: hold_replies(server, machines) or job.poll() is not None,
        120,
        "a worker in the middle of a trial",
    )
    victim = hold_replies(server, machines)
    running = status(machines, tmp_path / "cut")
    flying = server.at_work(victim)
    assert flying
    machines.kill(victim)
    wait(lambda: {key for _, key in server.dropped} >= flying, 60, "the dead worker's connections")
    server.holding = False
    end(job)

    repeated = {key for key, times in Counter(server.request_keys).items() if times > 1}
    assert repeated <= flying  # what was not finished; of what was, nothing
    assert set(server.request_keys) == whole[1]
    identical(whole[0], tmp_path / "cut")
    assert running["state"] == "running"
    assert running["workers"].endswith(machines.ray.partition(":")[2])  # under the machine's own address
    assert running["trials"]["running"] >= 1
    finished = status(machines, tmp_path / "cut")
    assert finished["state"] == "finished"
    assert finished["trials"]["done"] == finished["trials"]["wanted"] == 8
    assert finished["budget"]["lm_calls"]["spent"] == len(whole[1])
    study_files = [path for path in (machines.folder / "home" / "studies").rglob("*") if path.is_file()]
    assert study_files
    assert not [path for path in (*study_files, tmp_path / "cut" / "recipe.toml") if PASSWORD in _text(path)]

    refused = begin(machines, shared, tmp_path / "cut", "--set", "data.dev=0")
    assert "data.dev" in refused.communicate(timeout=600)[1]
    assert refused.returncode != 0
    assert status(machines, tmp_path / "cut") == finished  # the servers' part of the study too


def _text(path: Path) -> str:
    return path.read_bytes().decode("latin-1")


def test_a_budget_holds_for_all_workers_and_another_machine_may_join(
    server: Loopback, machines: Cluster, tmp_path: Path
) -> None:
    machines.start("c")
    server.request_keys.clear()
    recipe = RECIPE.format(port=server.port) + MORE
    shared = recipe + SHARED.format(
        storage=machines.storage, store=machines.store, number=1, ray=machines.ray
    )
    summary = end(begin(machines, shared, tmp_path / "small"))
    assert len(server.request_keys) == len(set(server.request_keys)) <= 250
    assert (
        0 < summary["counters"]["sent"] <= len(server.request_keys)
    )  # what was cut off told nobody its cost
    searched = json.loads((tmp_path / "small" / "provenance.json").read_text())["search"]
    assert searched["budget"] == "The budget of 250 LM calls is spent; raise budget.lm_calls to go on."
    charged = status(machines, tmp_path / "small")["budget"]["lm_calls"]
    assert charged["limit"] == 250
    assert (
        0 < charged["spent"] <= len(server.request_keys)
    )  # what was cut off was set aside and never charged


def test_an_interrupt_stops_the_workers_and_resuming_ends_as_if_there_had_been_none(
    server: Loopback, machines: Cluster, whole: tuple[Path, set[str]], tmp_path: Path
) -> None:
    server.request_keys.clear()
    shared = RECIPE.format(port=server.port) + SHARED.format(
        storage=machines.storage, store=machines.store, number=2, ray="ray"
    )
    job = begin(machines, shared, tmp_path / "out")
    wait(lambda: len(server.request_keys) > len(whole[1]) // 3 or job.poll() is not None, 300, "workers")
    job.send_signal(signal.SIGINT)
    _, stderr = job.communicate(timeout=60)
    assert job.returncode == 130, stderr[-4000:]
    request_count = len(server.request_keys)
    assert status(machines, tmp_path / "out")["state"] == "cut off"
    assert len(server.request_keys) == request_count
    end(begin(machines, shared, tmp_path / "out", "--resume"))
    assert set(server.request_keys) == whole[1]
    assert len(server.request_keys) <= len(whole[1]) + 2 * 8  # what two workers had not finished
    identical(whole[0], tmp_path / "out")
