"""Compiling the recipe of `colours` on a scripted target."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ragc import recipe as recipes
from ragc.optimizers import compile as compiling
from ragc.store import CallStore
from ragc.testing import ScriptedTarget
from tests.optimizers.colours import RECIPE, Run, needs_demos, write_data


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_data(tmp_path)
    (tmp_path / "recipe.toml").write_text(RECIPE, "utf-8")
    return tmp_path


@pytest.fixture
def run(folder: Path) -> Run:
    def go(
        out: str = "out", *, sets: tuple[str, ...] = (), target: ScriptedTarget | None = None, **more: Any
    ) -> Any:
        store = more.pop("store", None) or CallStore(folder / "store")
        made = target or ScriptedTarget(needs_demos)
        found = recipes.load(folder / "recipe.toml", sets)
        return compiling.compile(found, folder / out, store=store, targets={"main": made}, **more)

    return go
