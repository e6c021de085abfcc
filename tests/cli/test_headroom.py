"""`ragc headroom` in a process of its own: what it prints, sends, and leaves for the next run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.optimizers.colours import write_data
from tests.processes import ragc
from tests.support.colours import COLOURS
from tests.support.loopback import MODEL, Loopback
from tests.support.recipes import recipe_toml, vllm, write_files

SEARCH = {"knobs": ["top_k", "query_pos"], "trials": 4}


def name_a_colour(body: Mapping[str, Any]) -> str:
    return json.dumps({"answer": COLOURS[len(json.dumps(body["messages"])) % 5]})


@pytest.fixture
def server() -> Iterator[Loopback]:
    with Loopback(latency_s=0.0, answer=name_a_colour) as endpoint:
        yield endpoint


def test_the_command_prints_a_verdict_and_replays_itself(tmp_path: Path, server: Loopback) -> None:
    write_data(tmp_path)
    targets = {"main": vllm(server.url, MODEL)}
    data = {"dev": 20, "test": 20}
    recipe = recipe_toml(search=SEARCH, data=data, targets=targets, metrics=["em"])
    write_files(tmp_path, recipe=recipe)
    status, out, err = ragc(tmp_path, "headroom", "recipe.toml", "--calls", "120", "--gain", "0.2")
    assert status == 0, err
    sent = server.log.requests
    assert 0 < sent <= 120
    names = [line.split()[0] for line in out.splitlines() if not line.startswith(" ")]
    assert names == ["tried", "noise", "unsolved", "always", "shown", "gain", "spent", "verdict"]
    assert "a gain of 0.2 needs" in " ".join(out.split())
    assert "trial 0/" in err
    status, out, _ = ragc(tmp_path, "headroom", "recipe.toml", "--calls", "120", "--json")
    assert status == 0
    value = json.loads(out)
    assert server.log.requests == sent
    assert value["counters"]["replayed"] == value["counters"]["lm_calls"] == sent
    assert value["noise"]["sampled"] is False
