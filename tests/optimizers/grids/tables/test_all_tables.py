"""Every table on a scripted model and the data beside the repository: none fails, equal rows are named."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ragc.errors import UsageError
from ragc.optimizers.grids.tables.data_files import entries
from ragc.optimizers.grids.tables.run import estimate, reproduce
from ragc.optimizers.grids.tables.table import load, tables
from ragc.store.calls import CallStore
from ragc.testing import ScriptedTarget
from tests.examples import thorough
from tests.optimizers.grids.tables.common import answer
from tests.paths import SHARED_DATA

DATA = Path(os.environ.get("RAGC_TABLE_DATA") or SHARED_DATA)

LIMIT = 3

TABLES = [table.id for table in tables()][:: 1 if "RAGC_TABLE_DATA" in os.environ else 3]
"""All tables take minutes: without a folder of data that is named, every third is run."""


@thorough
@pytest.mark.timeout(300)
@pytest.mark.parametrize("table", TABLES)
def test_a_table_runs_or_says_first_what_is_missing(table: str, tmp_path: Path) -> None:
    if all(entries()[use.id].locate(DATA) is None for use in load(table).data):
        pytest.skip(f"no data set of {table} is in {DATA}")
    target = ScriptedTarget(answer)
    how: dict[str, Any] = {"data": DATA, "limit": LIMIT, "out": tmp_path}
    try:
        planned = estimate(table, targets={"main": target}, **how)
    except UsageError:  # nothing of it can run here
        with pytest.raises(UsageError, match="needs"):
            reproduce(table, targets={"main": target}, **how)
        assert target.requests == []
        return
    result = reproduce(table, store=CallStore(None), targets={"main": target}, **how)
    ran = {(cell.data, cell.row) for cell in result.cells}
    assert ran == {(cell["data"], cell["row"]) for cell in planned["cells"]}
    assert list(result.left_out) == planned["left_out"]
    assert all(cell.n == LIMIT for cell in result.cells)
    for use in load(table).data:
        for row in load(table).rows:
            absent = any(text.startswith(f"the data set {use.id} ") for text in result.left_out)
            named = any(text.startswith(f"{row.id} on {use.id}: ") for text in result.left_out)
            assert ((use.id, row.id) in ran) != (absent or named)
