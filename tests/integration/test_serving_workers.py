"""Workers of `ragc serve`: one dies under load and the others go on; half a minute of load leaves nothing."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from ragc.core.files import cache_home
from ragc.store.calls import CallStore
from tests.optimizers.colours import write_data
from tests.serving.load import Load, counted, serving
from tests.serving.server import until
from tests.support.loopback import MODEL, Loopback
from tests.support.recipes import recipe_toml, vllm

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="this system has no /proc"),
]

RECIPE = recipe_toml(targets={"main": vllm("{url}", "{model}")})


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A recipe whose model answers in 20 ms."""
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("RAGC_SERVE_KEYS", raising=False)
    write_data(tmp_path)
    with Loopback(latency_s=0.02, answer=lambda body: json.dumps({"answer": "red"})) as model:
        path = tmp_path / "recipe.toml"
        path.write_text(RECIPE.format(model=MODEL, url=model.url), "utf-8")
        yield path


def children(process: subprocess.Popen[str]) -> list[int]:
    """The process ids of the workers."""
    tasks = Path(f"/proc/{process.pid}/task")
    return [int(one) for task in tasks.iterdir() for one in (task / "children").read_text("utf-8").split()]


def test_a_worker_that_is_killed_disturbs_nobody_else(recipe: Path) -> None:
    clients = 8
    with serving(recipe, "--workers", "2", "--keep") as (address, process):
        assert until(lambda: len(children(process)) == 2)
        with Load(address, clients, "red") as load:
            assert until(lambda: load.results["answered"] > 40, 60)
            victim = children(process)[0]
            os.kill(victim, signal.SIGKILL)
            before = load.results["answered"]
            assert until(lambda: load.results["answered"] > before + 80, 60)
            assert until(lambda: victim not in children(process) and len(children(process)) == 2, 30)
        # At most what each client had in flight is lost, and nothing is answered wrongly.
        assert load.results["broken"] <= clients
        assert load.results.keys() <= {"answered", "broken"}
        # The counters of the dead worker stay in the sum; what it had not answered yet is not in it.
        assert load.results["answered"] <= counted(address) <= load.results["answered"] + clients
        assert "ragc_in_flight 0.0" in httpx.get(f"{address}/metrics").text
    store = CallStore(cache_home() / "store")
    store.check()
    store.close()


def test_workers_end_with_their_parent(recipe: Path) -> None:
    with serving(recipe, "--workers", "2") as (_, process):
        assert until(lambda: len(children(process)) == 2)
        workers = children(process)
        process.kill()
        process.wait(20)
        assert until(lambda: not any(alive(one) for one in workers), 30)


def alive(process: int) -> bool:
    with contextlib.suppress(OSError):
        return "State:\tZ" not in Path(f"/proc/{process}/status").read_text("utf-8")
    return False
