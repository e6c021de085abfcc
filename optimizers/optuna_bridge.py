"""For people with Optuna scripts of their own: a recipe as a study, and as an objective to optimize.

    recipe = "recipe.toml"
    study = ragc.study(recipe)
    objective = ragc.objective(recipe)
    study.optimize(objective, n_trials=20)
    objective.save(study.best_trial, "compiled/best")

Every call passes through the call store and the recipe's budget, as in a compile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import optuna

from ragc import heap, loop
from ragc.counters import Counters
from ragc.errors import BudgetExhausted, UsageError
from ragc.fingerprint import digest
from ragc.metrics.failures import Failures
from ragc.optimizers.compile import open_store
from ragc.optimizers.compiled import CompiledProgram, refuse_foreign
from ragc.optimizers.evaluation import Row, evaluate, failures_of
from ragc.optimizers.heats import looks, shuffled
from ragc.optimizers.making import Maker
from ragc.optimizers.proof import intervals, summaries
from ragc.optimizers.space import Candidate
from ragc.optimizers.storage import Memory, storage
from ragc.optimizers.suggest import enqueued, sampler, suggest
from ragc.optimizers.task import Task, prepare
from ragc.optimizers.telling import FAILURES
from ragc.paths import cache_home
from ragc.progress import Silent
from ragc.recipe import Recipe
from ragc.store import CallStore
from ragc.targets.base import Target

CANDIDATE, COUNTERS = "ragc:candidate", "ragc:counters"
"""The attributes of a trial that hold what was tried and what it cost."""


def directory(recipe: Recipe) -> Path:
    """Where the study of `recipe` and the charges of its budget are kept."""
    return cache_home() / "studies" / f"optuna-{digest([recipe.to_toml(), str(recipe.base.resolve())])[:12]}"


def study(recipe: Recipe) -> optuna.Study:
    """An Optuna study for `recipe`, kept on disk under its content: opened again, it goes on.

    Its directions are "maximize": an objective to make small is told negated. The sampler is TPE with the
    recipe's seed; replace it as you like. A fresh study tries the recipe's baseline first.
    """
    if not recipe.study.keep:
        raise UsageError(
            "ragc.study keeps its trials on disk, and the recipe says study.keep = false; leave that out, or "
            "make the study with optuna.create_study."
        )
    made = storage(directory(recipe), len(recipe.search.objectives))
    made.sampler = sampler(recipe.seed, 0, 0, trials=recipe.search.trials)
    if not made.get_trials(deepcopy=False):
        task = prepare(recipe, store=CallStore(None), questions=False)
        made.enqueue_trial(enqueued(task.space, task.space.baseline()))
    return made


class Objective:
    """A recipe as an objective: `study.optimize(Objective(...))`; any number of threads may call it.

    A call suggests what the recipe lets vary (all but instructions), answers the dev questions in one fixed
    order and gives the signed mean of each objective: more is better. With one objective the mean so far is
    reported after every block of questions, and the study's pruner may stop the trial. The trial's
    attributes keep the candidate, its counters, and under `ragc:failures` the questions without an answer. A
    trial that answered no question is pruned, so that it is never the best. A spent budget stops the study
    and prunes the trial.
    """

    def __init__(
        self,
        recipe: Recipe,
        *,
        store: CallStore | None = None,
        targets: Mapping[str, Target] | None = None,
    ) -> None:
        charges = directory(recipe) / "charges.jsonl" if recipe.study.keep else None
        if charges:
            charges.parent.mkdir(parents=True, exist_ok=True)
        kept = store or open_store(recipe.study)
        self.task: Task = prepare(recipe, store=kept, charges=charges, targets=targets)
        self._order = shuffled(self.task)
        self._limit = asyncio.Semaphore(self.task.in_flight)
        self._maker = Maker(self.task, Memory(), self._limit, Silent())
        self._opening, self._opened = asyncio.Lock(), False

    def __call__(self, trial: optuna.Trial) -> float | tuple[float, ...]:
        """The signed means of the objectives on dev. Raises TrialPruned, and what a target raises."""
        candidate = suggest(self.task.space, trial)
        trial.set_user_attr(CANDIDATE, candidate.to_json())
        try:
            rows = self._answered(candidate, trial)
        except BudgetExhausted as error:
            trial.study.stop()
            raise optuna.TrialPruned(str(error)) from error
        spent = Counters()
        for row in rows:
            spent.merge(row.spent)
        trial.set_user_attr(COUNTERS, spent.invariant())
        if (failures := _count_failures(rows, trial)).all:
            raise optuna.TrialPruned(failures.text)
        values = tuple(self._mean(rows, place) for place in range(len(self.task.objectives)))
        return values[0] if len(values) == 1 else values

    def candidate(self, trial: optuna.Trial | optuna.trial.FrozenTrial) -> Candidate:
        """What a trial of this objective tried. Raises UsageError for another trial."""
        kept = trial.user_attrs.get(CANDIDATE)
        if kept is None:
            raise UsageError(f"Trial {trial.number} was not run by this objective, so it names no candidate.")
        return Candidate.of(kept)

    def save(self, trial: optuna.Trial | optuna.trial.FrozenTrial, out: str | Path) -> CompiledProgram:
        """Write the compiled program of a finished `trial` to the directory `out`.

        Its scores on dev stand in it as replayed; the test split is not looked at: `ragc eval` does that.
        """
        refuse_foreign(Path(out))
        candidate = self.candidate(trial)
        program = loop.run(self._program(candidate))
        rows = loop.run(evaluate(program, self._order, self.task.scorer, limit=self._limit))
        dev = intervals(summaries(self.task, [row.scores for row in rows]))
        provenance = {
            **self.task.facts,
            "dev": {"winner": dev},
            "verdict": "not measured",
            "search": {"candidate": candidate.to_json(), "optuna": trial.number},
        }
        text = self.task.recipe.to_toml()
        run = {"base": str(self.task.recipe.base.resolve())}
        compiled = CompiledProgram.of(program, provenance=provenance, recipe=text, run=run)
        compiled.save(Path(out), program)
        return compiled

    def _answered(self, candidate: Candidate, trial: optuna.Trial) -> list[Row]:
        program = loop.run(self._program(candidate))
        rows: list[Row] = []
        for end in looks(len(self._order)):
            block = self._order[len(rows) : end]
            with heap.settled():
                rows += loop.run(evaluate(program, block, self.task.scorer, limit=self._limit))
            if len(self.task.objectives) == 1:
                trial.report(self._mean(rows, 0), step=end)
                if end < len(self._order) and trial.should_prune():
                    _count_failures(rows, trial)
                    raise optuna.TrialPruned
        return rows

    def _mean(self, rows: list[Row], place: int) -> float:
        objective = self.task.objectives[place]
        return sum(objective.of(row.scores) for row in rows) / len(rows)

    async def _program(self, candidate: Candidate) -> Any:
        if not self._opened:
            async with self._opening:  # one lock of the loop: a thread's would stop it while a target opens
                await self.task.runtime.open()
                self._opened = True
        return await self._maker.program(candidate)


def _count_failures(rows: list[Row], trial: optuna.Trial) -> Failures:
    """The failures among `rows`, which stand in the attributes of `trial` where there are any."""
    failures = failures_of(rows)
    if failures.n:
        trial.set_user_attr(FAILURES, failures.to_json())
    return failures
