"""Runs the cells of a table, group after group: those of equal data and sources share a task.

Earlier answers are read from the rows, and earlier requests are replayed from the store.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from ragc.core import event_loop
from ragc.core.digest import digest, pretty
from ragc.core.display import quantity
from ragc.core.files import put_file
from ragc.core.progress import Progress
from ragc.corpora.files.splits import draw
from ragc.errors import (
    BudgetExhausted,
    CapabilityMissing,
    RagcError,
    StoreError,
    TargetError,
    UsageError,
)
from ragc.optimizers.grids.tables import demonstrations, differences, recipes
from ragc.optimizers.grids.tables.cell_rows import CellRows
from ragc.optimizers.grids.tables.plan import Planned, TablePlan
from ragc.optimizers.grids.tables.result import Cell, Reproduction
from ragc.optimizers.grids.tables.table import DataUse, Table, TableRow
from ragc.optimizers.plan.average import judge_calls
from ragc.programs.base import RagProgram
from ragc.recipe import Recipe
from ragc.records import Question
from ragc.store.calls import CallStore, open_store
from ragc.targets import build as build_target
from ragc.targets.base import Target
from ragc.targets.options import TargetSpec
from ragc.task import base as tasks
from ragc.task.base import Task
from ragc.task.budget import BudgetFile
from ragc.task.rehearsal import calls_about, fit_calls_about
from ragc.task.run import MeasuredRun, measure

TRAIN = 200
"""Train questions of a row that learns from them, where the table names no number."""
RESULT = "result.json"
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class CellWork:
    """A cell with its own task: knobs, the questions of the sample, and the existing rows."""

    task: Task
    knobs: Mapping[str, Any]
    questions: tuple[Question, ...]
    rows: CellRows

    @property
    def open(self) -> list[Question]:
        """The questions without a row."""
        return [question for question in self.questions if question.id not in self.rows.rows]


class TableRun:
    """Runs planned cells, group after group."""

    def __init__(
        self,
        table: Table,
        folder: Path,
        limit: int | None,
        progress: Progress,
        plan: TablePlan,
        targets: Mapping[str, Target] | None,
    ) -> None:
        self.table, self.folder, self.limit, self.progress, self.plan = table, folder, limit, progress, plan
        self._targets_by_role = targets
        self._built: dict[str, Target] = {}
        self._backends: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._first: RagcError | None = None

    def run(self, planned: Sequence[Planned], beside: str, store: CallStore | None) -> Reproduction:
        """Runs `planned` and writes the result. Raises as `reproduce`."""
        calls = store or open_store()
        budget = BudgetFile(None, planned[0].recipe.budget)
        for text in self.plan.warnings:
            self.progress.note(text)
        try:
            with measure() as measured:
                cells = self._each(planned, calls, budget, self._answer_cell)
        finally:
            event_loop.run(self._close())
            budget.close()
            if store is None:
                calls.close()
        self.progress.close()
        order = {(row.id, use.id): n for n, (row, use) in enumerate(self._product())}
        cells.sort(key=lambda cell: order[cell.row, cell.data])
        result = Reproduction(
            self.table,
            beside,
            tuple(cells),
            tuple(dict.fromkeys(self.plan.left_out)),
            differences.sentences(
                self.table,
                beside,
                cells,
                self._names,
                self._backends,
                self.plan.unmeasured,
                self.plan.sets,
            ),
            measured.to_json(),
            self.folder,
            targets=self._names,
        )
        self._write(result)
        return result

    def _product(self) -> list[tuple[TableRow, DataUse]]:
        """Returns the cells of the table as they are printed: by data set, then by row."""
        return [(row, use) for use in self.table.data for row in self.table.rows]

    def estimate(self, planned: Sequence[Planned]) -> list[dict[str, Any]]:
        """Returns about what `planned` would send, a JSON object a cell. Sends nothing."""
        budget = BudgetFile(None, planned[0].recipe.budget)
        try:
            return self._each(planned, CallStore(None), budget, self._estimate_cell)
        finally:
            event_loop.run(self._close())
            budget.close()
            self.progress.close()

    def _each(
        self,
        planned: Sequence[Planned],
        calls: CallStore,
        budget: BudgetFile,
        work: Callable[[Planned, Task], Result],
    ) -> list[Result]:
        """Runs `work` for each cell, on the task of its group; results are in the order of the groups."""
        groups: dict[str, list[Planned]] = {}
        for one in planned:
            groups.setdefault(one.group, []).append(one)
        results = [
            result for group in groups.values() for result in self._run_group(group, calls, budget, work)
        ]
        if not results and self._first is not None:
            raise self._first
        return results

    def _run_group(
        self,
        group: Sequence[Planned],
        calls: CallStore,
        budget: BudgetFile,
        work: Callable[[Planned, Task], Result],
    ) -> Iterator[Result]:
        """Runs `work` for each cell of a group; cells that fail are left out with their reason."""
        recipe = group[0].recipe
        try:
            task = tasks.prepare(
                recipe, store=calls, budget=budget, targets=self._targets(recipe), progress=self.progress
            )
        except RagcError as error:
            self._leave_out(group, error)
            return
        try:
            for planned in group:
                try:
                    yield work(planned, task)
                except RagcError as error:
                    self._leave_out([planned], error)
        finally:
            event_loop.run(task.runtime.close_sources())

    def _answer_cell(self, planned: Planned, task: Task) -> Cell:
        return event_loop.run(self._cell(planned, task))

    def _estimate_cell(self, planned: Planned, task: Task) -> dict[str, Any]:
        """Returns the unanswered questions of a cell, and about how many LM calls they take."""
        work = self._cell_work(planned, task)
        rehearsed = work.task.method, work.task.runtime, work.knobs
        learning = len(work.task.train) * fit_calls_about(*rehearsed) if work.open else 0
        about = len(work.open) * calls_about(*rehearsed) + learning + judge_calls(work.task, work.open)
        return {
            "row": planned.row.id,
            "data": planned.use.id,
            "questions": len(work.questions),
            "answered": len(work.questions) - len(work.open),
            "lm_calls_about": int(about) if math.isfinite(about) else None,
        }

    def _cell_work(self, planned: Planned, task: Task) -> CellWork:
        """Returns the task of a cell, its knobs, and the existing rows."""
        questions, train = self._sample(planned, task)
        row, recipe = planned.row, planned.recipe
        task = replace(task, recipe=recipe, splits={"dev": questions, "train": train})
        knobs = task.method.knobs.of(recipe.fixed(task.method)).to_json()
        path = self.folder / f"{row.id}.{planned.use.id}.jsonl"
        rows = CellRows(path, _mark(task, knobs, planned))
        return CellWork(task, knobs, questions, rows)

    def _leave_out(self, cells: Sequence[Planned], error: RagcError) -> None:
        """Notes why `cells` have no figures; raises `error` if the user named their rows."""
        if self.plan.named or _is_fatal(error):
            raise error
        self._first = self._first or error
        self.plan.left_out += [f"{one.row.id} on {one.use.id}: {error}" for one in cells]

    def _targets(self, recipe: Recipe) -> Mapping[str, Target]:
        """Returns the targets of `recipe` by role; equal specifications are one target, in all cells."""
        if self._targets_by_role is not None:
            main = self._targets_by_role["main"]
            chosen = {role: self._targets_by_role.get(role, main) for role in recipe.targets}
        else:
            chosen = {role: self._build(spec) for role, spec in recipe.target_specs().items()}
        self._names |= {role: target.name for role, target in chosen.items()}
        return chosen

    def _build(self, spec: TargetSpec) -> Target:
        key = digest([str(spec.base), spec.kind, spec.model, spec.base_url, dict(spec.options)])
        if key not in self._built:
            self._built[key] = build_target(spec)
        return self._built[key]

    async def _close(self) -> None:
        for target in self._built.values():
            await target.aclose()

    async def _cell(self, planned: Planned, task: Task) -> Cell:
        """Runs one cell on the task of its group."""
        row, use = planned.row, planned.use
        there = len(task.dev)
        work = self._cell_work(planned, task)
        questions, rows, open_questions = work.questions, work.rows, work.open
        task, run = work.task, MeasuredRun(work.task, self.progress)
        self.progress.phase(f"{row.id} on {use.id}", len(questions))
        self.progress.step(len(questions) - len(open_questions))
        try:
            if open_questions:
                await run.open(shown=False)
                program = await self._program(task, planned, work.knobs)
                await self._answer(run, program, open_questions, rows)
        finally:
            rows.close()
        rows.put_in_order([question.id for question in questions])
        answered = [rows.rows[question.id] for question in questions]
        for one in answered:
            for name, backend in one.get("backends", {}).items():
                self._backends.setdefault(name, backend)
        means = task.summarize([one["scores"] for one in answered])
        names = {*task.method.sources, *task.method.optional_sources}
        searched = {name: source for name, source in task.runtime.sources.items() if name in names}
        return Cell(
            row.id,
            use.id,
            {name: value for name, value in means.items() if name in use.metrics},
            len(questions),
            sum(bool(one.get("failure")) for one in answered),
            there,
            max((_passages(source) for source in searched.values()), default=0),
            {name: source.kind for name, source in searched.items()},
            planned.located.questions.name,
            rows.path,
            train=len(task.train),
            demos=len(planned.demos),
            held_out="train" not in planned.located.paths,
        )

    def _sample(self, planned: Planned, task: Task) -> tuple[tuple[Question, ...], tuple[Question, ...]]:
        """Returns the questions of a cell and its train questions; a smaller limit gives the first of them.

        Train questions are those of the train file of the data set, else up to half of its questions, which
        are not answered then. Raises UsageError if a row that learns would have none.
        """
        pool = [replace(question, split="") for question in task.dev]
        wanted, held_out = self._train_wanted(planned.row), 0
        train: tuple[Question, ...] = ()
        if wanted and task.train:
            held = [replace(question, split="") for question in task.train]
            train = draw(held, {"train": min(wanted, len(held))}, task.seed)[0]["train"]
        elif wanted:
            held_out = min(wanted, len(pool) // 2)
        most = self.limit or planned.use.sample or len(pool)
        drawn, _ = draw(pool, {"dev": min(most, len(pool) - held_out), "train": held_out}, task.seed)
        train = train or drawn["train"]
        if wanted and not train:
            raise UsageError(
                f"Row {planned.row.id} of {self.table.id} learns from {quantity(wanted, 'train question')}, "
                f"and {planned.use.id} has none beside the one that is answered; add a train file to "
                f"{planned.located.questions.parent}."
            )
        return drawn["dev"], train

    def _train_wanted(self, row: TableRow) -> int:
        """Returns the number of train questions that `row` learns from; 0 if it does not learn."""
        return (row.train or self.table.train or TRAIN) if recipes.takes_train(self.table, row) else 0

    @staticmethod
    async def _program(task: Task, planned: Planned, knobs: Mapping[str, Any]) -> RagProgram:
        """Returns the program of a cell, with its demonstrations and what it learns from train questions."""
        program = task.method.build(task.runtime, knobs)
        if planned.demos:
            demonstrations.show(program, planned.demos)
        await task.fit(program)
        return program

    @staticmethod
    async def _answer(
        run: MeasuredRun, program: RagProgram, questions: Sequence[Question], rows: CellRows
    ) -> None:
        """Answers `questions`; each row is written as soon as it is complete."""
        await run.answer(program, questions, keep=lambda row: rows.append(row.to_json()))

    def _write(self, result: Reproduction) -> None:
        """Writes the result."""
        content = pretty(result.to_json()).encode("utf-8", "backslashreplace")
        put_file(self.folder / RESULT, content)


def _is_fatal(error: RagcError) -> bool:
    """Returns whether `error` would fail every other cell too, so that the run ends."""
    if isinstance(error, CapabilityMissing):
        return False
    return isinstance(error, BudgetExhausted | StoreError | TargetError)


def _passages(source: object) -> int:
    """Returns the number of whole passages that `source` searches; 0 if it has none of its own."""
    for name in ("inner", "source"):  # of sources that reorder what another finds
        source = getattr(source, name, source)
    corpus = getattr(source, "corpus", None)
    return len(getattr(corpus, "passages", ()))


def _mark(task: Task, knobs: Mapping[str, Any], planned: Planned) -> str:
    """Returns the digest of everything that affects the rows of a cell."""
    facts, shown = task.facts, [demo.to_json() for demo in planned.demos]
    return digest(
        [
            facts["versions"]["ragc"],
            [facts["sources"], facts["targets"], facts["data"]["dev"]],
            [task.method.id, dict(knobs), shown, [question.id for question in task.train]],
            [dict(task.recipe.metrics), list(task.recipe.metrics.report)],
            planned.use.id,
        ]
    )[:16]
