"""`ragc headroom` in a process of its own: what it prints, sends, and leaves for the next run."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from experiments.benchmarks.serving.loopback import MODEL, Loopback
from tests import processes
from tests.optimizers.colours import COLOURS, write_data
from tests.paths import ROOT

RECIPE = f"""
program = "vanilla"
[search]
knobs = ["top_k", "query_pos"]
trials = 4
[data]
questions = "questions.jsonl"
corpus = "corpus.jsonl"
dev = 20
test = 20
[sources.local]
kind = "bm25"
[targets.main]
kind = "vllm"
model = "{MODEL}"
base_url = "URL"
[metrics]
report = ["em"]
"""


def name_a_colour(body: Mapping[str, Any]) -> str:
    return json.dumps({"answer": COLOURS[len(json.dumps(body["messages"])) % 5]})


@pytest.fixture
def server() -> Iterator[Loopback]:
    with Loopback(latency_s=0.0, answer=name_a_colour) as endpoint:
        yield endpoint


def headroom(folder: Path, *words: str) -> tuple[int, str, str]:
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": paths, "RAGC_HOME": str(folder / "home")}
    done = processes.run(["-m", "ragc", "headroom", *words], cwd=folder, environment=environment)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


def test_the_command_prints_a_verdict_and_replays_itself(tmp_path: Path, server: Loopback) -> None:
    write_data(tmp_path)
    (tmp_path / "recipe.toml").write_text(RECIPE.replace("URL", server.url), "utf-8")
    status, out, err = headroom(tmp_path, "recipe.toml", "--calls", "120", "--gain", "0.2")
    assert status == 0, err
    sent = server.log.requests
    assert 0 < sent <= 120
    names = [line.split()[0] for line in out.splitlines() if not line.startswith(" ")]
    assert names == ["tried", "noise", "unsolved", "always", "shown", "gain", "spent", "verdict"]
    assert "a gain of 0.2 needs" in " ".join(out.split())
    assert "trial 0/" in err
    status, out, _ = headroom(tmp_path, "recipe.toml", "--calls", "120", "--json")
    assert status == 0
    value = json.loads(out)
    assert server.log.requests == sent
    assert value["counters"]["replayed"] == value["counters"]["lm_calls"] == sent
    assert value["noise"]["sampled"] is False
