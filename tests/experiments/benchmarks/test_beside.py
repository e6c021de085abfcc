"""Two versions side by side: unknown names, and a line of its own process."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.benchmarks.beside import __main__ as beside
from tests.examples import cases
from tests.paths import ROOT


@pytest.mark.parametrize("name", cases(["cached", "question", "programs"], 1))
def test_run_line_measures_the_tree_that_it_is_given(name: str, tmp_path: Path) -> None:
    costs = beside.run_line(name, ROOT, tmp_path / "scratch", tmp_path / "shared")
    assert costs
    assert all(cost > 0 for cost in costs.values())
