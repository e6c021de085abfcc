"""Records a grid: every setting of a recipe answers the same questions, through the store and the budget.

A setting is written as one file when it is done. A repeated recording skips settings that were written, and
replays the requests of a setting that was cut off.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ragc.compiled import contamination
from ragc.core import event_loop
from ragc.core.digest import digest
from ragc.core.display import decimals
from ragc.core.progress import SILENT, Progress
from ragc.errors import BudgetExhausted, UsageError
from ragc.optimizers.candidates.builder import ProgramBuilder
from ragc.optimizers.candidates.space import Candidate, describe_candidate
from ragc.optimizers.grids import provenance
from ragc.optimizers.grids.files import (
    GridFiles,
    GridRow,
    check_out,
    is_grid,
    mark,
    read_files,
    too_large,
)
from ragc.optimizers.grids.grid import Grid, grid_of
from ragc.optimizers.grids.settings import build_programs, columns_of, settings_of
from ragc.optimizers.search.storage import InMemoryAttributes
from ragc.recipe import Recipe
from ragc.recipe.values import BALANCED, LABELLED
from ragc.store.calls import CallStore
from ragc.targets.base import Target
from ragc.task.answering import Row
from ragc.task.base import Task
from ragc.task.budget import BudgetFile
from ragc.task.prompts import small_model_note
from ragc.task.run import MeasuredRun, lock_state, measure, open_run, open_state, state_folder

_KIND, _WORK = "grids", "recording to"
"""The kind of the state of a grid on this machine, and what the process does that holds its lock."""

_DRAWN_FROM = {LABELLED: ("labelled_demos",), BALANCED: ("filled", "by_label")}
"""The parts of a stored pool that demonstrations of a kind are drawn from, where it is not `filled`.

Labelled ones do not depend on what the model answered, so every machine has the same.
"""


def record(
    recipe: Recipe,
    out: str | Path,
    *,
    store: CallStore | None = None,
    targets: Mapping[str, Target] | None = None,
    progress: Progress = SILENT,
) -> Grid:
    """Evaluates the settings of `recipe.grid` on its dev questions and writes the grid to the folder `out`.

    An existing grid is completed, and extended by the settings that it lacks. `targets` replace those of the
    recipe. Raises UsageError and its subclasses before anything is sent: for an `out` with something else, or
    with a grid of other questions, data, models or metrics, and for prompts of the recipe that do not fit a
    setting or would lose texts. Raises BudgetExhausted when a limit of `[budget]` is reached; settings that
    are done stay.
    """
    where = check_out(out)
    with (
        _open_budget(where, recipe) as budget,
        open_run(recipe, budget, store=store, targets=targets, progress=progress) as run,
    ):
        recording = _Recording(run, where)
        recording.check()
        if problem := contamination.record(run.task, "grid"):
            progress.note(problem)
        return event_loop.run(recording.run())


def plan_settings(task: Task, out: Path) -> tuple[GridFiles, list[int]]:
    """Returns the grid of `task` as it is in `out`, extended by missing settings, and their numbers.

    Raises UsageError for a grid of something else.
    """
    candidates: list[Mapping[str, Any]] = [one.to_json() for one in settings_of(task)]
    if reason := too_large(len(candidates), len(task.dev)):
        raise UsageError(f"The grid would have {reason}; lower the number of settings, or data.dev.")
    facts, columns = provenance.facts(task, candidates[0]), columns_of(task)
    if not is_grid(out):
        files = GridFiles(columns, candidates, tuple(question.id for question in task.dev), facts)
        return files, files.missing
    files = read_files(out)
    for number, rows in [*files.rows.items()]:
        if any(row.counters.get("failed") for row in rows):  # whose requests are sent again
            del files.rows[number]
    advice = "choose another --out, or move it away."
    provenance.check_same(files.provenance, facts, f"{out} holds a grid with", advice)
    marks = {mark(one) for one in files.candidates}
    files.candidates += [one for one in candidates if mark(one) not in marks]
    files.columns = _union(task, files.columns, columns)
    of_recipe = {mark(one) for one in candidates}
    return files, [number for number in files.missing if mark(files.candidates[number]) in of_recipe]


def _union(task: Task, *columns: Sequence[str]) -> tuple[str, ...]:
    """Returns all `columns`, in the order of `columns_of`."""
    order = [knob.name for knob in task.method.knobs.list_knobs()]
    every = dict.fromkeys(name for part in columns for name in part)
    return tuple(sorted(every, key=lambda name: order.index(name) if name in order else len(order)))


@contextmanager
def _open_budget(out: Path, recipe: Recipe) -> Iterator[BudgetFile]:
    """Locks the recording of `out` and opens its budget.

    What an earlier grid of that name spent does not count where that is gone.
    """
    with open_state(_KIND, out, _WORK) as folder:
        charges = folder / "charges.sqlite3"
        if not is_grid(out):
            for path in folder.glob(f"{charges.name}*"):
                path.unlink()
        yield BudgetFile(charges, recipe.budget)


def locked(out: Path) -> AbstractContextManager[None]:
    """Keeps other processes of this machine from writing the grid in `out`. Raises UsageError."""
    return lock_state(out, state_folder(_KIND, out), _WORK)


class _Recording:
    """Records the missing settings of a task one after the other, with questions in flight at once."""

    def __init__(self, run: MeasuredRun, out: Path) -> None:
        self.task, self.out, self.progress = run.task, out, run.progress
        self._run = run
        self._attributes = InMemoryAttributes()
        self._builder = ProgramBuilder(run.task, self._attributes, run.limit, run.progress)
        self._files, self._numbers = plan_settings(run.task, out)
        self._facts = provenance.run_facts(run.task)

    def check(self) -> None:
        """Builds the program of every missing setting once; raises UsageError."""
        for _ in build_programs(self.task, self._files.candidates, self._numbers):
            pass

    async def run(self) -> Grid:
        """Records every missing setting. Raises BudgetExhausted, TargetError and UsageError."""
        total = len(self._files.candidates)
        if self._numbers:
            await self._run.open()
            if hint := small_model_note(self.task):
                self.progress.note(hint)
        with measure() as measured:
            for number in self._numbers:
                candidate = Candidate.of(self._files.candidates[number])
                self.progress.phase(f"setting {number + 1} of {total}", len(self.task.dev))
                try:
                    rows = await self._answer(candidate)
                except BudgetExhausted as error:
                    raise self._cut_off(error) from None
                self._add(number, rows)
                self.progress.note(self._line(number, candidate))
        self.progress.close()
        return grid_of(self._files, self.out, measured.brief())

    async def _answer(self, candidate: Candidate) -> Sequence[Row]:
        """Answers all questions with the program of `candidate`."""
        program = await self._builder.program(candidate)
        if candidate.demos:
            self._check_demonstrations(candidate.demo_kind)
        return await self._run.answer(program, self.task.dev)

    def _check_demonstrations(self, kind: str) -> None:
        """Notes digests of the pools of demonstration `kind`. Raises UsageError if the grid has others."""
        parts = _DRAWN_FROM.get(kind, ("filled",))
        pools = {name: self._attributes.get(name) for name in self._attributes.names()}
        drawn = {f"{name} {kind}": digest([pool[part] for part in parts]) for name, pool in pools.items()}
        facts = self._files.provenance
        now = {"identity": facts["identity"], "demonstrations": drawn}
        advice = "its train questions were answered in another way; choose another --out."
        provenance.check_same(facts, now, f"{self.out} holds a grid with", advice)
        facts["demonstrations"] = {**facts["demonstrations"], **drawn}

    def _add(self, number: int, rows: Sequence[Row]) -> None:
        """Adds the rows of setting `number` and writes the grid."""
        files = self._files
        files.add(number, [_grid_row(row, files.metrics) for row in rows])
        if not self._facts["settings"]:
            files.provenance["runs"].append(self._facts)
        self._facts["settings"] += 1
        files.save(self.out)

    def _line(self, number: int, candidate: Candidate) -> str:
        """Returns a line on a setting: its mean of the first metric, the best mean so far, and its values."""
        grid = grid_of(self._files, self.out)
        means, first = grid.means(grid.metrics[0]), self.task.metrics[0]
        known = means[~np.isnan(means)]
        best = (known.max() if first.higher_is_better else known.min()) if len(known) else math.nan
        base = self._files.candidates[0]["knobs"]
        knobs = {name: value for name, value in candidate.knobs.items() if value != base.get(name)}
        what = describe_candidate(candidate, knobs) or "baseline"
        size = f"{number + 1}/{len(self._files.candidates)}"
        return f"setting {size}  {_shown(means[number])}  best {_shown(best)}  {what}"

    def _cut_off(self, error: BudgetExhausted) -> BudgetExhausted:
        """Returns the error of a spent budget, with the number of recorded settings."""
        total = len(self._files.candidates)
        there = total - len(self._files.missing)
        return BudgetExhausted(
            f"{error} {there} of {total} settings are recorded in {self.out}; the same command goes on."
        )


def _shown(mean: float) -> str:
    return "-" if math.isnan(mean) else decimals(mean)


def _grid_row(row: Row, metrics: Sequence[str]) -> GridRow:
    """Returns the numbers of a row, without its texts."""
    counters = {name: amount for name, amount in row.counters.items() if name != "latency"}
    # A question whose reply was unreadable has no sum.
    spent = counters.get("prompt_tokens", 0) + counters.get("completion_tokens", 0)
    counters["tokens"] = counters.get("tokens", spent)
    scores = {metric: row.scores[metric] for metric in metrics}
    return GridRow(id=row.question.id, scores=scores, counters=counters, failure=bool(row.failure))
