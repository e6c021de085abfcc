"""Compile: search on dev, one look at test, a compiled program with proof.

prepare ─► study on dev ─► baseline and winner on test ─► verdict ─► CompiledProgram
"""

from __future__ import annotations

import asyncio
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from ragc.core import event_loop, garbage, inputs
from ragc.core.activity import doing
from ragc.core.counters import Counters, counting
from ragc.core.digest import digest, pretty
from ragc.core.display import describe
from ragc.core.progress import Progress, Silent, listening
from ragc.errors import BudgetExhausted, RecipeError, UsageError
from ragc.metrics.failures import Failures
from ragc.metrics.stats.intervals import Interval
from ragc.metrics.stats.power import small_data_note
from ragc.optimizers.answering import Row, evaluate, failures_of
from ragc.optimizers.distributed.addresses import open_store, refuse_shared
from ragc.optimizers.distributed.study_address import (
    clear,
    delete_address,
    ledger_of,
    read_address,
    recipe_in,
    write_address,
)
from ragc.optimizers.plan.speed import note_speed
from ragc.optimizers.prompts import check_programs
from ragc.optimizers.requirements import require
from ragc.optimizers.results.compiled import CompiledProgram, refuse_foreign, state_of
from ragc.optimizers.results.verdict import compare, intervals_to_json, summarize
from ragc.optimizers.search.driver import SearchOutcome, search
from ragc.optimizers.search.storage import difference, study_directory
from ragc.optimizers.search.study import translate_storage_errors
from ragc.optimizers.task import Task, prepare
from ragc.recipe import Recipe
from ragc.store.call_store import CallStore
from ragc.targets.base import Target
from ragc.targets.vllm.prefix_cache import increase, prefix_tokens

SILENT = Silent()


@dataclass(frozen=True, slots=True)
class Compiled:
    """What `compile` gives back.

    `baseline` and `test` hold an interval a metric on the test split; both are empty, and the verdict
    says so, when there is no test split or the budget ran out. `failures` are the questions without an
    answer, by split ("dev", "test") and program ("baseline", "winner"). `example` is one answered question of
    the test split.
    """

    path: Path
    program: CompiledProgram
    verdict: str
    baseline: Mapping[str, Interval]
    test: Mapping[str, Interval]
    differences: Mapping[str, Mapping[str, Any]]
    note: str
    counters: Mapping[str, float]
    example: Row | None = field(default=None, compare=False)
    failures: Mapping[str, Mapping[str, Failures]] = field(default_factory=dict)

    def __repr__(self) -> str:
        means = {
            name: f"{self.baseline[name].mean:.3f} to {after.mean:.3f}" for name, after in self.test.items()
        }
        shown = {"program": self.program.state.method, "verdict": self.verdict, **means}
        return describe("Compiled", repr(str(self.path)), **shown)

    @property
    def failure_lines(self) -> list[str]:
        """A line for each program that failed in questions of a split, for people."""
        return [
            f"{program} on {split}: {failures.text}"
            for split, programs in self.failures.items()
            for program, failures in programs.items()
            if failures.n
        ]

    def to_json(self) -> dict[str, Any]:
        """What `ragc compile --json` prints."""
        return {
            "compiled": str(self.path),
            "verdict": self.verdict,
            "baseline": intervals_to_json(self.baseline),
            "test": intervals_to_json(self.test),
            "differences": {name: dict(value) for name, value in self.differences.items()},
            "failures": _as_json(self.failures),
            "note": self.note,
            "counters": dict(self.counters),
        }


def _as_json(failures: Mapping[str, Mapping[str, Failures]]) -> dict[str, dict[str, Any]]:
    return {
        split: {program: held.to_json() for program, held in programs.items()}
        for split, programs in failures.items()
    }


def compile(
    recipe: Recipe,
    out: str | Path,
    *,
    resume: bool = False,
    store: CallStore | None = None,
    targets: Mapping[str, Target] | None = None,
    progress: Progress = SILENT,
) -> Compiled:
    """Search, measure and write the compiled program of `recipe` to the directory `out`.

    `resume` goes on with a study that was cut off, or starts one when there is none; without it an
    earlier study of `out` is begun anew, its calls replayed from the store. `targets` stand in for
    those of the recipe. Raises RagcError; nothing is written to `out` before the end.
    """
    target = Path(out)
    refuse_foreign(target)
    if recipe.study.workers and (store or targets):
        raise UsageError("Workers open the store and the targets of the recipe; leave store and targets out.")
    require(recipe, targets=targets is None, metrics=targets is None)
    with study_of(target, recipe, resume) as directory:
        ledger = ledger_of(recipe, directory)
        call_store = store or open_store(recipe.study)
        charges = directory / "charges.jsonl"
        task = prepare(recipe, store=call_store, charges=charges, ledger=ledger, targets=targets)
        try:
            with translate_storage_errors(directory), garbage.frozen_gc():
                return event_loop.run(_compile(task, target, directory, progress))
        finally:
            task.ledger.close()


@contextmanager
def study_of(out: Path, recipe: Recipe, resume: bool) -> Iterator[Path]:
    """The study's directory, locked; a recipe of another identity is refused on resume.

    A study that keeps nothing cannot be resumed, and its directory is removed at the end, whatever ends it.
    """
    keep = recipe.study.keep
    refuse_shared(recipe.study)
    if resume and not keep:
        raise UsageError(
            "--resume goes on with what a study kept, and study.keep = false keeps nothing; leave one out."
        )
    directory = study_directory(out)
    lock = FileLock(f"{directory}.lock")
    try:
        with doing(
            f"Keeping the study of {out} in {directory}", "check RAGC_HOME, or set it to another folder"
        ):
            directory.parent.mkdir(parents=True, exist_ok=True)
            if directory.is_symlink():
                raise UsageError(f"{directory} is a link, and a study is kept in a folder; remove the link.")
            lock.acquire(timeout=0.5)  # `ragc study status` holds it for a moment
    except Timeout:
        raise UsageError(
            f"Another process is compiling to {out}; wait for it or choose another --out."
        ) from None
    try:
        text = recipe.to_toml()
        written = directory / "recipe.toml"
        if not (resume and written.exists()):  # without its recipe it is what a kill left of an older one
            delete_address(directory)
            clear(directory)
        elif change := _change(directory, recipe):
            raise UsageError(
                f"The recipe changed since the study of {out} began ({change}); undo the change, or leave "
                "--resume out to begin anew."
            )
        with doing(
            f"Keeping the study of {out} in {directory}", "check RAGC_HOME, or set it to another folder"
        ):
            directory.mkdir(parents=True, exist_ok=True)
            fresh = directory / "recipe.toml.new"
            fresh.write_text(text, "utf-8")
            fresh.replace(written)
            write_address(directory, recipe=digest(text))
        yield directory
    except KeyboardInterrupt:
        if keep:
            raise
        raise KeyboardInterrupt("Interrupted; nothing is kept, as study.keep = false says.") from None
    finally:
        if not keep:
            event_loop.run(asyncio.sleep(0))  # what was interrupted may be in the middle of a file
            with suppress(OSError):
                clear(directory)
        lock.release()


def _change(directory: Path, recipe: Recipe) -> str:
    """What makes `recipe` another one than that of the study in `directory`; "" for nothing.

    A budget, for one, may be raised. Raises ArtefactError where the study's recipe is damaged.
    """
    text = recipe.to_toml()
    before = inputs.read_text(directory / "recipe.toml", errors="replace")
    if before == text or digest(text) == read_address(directory).get("recipe"):
        return ""
    try:
        return difference(recipe_in(directory).identity(), recipe.identity())
    except RecipeError:  # written by a ragc of other keys
        return difference(before, text)


async def _compile(task: Task, out: Path, directory: Path, progress: Progress) -> Compiled:
    # What the programs lack is said before a model is loaded.
    await asyncio.to_thread(check_programs, task)
    if small := small_data_note(len(task.dev), len(task.test)):
        progress.note(small)
    progress.phase("opening the model", None)
    with listening(progress.note):
        await task.runtime.open(progress.download)
    limit = asyncio.Semaphore(task.in_flight)
    started, cached = time.monotonic(), await prefix_tokens(task.runtime.targets.values())
    with counting(Counters()) as spent:
        outcome = await search(task, directory, limit, progress)
        before, after = await _evaluate_test(task, outcome, limit, progress)
    seconds = time.monotonic() - started
    note_speed(task, sent=spent.sent, replayed=spent.replayed, seconds=seconds)
    cached = increase(cached, await prefix_tokens(task.runtime.targets.values()))
    rows = {"baseline": before, "winner": after}
    scored = {name: summarize(task, [row.scores for row in held]) for name, held in rows.items()}
    failures = {"dev": outcome.failures} | (
        {"test": {name: failures_of(held) for name, held in rows.items()}} if after else {}
    )
    differences, decided, note = compare(task, before, after)
    if after and all(held.all for held in failures["test"].values()):
        decided = f"nothing answered: {failures['test']['winner'].reason}"
    provenance = {
        **task.facts,
        "dev": {name: intervals_to_json(summarize(task, scores)) for name, scores in outcome.dev.items()},
        "test": {name: intervals_to_json(held) for name, held in scored.items()}
        | {"differences": differences},
        "failures": _as_json(failures),
        "verdict": decided,
        "search": dict(outcome.facts),
        "counters": _total_cost(outcome, (*before, *after)),
    }
    run = {
        "sent": spent.sent,
        "replayed": spent.replayed,
        "seconds": round(seconds, 3),
        **cached,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()} {platform.system()}, Python {platform.python_version()}",
        "base": str(task.recipe.base.resolve()),
    }
    compiled = CompiledProgram.of(outcome.best, provenance=provenance, recipe=task.recipe.to_toml(), run=run)
    compiled.save(out, outcome.best)
    if after and compiled.state == state_of(outcome.baseline):
        note = "The baseline is kept: on the dev questions no trial promised to be better."
    (directory / "trials.json").write_text(pretty(list(outcome.trials)), "utf-8")
    progress.close()
    cost = {
        "sent": spent.sent,
        "replayed": spent.replayed,
        "tokens": spent.tokens,
        "usd": spent.usd,
        "seconds": seconds,
        **cached,
    }
    example = next((row for row in after if row.prediction), None)
    return Compiled(
        out,
        compiled,
        decided,
        scored["baseline"],
        scored["winner"],
        differences,
        note,
        cost,
        example,
        failures,
    )


async def _evaluate_test(
    task: Task, outcome: SearchOutcome, limit: asyncio.Semaphore, progress: Progress
) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
    """Baseline and winner on the test split; empty when there is none or the budget is spent."""
    if not task.test:
        return (), ()
    rows: list[tuple[Row, ...]] = []
    try:
        for name, program in (("baseline", outcome.baseline), ("winner", outcome.best)):
            progress.phase(f"{name} on test", len(task.test))
            rows.append(
                await evaluate(program, task.test, task.scorer, limit=limit, done=lambda row: progress.step())
            )
    except BudgetExhausted as error:
        progress.note(f"test not measured: {error}")
        return (), ()
    return rows[0], rows[1]


def _total_cost(outcome: SearchOutcome, rows: Sequence[Row]) -> dict[str, float]:
    """What the search and the look at test cost, replayed or not."""
    total = Counters()
    for cost in outcome.costs:
        total.add(**cost)
    for row in rows:
        total.merge(row.total_cost)
    return total.invariant()
