"""Opening what the command line was pointed at: a compiled program or a recipe, ready to answer."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragc import heap, loop, recipe
from ragc.counters import Counters, counting
from ragc.errors import ArtefactError, UsageError
from ragc.metrics.significance import Interval
from ragc.optimizers.compile import open_store
from ragc.optimizers.compiled import CompiledProgram, load
from ragc.optimizers.evaluation import Row, answer, evaluate
from ragc.optimizers.fitting import fit
from ragc.optimizers.moved import Moved, moved
from ragc.optimizers.prompts import give_prompts
from ragc.optimizers.proof import intervals, summaries
from ragc.optimizers.speed import note_speed
from ragc.optimizers.task import Task, prepare
from ragc.programs.base import RagProgram
from ragc.programs.trace import by_call
from ragc.progress import Progress, Silent, listening
from ragc.records import Question
from ragc.store import CallStore
from ragc.targets.base import Target
from ragc.targets.vllm_metrics import gained, prefix_tokens

SILENT = Silent()


@dataclass(frozen=True, slots=True)
class Opened:
    """A program on its runtime. `compiled` is None when it comes from a recipe alone."""

    task: Task
    program: RagProgram
    compiled: CompiledProgram | None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A program scored on a split: rows in the order of the questions, means with intervals.

    `moved` says how a compiled program's means differ from those of its compile, on other targets than then.
    """

    rows: tuple[Row, ...]
    metrics: Mapping[str, Interval]
    counters: Mapping[str, float]
    backends: Mapping[str, str] = field(default_factory=dict)
    moved: Moved | None = None

    def to_json(self) -> dict[str, Any]:
        """What `ragc eval --json` prints."""
        return {
            "n": len(self.rows),
            "metrics": intervals(self.metrics),
            "failures": sum(bool(row.failure) for row in self.rows),
            "counters": dict(self.counters),
            **self._assessed(),
            **({"moved": self.moved.to_json()} if self.moved else {}),
            "calls": [spent.to_json() for spent in by_call(e for row in self.rows for e in row.trace)],
        }

    def _assessed(self) -> dict[str, Any]:
        if not self.backends:
            return {}
        return {"backends": dict(self.backends), "judging": self.judging, "decided": self.decided}

    @property
    def decided(self) -> dict[str, dict[str, int]]:
        """By family, how many questions each rule decided: exact, judge, unreadable and so on."""
        tallies: dict[str, dict[str, int]] = {}
        for row in self.rows:
            for family, finding in row.found.items():
                if isinstance(finding.value, dict) and "by" in finding.value:
                    tally = tallies.setdefault(family, {})
                    tally[finding.value["by"]] = tally.get(finding.value["by"], 0) + 1
        return tallies

    @property
    def judging(self) -> dict[str, float]:
        """What the findings took, of all that was spent."""
        total = Counters()
        for row in self.rows:
            total.add(**row.judging)
        return {name: amount for name, amount in total.to_json().items() if amount}


def open_program(
    path: str | Path,
    sets: Sequence[str] = (),
    *,
    questions: bool = True,
    store: CallStore | None = None,
    targets: Mapping[str, Target] | None = None,
) -> Opened:
    """The compiled program or recipe at `path`, with the overrides `sets`. Nothing is sent.

    A recipe gives its program with default knobs, `[knobs]` over them, and no demonstrations.
    `targets` stand in for those of the recipe. Raises UsageError and its kin.
    """
    where = Path(path)
    if where.is_dir():
        compiled = load(where)
        resolved = _recipe_of(compiled, sets)
        kept = store or open_store(resolved.study)
        task = prepare(resolved, store=kept, questions=questions, targets=targets)
        return Opened(task, compiled.build(task.runtime), compiled)
    if not where.exists():
        raise ArtefactError(f"Neither a recipe nor a compiled program is at {where}; check the path.")
    resolved = recipe.load(where, sets)
    kept = store or open_store(resolved.study)
    task = prepare(resolved, store=kept, questions=questions, targets=targets)
    program = task.method.build(task.runtime, task.recipe.fixed(task.method))
    return Opened(task, give_prompts(program, task.recipe), None)


def _recipe_of(compiled: CompiledProgram, sets: Sequence[str]) -> recipe.Recipe:
    base = Path(str(compiled.run.get("base", "."))) if compiled.run else Path()
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "recipe.toml"
        text.write_text(compiled.recipe, "utf-8")
        return recipe.load(text, sets, base=base)


def ask(opened: Opened, question: str, *, context: Mapping[str, Any] | None = None) -> Row:
    """Answer one question."""

    async def work() -> Row:
        await _open(opened.task, SILENT)
        asked = Question("", question, (), **dict(context or {}))
        return await answer(opened.program, asked)

    if not question.strip():
        raise UsageError("The question is empty; write it as one argument, in quotes.")
    return loop.run(work())


def score(opened: Opened, split: str = "test", *, progress: Progress = SILENT) -> Evaluation:
    """Score the program on `split` with the metrics of its recipe."""
    task = opened.task
    questions = task.splits.get(split, ())
    if not questions:
        found = ", ".join(name for name, held in task.splits.items() if held) or "none"
        raise UsageError(f"Split {split!r} is empty; this data has: {found}.")

    async def work() -> tuple[tuple[Row, ...], Counters, dict[str, float]]:
        await _open(task, progress)
        progress.phase(f"answering {split}", len(questions))
        started = asyncio.get_running_loop().time()
        before = await prefix_tokens(task.runtime.targets.values())
        with counting(Counters()) as spent:
            limit = asyncio.Semaphore(task.in_flight)
            if opened.compiled is None:
                await fit(opened.program, task)
            rows = await evaluate(
                opened.program, questions, task.scorer, limit=limit, done=lambda row: progress.step()
            )
        seconds = asyncio.get_running_loop().time() - started
        after = await prefix_tokens(task.runtime.targets.values())
        return rows, spent, {"seconds": seconds, **gained(before, after)}

    with heap.settled():
        rows, spent, measured = loop.run(work())
    progress.close()
    note_speed(task, sent=spent.sent, replayed=spent.replayed, seconds=measured["seconds"])
    cost = spent.to_json() | {"tokens": spent.tokens} | measured
    means = summaries(task, [row.scores for row in rows])
    since = opened.compiled and moved(opened.compiled.provenance, task.facts, split, means)
    return Evaluation(rows, means, cost, task.scorer.backends, since or None)


async def _open(task: Task, progress: Progress) -> None:
    progress.phase("opening the model", None)
    with listening(progress.note):
        await task.runtime.open(progress.download)
