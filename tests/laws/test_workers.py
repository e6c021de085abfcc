"""A study whose trials are answered by Ray's workers: the program of one process, over a worker's death."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import processes
from tests.laws.conftest import Make
from tests.laws.features import FEATURES, Feature
from tests.laws.world import KEYS, World
from tests.support.names import PROGRAM, PROVENANCE

pytest.importorskip("ray")
pytestmark = pytest.mark.integration

SHARED = ("knobs", "demonstrations", "two objectives")
"""Features whose trials workers answer as one process does."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of a cluster of one machine with two workers."""
    folder = tempfile.mkdtemp()  # Ray's sockets need a short path
    variables = {**os.environ, **KEYS, "PYTHONPATH": processes.PATH, "RAY_USAGE_STATS_ENABLED": "0"}
    variables["RAY_TMPDIR"] = folder
    ray = str(Path(sys.executable).parent / "ray")
    words = "start --head --port 0 --num-cpus 2 --include-dashboard false --object-store-memory 134217728"
    started = subprocess.run(
        [ray, *words.split()], env=variables, capture_output=True, text=True, timeout=120, check=True
    )
    found = re.search(r"--address='([^']+)'", started.stdout)
    assert found
    yield found[1]
    subprocess.run([ray, "stop", "--force"], env=variables, capture_output=True, timeout=60, check=False)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("name", SHARED)
def test_workers_choose_the_program_that_one_process_chooses(
    name: str, cluster: str, unbroken: Callable[[Feature], World], make: Make
) -> None:
    feature = next(feature for feature in FEATURES if feature.name == name)
    whole, world = unbroken(feature), make(feature)
    ended = world.compile("--set", f'study.workers="{cluster}"')
    assert ended.status == 0, ended.err
    assert f"ray start --address={cluster}" in ended.err
    assert world.written()[PROGRAM] == whole.written()[PROGRAM]
    assert world.written()[PROVENANCE] == whole.written()[PROVENANCE]
    assert world.account.tries.keys() == whole.account.tries.keys()
    world.assert_no_key()


def test_a_worker_that_dies_costs_its_part(
    cluster: str, unbroken: Callable[[Feature], World], make: Make
) -> None:
    feature = next(feature for feature in FEATURES if feature.name == "knobs")
    whole, world = unbroken(feature), make(feature)
    killed: list[int] = []

    def kill_one() -> None:
        while not killed:
            time.sleep(0.05)
            if world.account.arrived > 20:
                killed.extend(workers_at_work()[:1])
        os.kill(killed[0], signal.SIGKILL)

    threading.Thread(target=kill_one, daemon=True).start()
    ended = world.compile("--set", f'study.workers="{cluster}"')
    assert ended.status == 0, ended.err
    assert killed
    assert world.written()[PROGRAM] == whole.written()[PROGRAM]


def workers_at_work() -> list[int]:
    """The processes of Ray's tasks that answer questions now."""
    listed = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout
    return [int(line.split()[0]) for line in listed.splitlines() if "ray::answer_part" in line]
