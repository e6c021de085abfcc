"""Compile: search on dev, one look at test, a compiled program with proof.

prepare ─► study on dev ─► baseline and winner on test ─► verdict ─► CompiledProgram
"""

from __future__ import annotations

import asyncio
import platform
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from difflib import ndiff
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from ragc import heap, loop
from ragc.counters import Counters, counting
from ragc.errors import BudgetExhausted, UsageError
from ragc.fingerprint import digest, pretty
from ragc.metrics.significance import Interval
from ragc.optimizers.compiled import CompiledProgram, refuse_foreign
from ragc.optimizers.evaluation import Row, evaluate
from ragc.optimizers.prompts import check_programs
from ragc.optimizers.proof import compare, intervals, summaries
from ragc.optimizers.search import Found, search
from ragc.optimizers.sharing import forget, ledger_of, store_address
from ragc.optimizers.speed import note_speed
from ragc.optimizers.study import storing
from ragc.optimizers.task import Task, prepare
from ragc.paths import cache_home
from ragc.progress import Progress, Silent, listening
from ragc.recipe import Recipe
from ragc.recipe_study import StudySpec
from ragc.store import CallStore
from ragc.targets.base import Target
from ragc.targets.vllm_metrics import gained, prefix_tokens

SILENT = Silent()
HERE = StudySpec()


@dataclass(frozen=True, slots=True)
class Compiled:
    """What `compile` gives back.

    `baseline` and `test` hold an interval a metric on the test split; both are empty, and the verdict
    says so, when there is no test split or the budget ran out. `example` is one answered dev question.
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

    def to_json(self) -> dict[str, Any]:
        """What `ragc compile --json` prints."""
        return {
            "compiled": str(self.path),
            "verdict": self.verdict,
            "baseline": intervals(self.baseline),
            "test": intervals(self.test),
            "differences": {name: dict(value) for name, value in self.differences.items()},
            "counters": dict(self.counters),
        }


def open_store(spec: StudySpec = HERE) -> CallStore:
    """The call store of this user: on the server that RAGC_STORE or `spec` names, else in a folder.

    Raises UsageError for an address that cannot be used, StoreError when the store cannot be opened.
    """
    return CallStore.at(store_address(spec), cache_home() / "store")


def study_directory(out: Path) -> Path:
    """Where the study of the compiled program at `out` keeps its state."""
    return cache_home() / "studies" / f"{out.name}-{digest(str(out.resolve()))[:12]}"


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
    with study_of(target, recipe, resume) as directory:
        ledger = ledger_of(recipe, directory)
        kept = store or open_store(recipe.study)
        charges = directory / "charges.jsonl"
        task = prepare(recipe, store=kept, charges=charges, ledger=ledger, targets=targets)
        try:
            with storing(directory), heap.settled():
                return loop.run(_compile(task, target, directory, progress))
        finally:
            task.ledger.close()


@contextmanager
def study_of(out: Path, recipe: Recipe, resume: bool) -> Iterator[Path]:
    """The study's directory, locked; a changed recipe is refused on resume."""
    directory = study_directory(out)
    directory.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(f"{directory}.lock")
    try:
        lock.acquire(timeout=0.5)  # `ragc study status` holds it for a moment
    except Timeout:
        raise UsageError(
            f"Another process is compiling to {out}; wait for it or choose another --out."
        ) from None
    try:
        text = recipe.to_toml()
        written = directory / "recipe.toml"
        if not (resume and written.exists()):  # without its recipe it is what a kill left of an older one
            forget(directory)
            written.unlink(missing_ok=True)
            shutil.rmtree(directory, ignore_errors=True)
        elif written.read_text("utf-8") != text:
            change = difference(written.read_text("utf-8"), text)
            raise UsageError(
                f"The recipe changed since the study of {out} began ({change}); undo the change, or leave "
                "--resume out to begin anew."
            )
        directory.mkdir(parents=True, exist_ok=True)
        fresh = directory / "recipe.toml.new"
        fresh.write_text(text, "utf-8")
        fresh.replace(written)
        yield directory
    finally:
        lock.release()


def difference(before: str, after: str) -> str:
    """The lines that are gone (-) and new (+), three of them at most."""
    lines = [f"{line[0]} {line[2:]}" for line in ndiff(before.splitlines(), after.splitlines())]
    changed = [line for line in lines if line[0] in "+-" and line[2:].strip()]
    return "; ".join(changed[:3]) + (f"; and {len(changed) - 3} more" if len(changed) > 3 else "")


async def _compile(task: Task, out: Path, directory: Path, progress: Progress) -> Compiled:
    # What the programs lack is said before a model is loaded.
    await asyncio.to_thread(check_programs, task)
    progress.phase("opening the model", None)
    with listening(progress.note):
        await task.runtime.open(progress.download)
    limit = asyncio.Semaphore(task.in_flight)
    started, cached = time.monotonic(), await prefix_tokens(task.runtime.targets.values())
    with counting(Counters()) as spent:
        found = await search(task, directory, limit, progress)
        before, after = await _look_at_test(task, found, limit, progress)
    seconds = time.monotonic() - started
    note_speed(task, sent=spent.sent, replayed=spent.replayed, seconds=seconds)
    cached = gained(cached, await prefix_tokens(task.runtime.targets.values()))
    rows = {"baseline": before, "winner": after}
    scored = {name: summaries(task, [row.scores for row in held]) for name, held in rows.items()}
    differences, decided, note = compare(task, before, after)
    provenance = {
        **task.facts,
        "dev": {name: intervals(summaries(task, scores)) for name, scores in found.dev.items()},
        "test": {name: intervals(held) for name, held in scored.items()} | {"differences": differences},
        "verdict": decided,
        "search": dict(found.facts),
        "counters": _invariant(found, (*before, *after)),
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
    compiled = CompiledProgram.of(found.best, provenance=provenance, recipe=task.recipe.to_toml(), run=run)
    compiled.save(out, found.best)
    (directory / "trials.json").write_text(pretty(list(found.trials)), "utf-8")
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
        out, compiled, decided, scored["baseline"], scored["winner"], differences, note, cost, example
    )


async def _look_at_test(
    task: Task, found: Found, limit: asyncio.Semaphore, progress: Progress
) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
    """Baseline and winner on the test split; empty when there is none or the budget is spent."""
    if not task.test:
        return (), ()
    rows: list[tuple[Row, ...]] = []
    try:
        for name, program in (("baseline", found.baseline), ("winner", found.best)):
            progress.phase(f"{name} on test", len(task.test))
            rows.append(
                await evaluate(program, task.test, task.scorer, limit=limit, done=lambda row: progress.step())
            )
    except BudgetExhausted as error:
        progress.note(f"test not measured: {error}")
        return (), ()
    return rows[0], rows[1]


def _invariant(found: Found, rows: Sequence[Row]) -> dict[str, float]:
    """What the search and the look at test cost, replayed or not."""
    total = Counters()
    for cost in found.costs:
        total.add(**cost)
    for row in rows:
        total.merge(row.spent)
    return total.invariant()
