"""A folder with a recipe that has a grid, and what records it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.optimizers.colours import written
from tests.optimizers.grids.common import RECIPE, Record, recorder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return written(tmp_path, RECIPE)


@pytest.fixture
def record(folder: Path) -> Record:
    return recorder(folder)
