"""Data sets on disk, and what runs a table on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.optimizers.grids.tables.common import Run, runner, write_data


@pytest.fixture
def run(tmp_path: Path) -> Run:
    write_data(tmp_path / "data")
    return runner(tmp_path)
