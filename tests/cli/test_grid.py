"""`ragc grid` in processes of its own: recorded, killed and resumed, planned, refused."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
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


def start(folder: Path, *words: str) -> processes.Process:
    """The command line in a process of its own, in `folder`."""
    environment = processes.environment_of(folder)
    return processes.start(["-m", "ragc", "grid", *words], cwd=folder, environment=environment)


def run(folder: Path, *words: str) -> tuple[int, str, str]:
    """What `ragc grid` exits with, writes and complains of."""
    return processes.ragc(folder, "grid", *words)


@thorough
def test_a_recording_killed_in_the_middle_goes_on_and_nothing_is_answered_twice(
    folder: Path, server: Loopback
) -> None:
    process = start(folder, "recipe.toml", "--out", "mine")
    deadline = time.monotonic() + 60
    while server.answer_count < 30 and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    before = server.answer_count
    assert before >= 30
    part = library.read_grid(folder / "mine")
    assert part.recorded[0].all()
    assert not part.complete
    status, out, _ = run(folder, "recipe.toml", "--out", "mine", "--json")
    assert status == 0
    report = json.loads(out)
    assert report["complete"]
    assert (report["settings"], report["questions"], report["remarks"]) == (4, 20, [])
    answered = [call.key for call in server.log.calls if call.went is not None]
    # What was on its way when the process died is sent once more; the rest is not.
    assert len(answered) - len(set(answered)) <= 4
    assert report["counters"]["sent"] <= len(set(answered)) - before + 4
    grid = library.read_grid(folder / "mine")
    assert np.array_equal(grid.scores("f1")[0], part.scores("f1")[0])
    calls_before = len(server.log.calls)
    whole = run(folder, "recipe.toml", "--out", "whole", "--json")
    assert whole[0] == 0
    assert json.loads(whole[1])["counters"]["sent"] == 0
    assert len(server.log.calls) == calls_before
    again = library.read_grid(folder / "whole")
    assert np.array_equal(again.scores("f1"), grid.scores("f1"))


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
