"""Records a grid: every setting of a recipe answers the same questions, through the store and the budget.

A setting is written as one shard when it is done. What was written is not asked again; a recording that was
killed goes on, and what the cut setting sent is replayed. When all settings are there, the shards become one
file.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from ragc.compiled import contamination
from ragc.core import event_loop, extras
from ragc.core.activity import doing
from ragc.core.counters import Counters, counting
from ragc.core.digest import digest
from ragc.core.display import decimals, describe
from ragc.core.home.private import FILE, make_private, narrow_tree
from ragc.core.paths import cache_home
from ragc.core.progress import Progress, Silent, listening
from ragc.errors import BudgetExhausted, UsageError
from ragc.optimizers.candidates.builder import ProgramBuilder
from ragc.optimizers.candidates.space import Candidate, describe_candidate
from ragc.optimizers.grids import card as cards
from ragc.optimizers.grids.files import Cells, GridFiles, check_out, is_grid, mark, read_files, too_large
from ragc.optimizers.grids.grid import Grid, grid_of
from ragc.optimizers.grids.settings import build_programs, columns_of, settings_of
from ragc.optimizers.grids.timing import TimedLedger, collecting
from ragc.optimizers.search.storage import InMemoryAttributes
from ragc.programs.base import RagProgram
from ragc.recipe import Recipe
from ragc.recipe.values import BALANCED, LABELLED
from ragc.records import Question
from ragc.store.call_store import CallStore, open_store, refuse_shared
from ragc.targets.base import Target
from ragc.task import base as tasks
from ragc.task.answering import Row, evaluate
from ragc.task.base import Task
from ragc.task.prompts import small_model_note
from ragc.task.speed import note_speed

SILENT = Silent()

_DRAWN_FROM = {LABELLED: ("taught",), BALANCED: ("demos", "judged")}
"""The parts of a stored pool that demonstrations of a kind are drawn from, where it is not `demos`.

Labelled ones do not depend on what the model answered, so every machine has the same.
"""


@dataclass(frozen=True, slots=True)
class RecordedGrid:
    """A grid on disk: its folder, its content, and what this recording sent.

    `counters` are requests sent and replayed, tokens, US dollars and seconds.
    """

    path: Path
    grid: Grid
    counters: Mapping[str, float]

    def __repr__(self) -> str:
        return describe("RecordedGrid", repr(str(self.path)), repr(self.grid))

    def to_json(self) -> dict[str, Any]:
        """The output of `ragc grid --json`."""
        grid = self.grid
        return {
            "grid": str(self.path),
            "settings": len(grid.settings),
            "questions": len(grid.questions),
            "complete": grid.complete,
            "remarks": list(grid.remarks),
            "metrics": {name: _spread(grid, name) for name in grid.metrics},
            "counters": dict(self.counters),
        }


def _spread(grid: Grid, metric: str) -> dict[str, Any]:
    """The baseline's mean, and the least, middle and greatest mean of the settings; None for no number."""
    means = grid.means(metric)
    known = means[~np.isnan(means)]
    shown = {"baseline": means[0]}
    shown |= {"least": known.min(), "median": np.median(known), "greatest": known.max()} if len(known) else {}
    return {name: None if math.isnan(value) else round(float(value), 6) for name, value in shown.items()}


def record(
    recipe: Recipe,
    out: str | Path,
    *,
    store: CallStore | None = None,
    targets: Mapping[str, Target] | None = None,
    progress: Progress = SILENT,
) -> RecordedGrid:
    """Evaluates the settings of `recipe.grid` on its dev questions and writes the grid to the folder `out`.

    A grid that is there is completed, and gets the settings that it lacks. `targets` replace those of the
    recipe. Raises UsageError and its subclasses before anything is sent: for an `out` with something else, or
    with a grid of other questions, data, models or metrics, and for prompts of the recipe that do not fit a
    setting or would lose texts. Raises BudgetExhausted when a limit of `[budget]` is reached; settings that
    are done stay.
    """
    extras.require("pyarrow", "A grid")
    where = check_out(out)
    with _opened(where, recipe) as folder:
        ledger = TimedLedger(folder, recipe.budget)
        try:
            task = tasks.prepare(
                recipe,
                ledger=ledger,
                store=store or open_store(recipe.study.store, keep=recipe.study.keep),
                targets=targets,
            )
            recording = _Recording(task, where, ledger, progress)
            recording.check()
            if problem := contamination.record(task, "grid"):
                progress.note(problem)
            with event_loop.frozen_gc():
                return event_loop.run(recording.run())
        finally:
            ledger.close()


def plan_settings(task: Task, out: Path) -> tuple[GridFiles, list[int]]:
    """The grid of `task` as it is in `out`, with the settings that it lacks, and their numbers.

    Raises UsageError for a grid of something else.
    """
    candidates: list[Mapping[str, Any]] = [one.to_json() for one in settings_of(task)]
    if reason := too_large(len(candidates), len(task.dev), len(task.metrics)):
        raise UsageError(f"The grid would have {reason}; lower the number of settings, or data.dev.")
    card, columns = cards.facts(task, candidates[0]), columns_of(task)
    if not is_grid(out):
        questions = tuple(question.id for question in task.dev)
        metrics = tuple(metric.id for metric in task.metrics)
        files = GridFiles(columns, candidates, questions, metrics, card)
        return files, files.missing
    files = read_files(out)
    advice = "choose another --out, or move it away."
    cards.check_same(files.card, card, f"{out} holds a grid with", advice)
    marks = {mark(one) for one in files.candidates}
    files.candidates += [one for one in candidates if mark(one) not in marks]
    files.columns = _union(task, files.columns, columns)
    of_recipe = {mark(one) for one in candidates}
    return files, [number for number in files.missing if mark(files.candidates[number]) in of_recipe]


def _union(task: Task, *columns: Sequence[str]) -> tuple[str, ...]:
    """All `columns`, in the order that `columns_of` gives them."""
    order = [knob.name for knob in task.method.knobs.list_knobs()]
    every = dict.fromkeys(name for part in columns for name in part)
    return tuple(sorted(every, key=lambda name: order.index(name) if name in order else len(order)))


@contextmanager
def _opened(out: Path, recipe: Recipe) -> Iterator[Path | None]:
    """Locks the recording of `out`; the folder on this machine for what it spent. None with `keep = false`.

    What an earlier grid of that name spent does not count where that is gone.
    """
    if not recipe.study.keep:
        refuse_shared()
    with locked(out) as folder:
        if not recipe.study.keep:
            yield None
            return
        with _keeping(out, folder):
            make_private(folder)
            narrow_tree(folder)
            if not is_grid(out):
                (folder / "charges.jsonl").unlink(missing_ok=True)
        yield folder


@contextmanager
def locked(out: Path) -> Iterator[Path]:
    """Keeps other processes of this machine from writing the grid in `out`; the path of the folder for its
    state. Raises UsageError if one is writing it.
    """
    name = out.name.encode()[:60].decode(errors="ignore")
    folder = cache_home() / "grids" / f"{name}-{digest(str(out))[:12]}"
    lock = FileLock(f"{folder}.lock", mode=FILE)
    with _keeping(out, folder):
        make_private(folder.parent)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise UsageError(
                f"Another process is recording to {out}; wait for it or choose another --out."
            ) from None
    try:
        yield folder
    finally:
        lock.release()


def _keeping(out: Path, folder: Path) -> AbstractContextManager[None]:
    return doing(f"Keeping the state of {out} in {folder}", "check RAGC_HOME, or set it to another folder")


class _Recording:
    """Records the missing settings of a task one after the other, with questions in flight at once."""

    def __init__(self, task: Task, out: Path, ledger: TimedLedger, progress: Progress) -> None:
        self.task, self.out, self.progress = task, out, progress
        self._ledger = ledger
        self._limit = asyncio.Semaphore(task.in_flight)
        self._attributes = InMemoryAttributes()
        self._builder = ProgramBuilder(task, self._attributes, self._limit, progress)
        self._files, self._numbers = plan_settings(task, out)
        self._run = cards.run_facts(task)

    def check(self) -> None:
        """Builds the program of every setting that is missing, once; raises UsageError."""
        for _ in build_programs(self.task, self._files.candidates, self._numbers):
            pass

    async def run(self) -> RecordedGrid:
        """Records every setting that is missing. Raises BudgetExhausted, TargetError and UsageError."""
        started, total = time.monotonic(), len(self._files.candidates)
        with counting(Counters()) as spent:
            if self._numbers:
                await self._open()
            for number in self._numbers:
                candidate = Candidate.of(self._files.candidates[number])
                self.progress.phase(f"setting {number + 1} of {total}", len(self.task.dev))
                try:
                    rows = await self._answer(candidate)
                except BudgetExhausted as error:
                    raise self._cut_off(error) from None
                self._add(number, rows)
                self.progress.note(self._line(number, candidate))
        if not self._files.missing:
            self._files.merge()
        grid = self._save()
        self.progress.close()
        seconds = time.monotonic() - started
        note_speed(self.task, sent=spent.sent, replayed=spent.replayed, seconds=seconds)
        cost = {"sent": spent.sent, "replayed": spent.replayed, "tokens": spent.tokens, "usd": spent.usd}
        return RecordedGrid(self.out, grid, {**cost, "seconds": seconds})

    async def _open(self) -> None:
        task = self.task
        self.progress.phase("opening the model", None)
        with listening(self.progress.note):
            await task.runtime.open(self.progress.download)
        if hint := small_model_note(task):
            self.progress.note(hint)

    async def _answer(self, candidate: Candidate) -> list[tuple[Row, float]]:
        """The rows of all questions, with the seconds of their requests."""
        program = await self._builder.program(candidate)
        if candidate.demos:
            self._check_demonstrations(candidate.demo_kind)
        work = [asyncio.ensure_future(self._answer_one(program, question)) for question in self.task.dev]
        try:
            return list(await asyncio.gather(*work))
        except BaseException:
            for one in work:
                one.cancel()
            await asyncio.gather(*work, return_exceptions=True)
            raise

    async def _answer_one(self, program: RagProgram, question: Question) -> tuple[Row, float]:
        with collecting() as requests:
            (row,) = await evaluate(
                program, [question], self.task.scorer, limit=self._limit, done=self.progress.step
            )
        return row, self._ledger.seconds(requests)

    def _check_demonstrations(self, kind: str) -> None:
        """Notes what demonstrations of a `kind` are drawn from. Raises UsageError if the grid has others."""
        parts = _DRAWN_FROM.get(kind, ("demos",))
        pools = {name: self._attributes.get(name) for name in self._attributes.names()}
        drawn = {f"{name} {kind}": digest([pool[part] for part in parts]) for name, pool in pools.items()}
        card = self._files.card
        now = {"identity": card["identity"], "demonstrations": drawn}
        advice = "its train questions were answered in another way; choose another --out."
        cards.check_same(card, now, f"{self.out} holds a grid with", advice)
        card["demonstrations"] = {**card["demonstrations"], **drawn}

    def _add(self, number: int, rows: Sequence[tuple[Row, float]]) -> None:
        """Adds the cells of setting `number` and writes the grid."""
        scores = {
            metric: np.array([_number(row.scores[metric]) for row, _ in rows], np.float32)
            for metric in self._files.metrics
        }
        cells = Cells(
            np.arange(len(rows)),
            np.array([bool(row.failure) for row, _ in rows]),
            np.array([row.counters.get("tokens", _tokens(row)) for row, _ in rows], np.float32),
            np.array([seconds for _, seconds in rows], np.float32),
            scores,
        )
        self._files.add(number, cells)
        self._run["settings"] += 1
        self._save()

    def _save(self) -> Grid:
        """Writes the grid if this recording added to it."""
        files = self._files
        if self._run["settings"] == 0 and is_grid(self.out) and not self._has_changed():
            return grid_of(files, self.out.name)
        before = [run for run in files.card["runs"] if run is not self._run]
        files.card["runs"] = [*before, self._run] if self._run["settings"] else before
        grid = grid_of(files, self.out.name)
        files.save(self.out, cards.text_of(grid))
        return grid

    def _has_changed(self) -> bool:
        """Whether the files in `out` are others than those to be written."""
        there = read_files(self.out)
        return there.parquet.keys() != self._files.parquet.keys() or there.columns != self._files.columns

    def _line(self, number: int, candidate: Candidate) -> str:
        """One line on a setting: the mean of the first metric, the best so far, and what the setting is."""
        grid = grid_of(self._files, self.out.name)
        means, first = grid.means(grid.metrics[0]), self.task.metrics[0]
        known = means[~np.isnan(means)]
        best = (known.max() if first.higher_is_better else known.min()) if len(known) else math.nan
        base = self._files.candidates[0]["knobs"]
        knobs = {name: value for name, value in candidate.knobs.items() if value != base.get(name)}
        what = describe_candidate(candidate, knobs) or "baseline"
        size = f"{number + 1}/{len(self._files.candidates)}"
        return f"setting {size}  {_shown(means[number])}  best {_shown(best)}  {what}"

    def _cut_off(self, error: BudgetExhausted) -> BudgetExhausted:
        """The error of a spent budget, with what is there."""
        total = len(self._files.candidates)
        there = total - len(self._files.missing)
        return BudgetExhausted(
            f"{error} {there} of {total} settings are recorded in {self.out}; the same command goes on."
        )


def _shown(mean: float) -> str:
    return "-" if math.isnan(mean) else decimals(mean)


def _number(score: float | None) -> float:
    return math.nan if score is None else float(score)


def _tokens(row: Row) -> float:
    """The tokens of a question whose reply could not be read."""
    return row.counters.get("prompt_tokens", 0) + row.counters.get("completion_tokens", 0)
