"""DSPy's optimizers on ragc's targets, store and budget, behind one function: `optimize`.

They allow a fair comparison with ragc's own study: the same program, train and dev questions, metric, seed
and concurrency, and every LM call through the same store and ledger.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module

from ragc.core.counters import Counters, counting
from ragc.core.display import quantity
from ragc.core.progress import Progress
from ragc.errors import BudgetExhausted, RagcError, UnknownName, UsageError
from ragc.optimizers.candidates.demos.bootstrap import set_demos
from ragc.optimizers.harness.base import Harness, optimizer_error
from ragc.optimizers.harness.monitor import EvaluatedProgram, PredictorChoice, SearchMonitor, read_choices
from ragc.programs.base import RagProgram
from ragc.programs.knobs import Value
from ragc.recipe.values import OWN_OPTIMIZER
from ragc.targets.dspy_lm import cause
from ragc.task.base import Task

Search = Callable[[Harness, RagProgram, SearchMonitor], RagProgram]


@dataclass(frozen=True, slots=True)
class ExternalOptimizer:
    """An optimizer of DSPy: its title, the module of its search, and what it does not optimise."""

    title: str
    module: str
    leaves: str

    def search(self) -> Search:
        """Returns the function that runs it, imported on demand because it needs DSPy's optimizers."""
        function: Search = import_module(f"ragc.optimizers.external.{self.module}").search
        return function


PEERS: Mapping[str, ExternalOptimizer] = {
    "mipro": ExternalOptimizer("MIPROv2", "mipro", "knobs"),
    "gepa": ExternalOptimizer("GEPA", "gepa", "knobs and demonstrations"),
    "random": ExternalOptimizer(
        "BootstrapFewShotWithRandomSearch", "random_search", "knobs and instructions"
    ),
}
"""The external optimizers by their name in `search.optimizer`."""


@dataclass(frozen=True, slots=True)
class ExternalResult:
    """The result of an external optimizer: knobs, and instructions and demonstrations by predictor.

    `trials` are the means on dev of the first objective (more is better) of every fully scored program, in
    order, the baseline's first; empty if the budget did not last for the baseline. `notes` are sentences for
    people. `counters` are the cost of the search, replayed calls included (`Counters.invariant`).
    """

    name: str
    knobs: Mapping[str, Value]
    predictors: Mapping[str, PredictorChoice]
    trials: tuple[float, ...]
    notes: tuple[str, ...]
    counters: Mapping[str, float]

    async def program(self, task: Task) -> RagProgram:
        """Builds the program of `task` with these choices, as `CompiledProgram.of` takes it."""
        program = await asyncio.to_thread(task.method.build, task.runtime, dict(self.knobs))
        await task.fit(program)
        for name, predictor in program.named_predictors():
            instructions = self.predictors[name].instructions
            if instructions != predictor.signature.instructions:
                predictor.signature = predictor.signature.with_instructions(instructions)
        return set_demos(program, {name: choice.demos for name, choice in self.predictors.items()})


async def optimize(name: str, task: Task, *, limit: asyncio.Semaphore, progress: Progress) -> ExternalResult:
    """Optimises the program of `task` with the external optimizer `name`.

    The baseline is answered on dev first, at most `limit` questions at a time. The optimizer then uses its
    own `task.in_flight` threads instead of `limit`. A spent budget ends the search with the best program so
    far, or the baseline, and a note. The calls that the ledger holds back are left for the caller. Run again
    on the same store, it sends nothing and gives the same result. Raises UnknownName, UsageError if the
    recipe lacks something the optimizer needs, and any other error of ragc that ended the search (a lost
    target, a full store).
    """
    if name not in PEERS:
        raise UnknownName("optimizer", name, (OWN_OPTIMIZER, *PEERS))
    check(name, task)
    with counting(Counters()) as cost:
        best, trials, notes = await _search(name, task, limit, progress)
    return ExternalResult(
        name, dict(best.knobs), dict(best.predictors), trials, tuple(notes), cost.invariant()
    )


def check_optimizer(task: Task) -> None:
    """Raises UsageError if the optimizer of `task` lacks something it needs; nothing is sent."""
    if task.recipe.search.optimizer != OWN_OPTIMIZER:
        check(task.recipe.search.optimizer, task)


def check(name: str, task: Task) -> None:
    """Raises UsageError if `task` lacks questions or settings that the optimizer `name` needs."""
    for split, questions in (("train", task.train), ("dev", task.dev)):
        if not questions:
            raise UsageError(f"The optimizer {name!r} needs {split} questions, found none; set data.{split}.")
    ids = [question.id for question in (*task.train, *task.dev)]
    if len(set(ids)) != len(ids):
        raise UsageError(f"The optimizer {name!r} tells questions apart by id, and some ids occur twice.")
    if name == "random":
        from ragc.optimizers.external.random_search import max_shown_demos

        max_shown_demos(task)


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
        on_evaluated=lambda evaluated: _report_trial(evaluated, task, progress),
        offset=bench.offset,
    )
    best, ended = await _run_optimizer(name, bench, student, watch)
    notes = [f"{peer.title} leaves {peer.leaves} as they are."]
    if len(task.recipe.methods) > 1 or task.recipe.search.targets:
        notes.append(f"{peer.title} compares no programs and no targets; it searched {task.method.id} alone.")
    if len(task.objectives) > 1:
        notes.append(f"{peer.title} knows one objective, here {bench.objective.metric.id}; it saw no other.")
    if ended:
        notes.append(ended)
    trials = tuple(evaluation.score for evaluation in watch.evaluated) or (base.score,)
    return best or base, trials, notes


async def _run_optimizer(
    name: str, bench: Harness, student: RagProgram, watch: SearchMonitor
) -> tuple[EvaluatedProgram | None, str]:
    """Returns the optimizer's program, None for the baseline; and why it ended early, "" if it did not."""
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
    """Reports the last fully scored program as progress."""
    last, best = evaluated[-1], max(evaluation.score for evaluation in evaluated)
    shown = [len(predictor.demos) for predictor in last.predictors.values()]
    of = max(task.trials, len(evaluated) - 1)
    most = max(shown, default=0)
    failed = f"; {last.failures.text}" if last.failures.n else ""
    about = f"{quantity(most, 'demonstration')}{failed}"
    progress.trial(len(evaluated) - 1, of, last.score, best, about)
