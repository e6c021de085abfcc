"""Opening what the command line was pointed at: a compiled program or a recipe, ready to answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragc import heap, loop, recipe
from ragc.counters import Counters, counting
from ragc.errors import ArtefactError, UsageError
from ragc.metrics.failures import Failures
from ragc.metrics.significance import Interval
from ragc.optimizers.compile import open_store
from ragc.optimizers.compiled import CompiledProgram, load
from ragc.optimizers.evaluation import Row, answer, evaluate, failures_of
from ragc.optimizers.fitting import fit
from ragc.optimizers.moved import Moved, moved
from ragc.optimizers.prompts import give_prompts
from ragc.optimizers.proof import intervals, summaries
from ragc.optimizers.resolving import Opening, opening, resolve
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

    def close(self) -> None:
        """Free models, connections and files."""
        loop.run(_closed(self.task))
        self.task.ledger.close()
        self.task.runtime.gateway.store.close()


async def _closed(task: Task) -> None:
    for target in task.runtime.targets.values():
        await target.aclose()
    for source in task.runtime.sources.values():
        if (aclose := getattr(source, "aclose", None)) is not None:
            await aclose()


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
            "failures": self.failures.n,
            "failure_reasons": self.failures.reasons_json(),
            "counters": dict(self.counters),
            **self._assessed(),
            **({"moved": self.moved.to_json()} if self.moved else {}),
            "calls": [spent.to_json() for spent in by_call(e for row in self.rows for e in row.trace)],
        }

    @property
    def failures(self) -> Failures:
        """The questions that have no answer."""
        return failures_of(self.rows)

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
    base: str | Path | None = None,
    trust_targets: bool = False,
    trust_code: bool = False,
) -> Opened:
    """The compiled program or recipe at `path`, with the overrides `sets`. Nothing is sent.

    A recipe gives its program with default knobs, `[knobs]` over them, and no demonstrations.
    `targets` stand in for those of the recipe; the rest is said at `ragc.optimizers.resolving.Opening`.
    Raises UsageError and its kin.
    """
    where = Path(path)
    if where.is_dir():
        how = opening(sets, base, trust_targets, trust_code)
        return open_compiled(load(where), how, questions=questions, store=store, targets=targets)
    if not where.exists():
        raise ArtefactError(f"Neither a recipe nor a compiled program is at {where}; check the path.")
    resolved = recipe.load(where, sets, base=None if base is None else Path(base))
    kept = store or open_store(resolved.study)
    task = prepare(resolved, store=kept, questions=questions, targets=targets)
    program = task.method.build(task.runtime, task.recipe.fixed(task.method))
    return Opened(task, give_prompts(program, task.recipe), None)


def open_compiled(
    compiled: CompiledProgram,
    how: Opening,
    *,
    questions: bool = True,
    store: CallStore | None = None,
    targets: Mapping[str, Target] | None = None,
) -> Opened:
    """A program that was loaded, as `open_program` opens it. Raises Untrusted for what nobody allowed."""
    resolved = resolve(compiled, how, questions=questions, stand_ins=bool(targets))
    kept = store or open_store(resolved.study)
    task = prepare(resolved, store=kept, questions=questions, targets=targets)
    return Opened(task, compiled.build(task.runtime), compiled)


def ask(opened: Opened, question: str, *, context: Mapping[str, Any] | None = None) -> Row:
    """Answer one question."""
    return loop.run(answer_question(opened, question, context=context))


async def answer_question(opened: Opened, question: str, *, context: Mapping[str, Any] | None = None) -> Row:
    """As `ask`, on the process's loop."""
    if not question.strip():
        raise UsageError("The question is empty; write it as one argument, in quotes.")
    await _open(opened.task, SILENT)
    return await answer(opened.program, Question("", question, (), **dict(context or {})))


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
