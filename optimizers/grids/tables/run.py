"""Runs a table of a paper, or a part of it, on the user's models.

    rows x data sets ──► cells that this machine can run, in groups of equal data and sources
    each group ──► one Task ──► each cell: its program answers the sample, a row a question ──► means

A cell that cannot run is left out with its reason; if the user named its row, the reason is an error. Earlier
answers are read from the rows, and earlier requests are replayed from the store.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ragc.core.files import check_writable, resolve_out
from ragc.core.progress import SILENT, Progress
from ragc.errors import UnknownName, UsageError
from ragc.optimizers.grids.record import locked
from ragc.optimizers.grids.tables.plan import Planned, TablePlan
from ragc.optimizers.grids.tables.result import Reproduction
from ragc.optimizers.grids.tables.runner import RESULT, TableRun
from ragc.optimizers.grids.tables.table import Table, load
from ragc.store.calls import CallStore
from ragc.targets.base import Target


def reproduce(
    table: str | Table,
    *,
    rows: Sequence[str] = (),
    data_sets: Sequence[str] = (),
    data: str | Path = "data",
    sets: Sequence[str] = (),
    limit: int | None = None,
    beside: str = "",
    out: str | Path | None = None,
    progress: Progress = SILENT,
    store: CallStore | None = None,
    targets: Mapping[str, Target] | None = None,
) -> Reproduction:
    """Runs the `rows` of `table` on its `data_sets` (by default all) with at most `limit` questions of each.

    `data` holds one folder a data set. `beside` names the paper's model to compare with, by default the
    table's. Rows and result go to the folder `out`, by default `reproduced/` and the table's id.
    `targets` replace those of the recipes, by role. Raises UnknownName, UsageError and its subclasses before
    anything is sent, DataError where the data is absent, BudgetExhausted, and TargetError.
    """
    chosen, model = _with_model(table, beside)
    folder, plan, cells = _planned(chosen, rows, data_sets, data, sets, limit, out, targets is not None)
    with locked(folder):
        run = TableRun(chosen, folder, limit, progress, plan, targets)
        return run.run(cells, model, store)


def estimate(
    table: str | Table,
    *,
    rows: Sequence[str] = (),
    data_sets: Sequence[str] = (),
    data: str | Path = "data",
    sets: Sequence[str] = (),
    limit: int | None = None,
    beside: str = "",
    out: str | Path | None = None,
    progress: Progress = SILENT,
    targets: Mapping[str, Target] | None = None,
) -> dict[str, Any]:
    """Returns estimates of the LM calls of `reproduce` with these arguments, as a JSON object.

    Sends nothing. `lm_calls_about` is None if the judge's calls depend on the answer. Existing rows do not
    count. `unmeasured` says why metrics cannot be computed here. Raises what `reproduce` raises before
    it sends anything.
    """
    chosen, _ = _with_model(table, beside)
    folder, plan, planned = _planned(chosen, rows, data_sets, data, sets, limit, out, targets is not None)
    run = TableRun(chosen, folder, limit, progress, plan, targets)
    cells = run.estimate(planned)
    totals = {
        name: None if any(cell[name] is None for cell in cells) else sum(cell[name] for cell in cells)
        for name in ("questions", "answered", "lm_calls_about")
    }
    left_out = list(dict.fromkeys(plan.left_out))
    return {
        "table": chosen.id,
        **totals,
        "cells": cells,
        "left_out": left_out,
        "unmeasured": dict(plan.unmeasured),
        "path": str(folder),
    }


def _planned(
    table: Table,
    rows: Sequence[str],
    data_sets: Sequence[str],
    data: str | Path,
    sets: Sequence[str],
    limit: int | None,
    out: str | Path | None,
    own_targets: bool,
) -> tuple[Path, TablePlan, list[Planned]]:
    """Returns the folder of the results, and the cells that can run. Raises what `reproduce` raises first."""
    named_rows = [table.row(id) for id in dict.fromkeys(rows)]
    named_uses = [table.use(id) for id in dict.fromkeys(data_sets)]
    if limit is not None and limit < 1:
        raise UsageError(f"--limit is a number of questions from 1, found {limit}.")
    folder = resolve_out(out if out is not None else Path("reproduced") / table.id)
    _check_folder(folder, table)
    plan = TablePlan(table, Path(data), tuple(sets), bool(named_rows), own_targets=own_targets)
    return folder, plan, plan.cells(named_rows or list(table.rows), named_uses or list(table.data))


def _with_model(table: str | Table, beside: str) -> tuple[Table, str]:
    """Returns the table with the knobs of the paper's model `beside`, by default its own, and that model."""
    chosen = load(table) if isinstance(table, str) else table
    if beside and beside not in chosen.models:
        raise UnknownName(f"model of {chosen.id}", beside, chosen.models)
    model = beside or chosen.model
    return chosen.with_model(model), model


def _check_folder(folder: Path, table: Table) -> None:
    """Raises UsageError unless `folder` may hold the results of `table`."""
    check_writable(folder)
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is not a folder; choose another --out.")
    result = folder / RESULT
    if result.exists():
        try:
            other = json.loads(result.read_bytes())["table"]
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            other = None
        if other != table.id:
            what = f"the result of {other}" if isinstance(other, str) else "something that ragc did not write"
            raise UsageError(f"{result} is {what}; choose another --out or move it away.")
