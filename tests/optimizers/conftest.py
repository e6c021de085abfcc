"""Compiling the recipe of `colours` on a scripted target."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragc.store.calls import CallStore
from ragc.testing import ScriptedTarget
from tests.optimizers.colours import Run, Unbroken, begun, needs_demos, written


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return written(tmp_path)


@pytest.fixture
def run(folder: Path) -> Run:
    return begun(folder)


@pytest.fixture(scope="session")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Unbroken:
    """What compiles that nothing disturbs lead to, each done once: the same in every folder and store."""
    compiled: dict[tuple[str, ...], tuple[Path, int]] = {}

    def go(*sets: str) -> tuple[Path, int]:
        if sets not in compiled:
            target, folder = ScriptedTarget(needs_demos), written(tmp_path_factory.mktemp("unbroken"))
            result = begun(folder)("whole", sets=sets, target=target, store=CallStore(None))
            compiled[sets] = result.path, len(target.requests)
        return compiled[sets]

    return go
