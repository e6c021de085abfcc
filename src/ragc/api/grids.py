"""Settings evaluated in full: the grid of a recipe, and the tables of the papers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from ragc.core.progress import SILENT

if TYPE_CHECKING:
    from ragc.core.progress import Progress
    from ragc.optimizers.grids.grid import Grid
    from ragc.optimizers.grids.tables.result import Reproduction


@overload
def grid(
    recipe: str | Path,
    *,
    sets: Sequence[str] = ...,
    out: str | Path | None = ...,
    dry_run: Literal[True],
    progress: Progress | None = ...,
) -> dict[str, Any]: ...
@overload
def grid(
    recipe: str | Path,
    *,
    sets: Sequence[str] = ...,
    out: str | Path | None = ...,
    dry_run: Literal[False] = ...,
    progress: Progress | None = ...,
) -> Grid: ...
def grid(
    recipe: str | Path,
    *,
    sets: Sequence[str] = (),
    out: str | Path | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Grid | dict[str, Any]:
    """Evaluates the settings in the table `[grid]` of a recipe on its dev questions, and writes a grid.

    It is written to the directory `out`, by default `grids/` and the name of the recipe file. A grid that is
    there is completed, also one that was cut off, and gets the settings that it lacks. Returns a Grid, with
    `path` and `counters`. With `dry_run` nothing is sent, and a JSON object is returned: `settings`,
    `recorded`, `questions`, `cells` that are missing in `out`, and the estimates of a dry run of
    `compile`.

        grid = ragc.grid("recipe.toml", out="grids/mine", sets=["grid.sample=8"])
        print(grid.scores("f1").mean(axis=1))

    Raises RecipeError, UsageError for an `out` with a grid of other questions, data, models or metrics,
    ArtefactError for one with something else, BudgetExhausted, and TargetError.
    """
    from ragc import recipe as recipes
    from ragc.optimizers.grids import plan, record

    resolved = recipes.load(recipe, sets)
    folder = Path(out) if out is not None else Path("grids") / Path(recipe).stem
    if dry_run:
        return plan.estimate(resolved, folder)
    return record.record(resolved, folder, progress=progress or SILENT)


def read_grid(*folders: str | Path) -> Grid:
    """Reads the grid in a directory, complete or not; several are read as one, with the settings of all.

        grid = ragc.read_grid("grids/mine", "grids/theirs")
        print(grid.scores("f1").mean(axis=1))

    Raises ArtefactError for a damaged one, and UsageError for grids of other questions, data, models or
    metrics.
    """
    from ragc.optimizers.grids.grid import read

    return read(*folders)


@overload
def reproduce(
    table: str,
    *,
    rows: Sequence[str] = ...,
    data_sets: Sequence[str] = ...,
    data: str | Path = ...,
    sets: Sequence[str] = ...,
    limit: int | None = ...,
    beside: str = ...,
    out: str | Path | None = ...,
    dry_run: Literal[True],
    progress: Progress | None = ...,
) -> dict[str, Any]: ...
@overload
def reproduce(
    table: str,
    *,
    rows: Sequence[str] = ...,
    data_sets: Sequence[str] = ...,
    data: str | Path = ...,
    sets: Sequence[str] = ...,
    limit: int | None = ...,
    beside: str = ...,
    out: str | Path | None = ...,
    dry_run: Literal[False] = ...,
    progress: Progress | None = ...,
) -> Reproduction: ...
def reproduce(
    table: str,
    *,
    rows: Sequence[str] = (),
    data_sets: Sequence[str] = (),
    data: str | Path = "data",
    sets: Sequence[str] = (),
    limit: int | None = None,
    beside: str = "",
    out: str | Path | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Reproduction | dict[str, Any]:
    """Runs a table of a paper, or some `rows` of it on some `data_sets`, with `limit` questions of each.

    `data` is the folder that holds one folder a data set. The model is the embedded one unless `sets` says
    otherwise. `beside` is the paper's model whose figures are compared. Rows and result are written to
    the folder `out`, by default `reproduced/` and the table's id; rows that are there are not asked again.
    Returns a Reproduction with `cells` (an Interval per metric), `differs` (what differs from the paper, in
    sentences), `left_out`, and the paths. With `dry_run` nothing is sent, and bounds of the LM calls are
    returned as a JSON object by cell.

        ragc.reproduce("prefrag-main", rows=["no_retrieval"], limit=50).cells[0].means["f1"]

    Raises UnknownName for a table, row or data set, DataError that says which files are absent, from where
    they come and under which licence, UsageError, BudgetExhausted, and TargetError.
    """
    from ragc.optimizers.grids.tables import run

    part: dict[str, Any] = {
        "rows": rows,
        "data_sets": data_sets,
        "data": data,
        "sets": sets,
        "limit": limit,
        "beside": beside,
        "out": out,
    }
    if dry_run:
        return run.estimate(table, **part)
    return run.reproduce(table, **part, progress=progress or SILENT)


def paper_tables(*, data: str | Path = "data") -> dict[str, Any]:
    """Lists the tables of `reproduce`, as a JSON object, and which of their data the folder `data` holds."""
    from ragc.optimizers.grids.tables.listing import listing

    return listing(data)
