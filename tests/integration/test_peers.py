"""Two peers on the real SmolLM2 over pydocs: they end, can be saved, and repeat nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragc import recipe as recipes
from ragc.compiled.base import CompiledProgram, load
from ragc.core import event_loop
from ragc.core.counters import Counters, counting
from ragc.core.progress import Silent
from ragc.optimizers.external.optimize import ExternalResult, optimize
from ragc.store.calls import CallStore
from ragc.targets.embedded.target import EmbeddedTarget
from ragc.task.base import Task, prepare
from tests.integration.fetched import default_weights
from tests.support.recipes import recipe_toml

pytest.importorskip("xllamacpp")
pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]

RECIPE = recipe_toml(
    seed=11,
    concurrency=4,
    search={"demos": 1, "trials": 2, "instructions": 2, "objectives": ["f1"]},
    knobs={"top_k": 1, "wording": "brief"},
    data={"dataset": "pydocs", "train": 3, "dev": 3, "test": 1},
    metrics=["f1", "em"],
)


@pytest.fixture(scope="module")
def target() -> Iterator[EmbeddedTarget]:
    """The default weights in the user's own cache; another process may fetch them, a test may not."""
    embedded_target = EmbeddedTarget(default_weights(), context=1024)
    event_loop.run(embedded_target.open())
    yield embedded_target
    event_loop.run(embedded_target.aclose())


def task_of(folder: Path, target: EmbeddedTarget) -> Task:
    (folder / "recipe.toml").write_text(RECIPE, "utf-8")
    store = CallStore(folder / "store")
    return prepare(recipes.load(folder / "recipe.toml"), store=store, targets={"main": target})


async def twice(name: str, task: Task) -> list[ExternalResult]:
    limit = asyncio.Semaphore(4)
    return [await optimize(name, task, limit=limit, progress=Silent()) for _ in range(2)]


@pytest.mark.parametrize("name", ["random", pytest.param("mipro", marks=pytest.mark.nightly)])
def test_a_peer_searches_on_the_real_model_and_can_be_saved(
    name: str, tmp_path: Path, target: EmbeddedTarget
) -> None:
    task = task_of(tmp_path, target)
    with counting(Counters()) as spent:
        outcome, repeated = event_loop.run(twice(name, task))
    assert repeated == outcome
    assert spent.sent == task.budget.spent.calls
    assert len(outcome.trials) >= 3
    assert max(outcome.trials) >= outcome.trials[0]
    assert all(0.0 <= score <= 1.0 for score in outcome.trials)
    assert outcome.counters["lm_calls"] >= len(outcome.trials) * len(task.dev)
    program = event_loop.run(outcome.program(task))
    compiled = CompiledProgram.of(program, provenance={}, recipe=task.recipe.to_toml(), run={})
    compiled.save(tmp_path / "out", program)
    again = load(tmp_path / "out").build(task.runtime)
    assert {name: p.fingerprint for name, p in again.named_predictors()} == {
        name: p.fingerprint for name, p in program.named_predictors()
    }
