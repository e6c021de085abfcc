"""A recipe with a grid over the things of `colours`, recorded on scripted targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ragc import recipe as recipes
from ragc.optimizers.grids import record
from ragc.optimizers.grids.grid import Grid
from ragc.store.calls import CallStore
from ragc.testing import ScriptedTarget
from tests.optimizers.colours import needs_demos
from tests.support.recipes import recipe_toml

RECIPE = recipe_toml(
    seed=3,
    concurrency=4,
    search={
        "knobs": ["top_k", "query_pos", "chunk_size"],
        "ranges": {"top_k": [1, 4], "chunk_size": [50, 200]},
        "demos": 2,
    },
    grid={
        "settings": [{"top_k": 1}, {"top_k": 1, "demos": 2, "demo_set": 1}],
        "product": {"top_k": [1, 2], "query_pos": ["before", "after"]},
    },
    data={"train": 15, "dev": 8, "test": 0},
    metrics=["em", "f1", "recall@5"],
)

Record = Callable[..., Grid]


def recorder(folder: Path) -> Record:
    """Records the recipe in `folder`, on a scripted target and a store in `folder` unless named."""

    def go(
        out: str = "grid", *, sets: tuple[str, ...] = (), target: ScriptedTarget | None = None, **more: Any
    ) -> Grid:
        targets: Mapping[str, Any] = {"main": target or ScriptedTarget(needs_demos)}
        store = more.pop("store", None) or CallStore(folder / "store")
        resolved = recipes.load(folder / "recipe.toml", sets)
        return record.record(resolved, folder / out, store=store, targets=targets, **more)

    return go
