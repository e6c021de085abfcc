"""kill -9 of the real command line at random moments, against a server whose answers depend on the prompt."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.processes import environment_of
from tests.support.recipes import recipe_toml, vllm
from tests.support.server import MODEL, ScriptedServer, serving, word_of_prompt

pytestmark = pytest.mark.integration

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
    targets={"main": vllm("%s", MODEL)},
)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with serving(word_of_prompt) as scripted:
        yield scripted


def command(folder: Path, *more: str) -> list[str]:
    out = ["--out", str(folder / "out"), *more]
    return [sys.executable, "-m", "ragc", "compile", str(folder / "recipe.toml"), *out]


def test_killed_three_times_it_ends_as_if_it_had_not_been(server: ScriptedServer, tmp_path: Path) -> None:
    results: dict[str, dict[str, Any]] = {}
    for name in ("whole", "cut"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "recipe.toml").write_text(RECIPE % server.url)
        before = len(server.requests)
        started = time.monotonic()
        if name == "cut":
            rng = random.Random(11)
            for _ in range(3):
                job = subprocess.Popen(
                    command(folder, "--resume"), env=environment_of(folder), stderr=subprocess.DEVNULL
                )
                goal = len(server.requests) + rng.randrange(10, max(11, len(results["whole"]["sent"]) // 4))
                while len(server.requests) < goal and job.poll() is None:
                    time.sleep(0.005)
                job.kill()
                job.wait()
        process = subprocess.run(
            command(folder, "--resume", "--json"),
            env=environment_of(folder),
            capture_output=True,
            text=True,
            check=True,
        )
        sent = [json.dumps(body) for body in server.bodies[before:]]
        results[name] = {
            "sent": sent,
            "json": json.loads(process.stdout),
            "seconds": time.monotonic() - started,
        }
    whole, cut = results["whole"], results["cut"]
    assert len(whole["sent"]) == len(set(whole["sent"]))
    assert set(cut["sent"]) == set(whole["sent"])
    assert len(cut["sent"]) <= len(whole["sent"]) + 3 * 8
    for path in sorted((tmp_path / "whole" / "out").rglob("*")):
        if path.is_file() and path.name != "run.json":
            twin = tmp_path / "cut" / "out" / path.relative_to(tmp_path / "whole" / "out")
            assert path.read_bytes() == twin.read_bytes(), path.name
