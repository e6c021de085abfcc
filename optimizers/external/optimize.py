"""DSPy's optimizers on our targets, store and budget, behind one call: `optimize`.

They are there to be compared with ragc's own study on equal terms: the same program, train and dev
questions, metric and seed, as many questions in flight, and every LM call through the same store and ledger.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from ragc.core.counters import Counters, counting
from ragc.core.progress import Progress
from ragc.errors import BudgetExhausted, RagcError, UnknownName, UsageError
from ragc.optimizers.demos.fit import fit
from ragc.optimizers.external.harness import Harness, optimizer_error
from ragc.optimizers.external.monitor import EvaluatedProgram, PredictorChoice, SearchMonitor, read_choices
from ragc.optimizers.task import Task
from ragc.programs.base import RagProgram
from ragc.programs.knobs import Value
from ragc.targets.dspy_engine import cause

Search = Callable[[Harness, RagProgram, SearchMonitor], RagProgram]


@dataclass(frozen=True, slots=True)
class ExternalOptimizer:
    """An optimizer of DSPy's: what people call it, where its search stands, what it leaves as it is."""

    title: str
    module: str
    leaves: str

    def search(self) -> Search:
        """The function that runs it; imported late, for it needs DSPy's optimizers."""
        function: Search = import_module(f"ragc.optimizers.external.{self.module}").search
        return function


PEERS: Mapping[str, ExternalOptimizer] = {
    "mipro": ExternalOptimizer("MIPROv2", "mipro", "knobs"),
    "gepa": ExternalOptimizer("GEPA", "gepa", "knobs and demonstrations"),
    "random": ExternalOptimizer(
        "BootstrapFewShotWithRandomSearch", "random_search", "knobs and instructions"
    ),
    "reanchor": ExternalOptimizer(
        "ReAnchor", "reanchor", "instructions, demonstrations, switches and choices"
    ),
}
"""The peers by the name that `search.optimizer` gives them."""


@dataclass(frozen=True, slots=True)
class ExternalResult:
    """What a peer chose: knobs, and for each predictor instructions and demonstrations.

    `trials` are the means of the first objective (more is better) of every program that was scored in full,
    in order, the baseline's first; on dev, for ReAnchor on train; none when the budget did not even pay for
    the baseline. `notes` are sentences for people.
    `counters` say what the search cost, replayed or not (`Counters.invariant`).
    """

    name: str
    knobs: Mapping[str, Value]
    predictors: Mapping[str, PredictorChoice]
    trials: tuple[float, ...]
    notes: tuple[str, ...]
    counters: Mapping[str, float]

    async def program(self, task: Task) -> RagProgram:
        """The program of `task` with what was chosen, as `CompiledProgram.of` takes it.

        Raises UsageError when the task's method has other predictors.
        """
        program = await asyncio.to_thread(task.method.build, task.runtime, dict(self.knobs))
        await fit(program, task)
        predictors = dict(program.named_predictors())
        if set(predictors) != set(self.predictors):
            raise UsageError(
                f"What {self.name!r} found is for the predictors {sorted(self.predictors)}, and this program "
                f"has {sorted(predictors)}; search again."
            )
        for name, predictor in predictors.items():
            wanted = self.predictors[name]
            if wanted.instructions != predictor.signature.instructions:
                predictor.signature = predictor.signature.with_instructions(wanted.instructions)
            predictor.demos = [dict(demo) for demo in wanted.demos]
        return program

    def to_json(self) -> dict[str, Any]:
        """JSON values only; `of` is the inverse."""
        return {
            "name": self.name,
            "knobs": dict(self.knobs),
            "predictors": {name: predictor.to_json() for name, predictor in self.predictors.items()},
            "trials": list(self.trials),
            "notes": list(self.notes),
            "counters": dict(self.counters),
        }

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> ExternalResult:
        """What `to_json` described."""
        predictors = {name: PredictorChoice.of(predictor) for name, predictor in value["predictors"].items()}
        trials = tuple(float(score) for score in value["trials"])
        return cls(
            value["name"], dict(value["knobs"]), predictors, trials, tuple(value["notes"]), value["counters"]
        )


async def optimize(name: str, task: Task, *, limit: asyncio.Semaphore, progress: Progress) -> ExternalResult:
    """What the peer called `name` makes of the program of `task`.

    The baseline is answered on dev first, at most `limit` questions at a time; while the peer runs,
    `task.in_flight` threads of its own stand in the place of `limit`. A spent budget ends the search with the
    best program so far, the baseline where there is none better, and a note; what the ledger holds back stays
    the caller's. Run again on the same store, it sends nothing and finds the same. Raises UnknownName,
    UsageError when the recipe lacks what the peer needs, and any other error of ours that ended the search
    (a target that is gone, a store that is full).
    """
    if name not in PEERS:
        raise UnknownName("optimizer", name, ("ragc", *PEERS))
    check(name, task)
    with counting(Counters()) as cost:
        best, trials, notes = await _search(name, task, limit, progress)
    return ExternalResult(
        name, dict(best.knobs), dict(best.predictors), trials, tuple(notes), cost.invariant()
    )


def check(name: str, task: Task) -> None:
    """Raise UsageError where `task` lacks questions that the peer called `name` needs."""
    for split, questions in (("train", task.train), ("dev", task.dev)):
        if not questions:
            raise UsageError(f"The optimizer {name!r} needs {split} questions, found none; set data.{split}.")
    ids = [question.id for question in (*task.train, *task.dev)]
    if len(set(ids)) != len(ids):
        raise UsageError(f"The optimizer {name!r} tells questions apart by id, and some ids occur twice.")


async def _search(
    name: str, task: Task, limit: asyncio.Semaphore, progress: Progress
) -> tuple[EvaluatedProgram, tuple[float, ...], list[str]]:
    peer, bench = PEERS[name], Harness(task, limit, progress)
    student = await bench.build()
    progress.phase("baseline on dev", len(task.dev))
    try:
        rows = await bench.rows(student, task.dev)
    except BudgetExhausted as error:
        note = f"{peer.title} did not begin, the baseline is kept: {error}"
        return EvaluatedProgram(0.0, student.knobs.to_json(), read_choices(student)), (), [note]
    base = EvaluatedProgram(bench.mean(rows), student.knobs.to_json(), read_choices(student))
    progress.phase(f"{peer.title} on dev", None)
    watch = SearchMonitor(
        (question.id for question in task.dev),
        done=progress.step,
        tried=lambda evaluated: _report_trial(evaluated, task, progress),
    )
    best, ended = await _run_optimizer(name, bench, student, watch)
    notes = [f"{peer.title} leaves {peer.leaves} as they are."]
    if len(task.space.parts) > 1 or task.space.targets:
        notes.append(f"{peer.title} compares no programs and no targets; it searched {task.method.id} alone.")
    if len(task.objectives) > 1:
        notes.append(f"{peer.title} knows one objective, here {bench.objective.metric.id}; it saw no other.")
    if ended:
        notes.append(ended)
    trials = tuple(one.score for one in watch.evaluated) or (base.score,)
    return best or base, trials, notes


async def _run_optimizer(
    name: str, bench: Harness, student: RagProgram, watch: SearchMonitor
) -> tuple[EvaluatedProgram | None, str]:
    """What the peer chose, None for the baseline; and why it ended early, "" when it did not."""
    title, search = PEERS[name].title, PEERS[name].search()
    error: Exception | None
    try:
        program = await bench.run(lambda: search(bench, student.deepcopy(), watch), watch)
        error = watch.error
    except Exception as raised:
        program, error = None, watch.error or cause(raised) or raised
    if program is not None:
        best = watch.best.score if watch.best else 0.0
        return EvaluatedProgram(best, program.knobs.to_json(), read_choices(program)), ""
    if isinstance(error, RagcError) and not isinstance(error, BudgetExhausted):
        raise error
    if error is not None and watch.best is None and not isinstance(error, BudgetExhausted):
        raise optimizer_error(name, error) from error
    fallback = "the best program so far is kept" if watch.best else "the baseline is kept"
    reason = " ".join(str(error).split())[:300]
    return watch.best, f"{title} ended early, {fallback}: {reason}"


def _report_trial(evaluated: list[EvaluatedProgram], task: Task, progress: Progress) -> None:
    """Tell of the last program that was scored in full."""
    last, best = evaluated[-1], max(one.score for one in evaluated)
    shown = [len(predictor.demos) for predictor in last.predictors.values()]
    of = max(task.trials, len(evaluated) - 1)
    most = max(shown, default=0)
    about = f"{most} demonstration{'' if most == 1 else 's'}"
    failed = f"; {last.failures.text}" if last.failures.n else ""
    progress.trial(len(evaluated) - 1, of, last.score, best, f"{about}{failed}")
