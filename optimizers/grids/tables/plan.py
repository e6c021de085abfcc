"""Which cells of a table this machine can run, and why it cannot run the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ragc.core.digest import digest
from ragc.errors import UsageError
from ragc.optimizers.grids.tables import demonstrations, recipes
from ragc.optimizers.grids.tables.data_files import Located, absent_error, entries
from ragc.optimizers.grids.tables.demonstrations import TableDemonstration
from ragc.optimizers.grids.tables.table import DataUse, Table, TableRow
from ragc.recipe import Recipe
from ragc.recipe.models import plain
from ragc.task.requirements import lacking, require


@dataclass(frozen=True, slots=True)
class Planned:
    """A cell to be run."""

    row: TableRow
    use: DataUse
    located: Located
    recipe: Recipe

    @property
    def demos(self) -> tuple[TableDemonstration, ...]:
        """The demonstrations of the answering call."""
        return demonstrations.load(self.use.demos)[: self.row.demos] if self.row.demos else ()

    @property
    def group(self) -> str:
        """Equal for cells that may share a task: the same data, sources and metrics."""
        recipe = self.recipe
        named = [
            plain(recipe.data),
            [plain(recipe.sources[name]) for name in sorted(recipe.sources)],
        ]
        return digest([self.use.id, sorted(recipe.sources), named, recipe.metrics.report])


class TablePlan:
    """Which cells run, and why the others do not. With `named`, a row that cannot run is an error."""

    def __init__(
        self, table: Table, data: Path, sets: tuple[str, ...], named: bool, *, own_targets: bool
    ) -> None:
        self.table, self.data, self.sets, self.named = table, data, sets, named
        self._own_targets = own_targets
        self.left_out: list[str] = []
        self.unmeasured: dict[str, str] = {}

    @property
    def warnings(self) -> list[str]:
        """Returns what will be missing from the result, as far as it is known before anything is sent."""
        left_out = [f"Left out: {text}" for text in dict.fromkeys(self.left_out)]
        return [
            *left_out,
            *(f"Not measured: {name}, because {why}." for name, why in self.unmeasured.items()),
        ]

    def cells(self, rows: Sequence[TableRow], uses: Sequence[DataUse]) -> list[Planned]:
        """Returns the cells of `rows` on `uses` that this machine can run, in the order of the table.

        Raises DataError if no data set exists, RecipeError for overrides that no recipe takes, and the reason
        of the first cell if none can run.
        """
        recipes.check_sets(rows, self.sets)
        places = {use.id: entries()[use.id].locate(self.data) for use in uses}
        missing = [entries()[name].absent(self.data) for name, located in places.items() if located is None]
        if len(missing) == len(places):
            raise absent_error(self.table.id, missing)
        self.left_out += [f"{text}." for text in missing]
        planned: list[Planned] = []
        first: UsageError | None = None
        for row in rows:
            for use in uses:
                if (located := places[use.id]) is None:
                    continue
                try:
                    planned.append(self._cell(row, use, located))
                except UsageError as error:
                    first = first or error
                    self.left_out.append(f"{row.id} on {use.id}: {error}")
        if first is not None and (self.named or not planned):
            raise first
        return planned

    def _cell(self, row: TableRow, use: DataUse, located: Located) -> Planned:
        recipe = recipes.row_recipe(self.table, row, use, located, self.sets)
        for name in row.needs:
            if name == "train" and "train" not in located.paths:
                raise UsageError(
                    f"Row {row.id} of {self.table.id} learns from train questions, and {use.id} has none in "
                    f"{located.questions.parent}; add its train file."
                )
            if name != "train" and name not in recipe.sources:
                what = self.table.setting.get(name, "a source of yours")
                raise UsageError(
                    f"Row {row.id} of {self.table.id} needs the source {name} ({what}); configure it, such "
                    f"as --set sources.{name}.kind=api with sources.{name}.options.base_url."
                )
        if problems := lacking(recipe, targets=False, metrics=False, study=False):
            raise UsageError(f"Row {row.id} of {self.table.id} cannot run here: {'; '.join(problems)}.")
        if not self._own_targets:
            require(recipe, metrics=False, study=False)
        self.unmeasured |= recipes.unmeasured(recipe, use.metrics)
        return Planned(row, use, located, recipe)
