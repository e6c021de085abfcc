"""Compiling the recipe of `colours` on a scripted target."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.optimizers.colours import Run, begun, written


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return written(tmp_path)


@pytest.fixture
def run(folder: Path) -> Run:
    return begun(folder)
