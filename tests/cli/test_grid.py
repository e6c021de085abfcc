"""`ragc grid` in processes of its own: planned, recorded and shown."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import ragc as library
from tests import processes
from tests.examples import thorough
from tests.support.loopback import MODEL, Loopback
from tests.support.loopback_world import write_data
from tests.support.recipes import recipe_toml, vllm

RECIPE = recipe_toml(
    seed=5,
    concurrency=4,
    search={"knobs": ["top_k", "query_pos"], "ranges": {"top_k": [1, 5]}, "demos": 2},
    grid={"settings": [{"top_k": 1}, {"top_k": 2, "demos": 2}, {"top_k": 5}]},
    targets={"main": vllm("%s", MODEL)},
    metrics=["f1", "em"],
)


@pytest.fixture
def server() -> Iterator[Loopback]:
    with Loopback(latency_s=0.02) as endpoint:
        yield endpoint


@pytest.fixture
def folder(tmp_path: Path, server: Loopback) -> Path:
    write_data(tmp_path, train=10, dev=20)
    (tmp_path / "recipe.toml").write_text(RECIPE % server.url, "utf-8")
    return tmp_path


def run(folder: Path, *words: str) -> tuple[int, str, str]:
    """What `ragc grid` exits with, writes and complains of."""
    return processes.ragc(folder, "grid", *words)


def test_a_grid_is_planned_recorded_and_shown(folder: Path, server: Loopback) -> None:
    status, out, err = run(folder, "recipe.toml", "--dry-run")
    assert (status, err) == (0, "")
    assert out.startswith("vanilla on ")
    assert "4 settings on 20 questions" in out
    assert "0 settings are recorded in " in out
    assert "80 cells are missing" in out
    assert server.answer_count == 0
    plan = json.loads(run(folder, "recipe.toml", "--dry-run", "--json")[1])
    assert (plan["cells"], plan["phases"]["settings"]) == (80, 80)
    status, out, err = run(folder, "recipe.toml")
    assert status == 0
    assert out.splitlines()[0] == f"4 settings on 20 questions in {(folder / 'grids/recipe').resolve()}"
    assert out.splitlines()[1].split() == ["metric", "baseline", "least", "median", "greatest"]
    assert "setting 1/4 " in err
    assert "top_k=2; 2 demonstrations, set 0" in err
    assert 0 < server.answer_count <= 2 * plan["lm_calls_about"]
    more = ("--set", "grid.settings=[{query_pos='after'}]", "--out", "more")
    assert run(folder, "recipe.toml", *more)[0] == 0
    grid = library.read_grid(folder / "grids/recipe", folder / "more")
    assert grid.complete
    assert [one["query_pos"] for one in grid.settings] == ["before"] * 4 + ["after"]


@thorough
def test_a_grid_that_was_killed_goes_on_and_asks_little_again(folder: Path, server: Loopback) -> None:
    command, environment = ["-m", "ragc", "grid", "recipe.toml"], processes.environment_of(folder)
    process = processes.start(command, cwd=folder, environment=environment)
    deadline = time.monotonic() + 60
    while server.answer_count < 30 and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert not library.read_grid(folder / "grids/recipe").complete
    assert run(folder, "recipe.toml")[0] == 0
    assert library.read_grid(folder / "grids/recipe").complete
    assert server.log.repeats <= 4  # what was on its way when it was killed
