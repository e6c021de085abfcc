"""For Optuna scripts of users: a recipe as a study, and as an objective to optimize.

    recipe = "recipe.toml"
    study = ragc.study(recipe)
    objective = ragc.objective(recipe)
    study.optimize(objective, n_trials=20)
    objective.save(study.best_trial, "compiled/best")

Every call passes through the call store and the recipe's budget, as in a compile.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import TrialState

from ragc.compiled import contamination
from ragc.compiled.base import CompiledProgram, refuse_foreign
from ragc.compiled.verdict import intervals_to_json
from ragc.core import event_loop
from ragc.core.counters import Counters
from ragc.core.digest import digest
from ragc.core.display import describe, quantity
from ragc.core.progress import Silent
from ragc.errors import BudgetExhausted, UsageError
from ragc.metrics.failures import Failures
from ragc.optimizers.candidates.builder import ProgramBuilder
from ragc.optimizers.candidates.dev_order import group_sizes, shuffle_dev
from ragc.optimizers.candidates.eligible import is_outdone
from ragc.optimizers.candidates.space import Candidate, search_space
from ragc.optimizers.integrations.optuna_folder import Folder
from ragc.optimizers.search.allocation import stopping_points
from ragc.optimizers.search.parameters import suggest, to_parameters
from ragc.optimizers.search.sampler import seeded_sampler
from ragc.optimizers.search.storage import InMemoryAttributes, name_objectives, storage
from ragc.optimizers.search.tell import FAILURES, failures_in
from ragc.recipe import Recipe
from ragc.store.calls import CallStore
from ragc.targets.base import Target
from ragc.task.answering import Row, evaluate, failures_of, groups_of
from ragc.task.base import Task, inputs_of, prepare
from ragc.task.budget import BudgetFile, Spent
from ragc.task.prompts import check_prompts
from ragc.task.study_address import facts_differ

CANDIDATE, COUNTERS = "ragc:candidate", "ragc:counters"
"""The attributes of a trial that hold what was tried and what it cost."""

BASELINE, WORKER, SPENT = "ragc:baseline", "ragc:worker", "ragc:spent"
"""Those that mark the baseline, say which objective ran the trial, and which budget ended it."""

PATH, RECIPE, INPUTS = "ragc:path", "ragc:recipe", "ragc:inputs"
"""The attributes of a study: its folder where it has one of ours, and what its scores are of."""

_DONE = (TrialState.COMPLETE, TrialState.PRUNED)

log = logging.getLogger("ragc.study")


def study(recipe: Recipe, *, name: str = "", file: str | Path = "") -> optuna.Study:
    """Opens an Optuna study for `recipe` on disk, or resumes the existing one.

    Without a `name` it is named after the recipe `file` and its content. With one it is found by the name,
    and a recipe that differs in more than its budget is refused. The folder is printed, and is the study's
    attribute `ragc:path`. Its directions are "maximize": an objective to minimize is negated. The sampler is
    TPE with the recipe's seed; it may be replaced. The recipe's baseline is tried first, and again if it was
    cut off; trials left running by a dead process are marked as failed.
    """
    folder = Folder.of(recipe, name=name, file=file)
    folder.claim(recipe, file)
    verbosity = optuna.logging.get_verbosity()
    try:
        optuna_study = storage(folder.path, len(recipe.search.objectives), name=folder.name)
    finally:
        optuna.logging.set_verbosity(verbosity)
    name_objectives(optuna_study, recipe.search.objectives)
    optuna_study.sampler = seeded_sampler(recipe.seed, 0, 0, trials=recipe.search.trials)
    optuna_study.set_user_attr(PATH, str(folder.path))
    _fail_orphans(optuna_study, folder)
    if not _has_baseline(optuna_study):
        _enqueue_baseline(optuna_study, prepare(recipe, store=CallStore(None), questions=False))
    sys.stderr.write(f"ragc: study {folder.name} in {folder.path}\n")
    return optuna_study


def _fail_orphans(study: optuna.Study, folder: Folder) -> None:
    """Fails the running trials whose process has ended."""
    alive = folder.live_workers()
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        worker = trial.user_attrs.get(WORKER)
        if worker not in alive and (worker or not alive):
            study.tell(trial.number, state=TrialState.FAIL)


def _has_baseline(study: optuna.Study) -> bool:
    """Returns whether the baseline is among the trials, or is enqueued."""
    return any(_is_valid_baseline(trial) for trial in study.get_trials(deepcopy=False))


def _enqueue_baseline(study: optuna.Study, task: Task) -> None:
    space = search_space(task.recipe, task.runtime)
    study.enqueue_trial(to_parameters(space, space.baseline()), user_attrs={BASELINE: True})


def _is_valid_baseline(trial: optuna.trial.FrozenTrial) -> bool:
    """Returns whether `trial` is a baseline that need not be run again."""
    ended = trial.state is TrialState.FAIL or SPENT in trial.user_attrs
    return bool(trial.user_attrs.get(BASELINE)) and not ended


class Objective:
    """A recipe as an objective: `study.optimize(Objective(...))`; any number of threads may call it.

    A call suggests everything that the recipe lets vary, except instructions. It answers the dev questions in
    one fixed order and returns the signed mean of each objective: more is better. With one objective the mean
    so far is reported after every block of questions, and the study's pruner may stop the trial. The trial's
    attributes hold the candidate, its counters, and under `ragc:failures` the questions without an answer.

    A trial that answered no question is pruned, so that it is never the best. So is one that failed in many
    more questions than a complete trial of the study without answering better. A spent budget,
    `budget.trials` too, stops the study with a note; a trial that it cuts off is pruned. `path` is the folder
    with the charges, that of `study` with the same recipe and `name`.
    """

    def __init__(
        self,
        recipe: Recipe,
        *,
        name: str = "",
        file: str | Path = "",
        store: CallStore | None = None,
        targets: Mapping[str, Target] | None = None,
    ) -> None:
        folder = Folder.of(recipe, name=name, file=file)
        folder.claim(recipe, file)
        self.path = folder.path
        budget = BudgetFile(folder.path / "charges.sqlite3", recipe.budget)
        self.task: Task = prepare(recipe, store=store, budget=budget, targets=targets)
        check_prompts(self.task)
        if problem := contamination.record(self.task, "objective"):
            log.warning(problem)
        self._order = shuffle_dev(self.task)
        self._limit = asyncio.Semaphore(self.task.in_flight)
        self._builder = ProgramBuilder(self.task, InMemoryAttributes(), self._limit, Silent())
        self._opening, self._opened = asyncio.Lock(), False
        self._worker = folder.worker()
        self._checking, self._noted = threading.Lock(), ""

    def __repr__(self) -> str:
        task = self.task
        names = [objective.name for objective in task.objectives]
        size = quantity(len(task.dev), "dev question")
        return describe("Objective", task.recipe.program, size, metrics=" ".join(names), path=self.path)

    def __call__(self, trial: optuna.Trial) -> float | tuple[float, ...]:
        """Returns the signed means of the objectives on dev.

        Raises TrialPruned, UsageError for a study that these objectives do not fit, and errors of a target.
        """
        with self._checking:
            self._check(trial.study)
            trial.set_user_attr(WORKER, Path(self._worker.lock_file).stem)
        if reason := self._trials_spent(trial, before=True):
            raise self._stop_and_prune(trial, reason)
        space = self._builder.space
        candidate = suggest(space, trial)
        if trial.user_attrs.get(BASELINE):  # whose defaults may lie outside the ranges, where samplers draw
            candidate = space.baseline()
        trial.set_user_attr(CANDIDATE, candidate.to_json())
        try:
            rows = self._answer(candidate, trial)
        except BudgetExhausted as error:
            raise self._stop_and_prune(trial, str(error)) from error
        except optuna.TrialPruned:
            raise
        except BaseException:
            if trial.user_attrs.get(BASELINE):  # it was cut off
                _enqueue_baseline(trial.study, self.task)
            raise
        finally:  # a trial that was pruned counts too
            if reason := self._trials_spent(trial, before=False) or self._amounts_spent():
                self._stop(trial.study, reason)
        spent = Counters()
        for row in rows:
            spent.merge(row.total_cost)
        trial.set_user_attr(COUNTERS, spent.invariant())
        if (failures := _count_failures(rows, trial)).all:
            raise optuna.TrialPruned(failures.text)
        values = tuple(self._mean(rows, index) for index in range(len(self.task.objectives)))
        if self._is_beaten(trial, failures, values):
            raise optuna.TrialPruned(failures.text)
        return values[0] if len(values) == 1 else values

    def _is_beaten(self, trial: optuna.Trial, failures: Failures, values: tuple[float, ...]) -> bool:
        """Returns whether a complete trial of the study failed much less and was no worse; see `winner`."""
        if not failures.n:
            return False
        others = trial.study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        return any(
            is_outdone(failures, values, failures_in(other), other.values, self.task.objectives)
            for other in others
            if CANDIDATE in other.user_attrs
        )

    def enqueue_baseline(self, study: optuna.Study) -> None:
        """Enqueues the recipe's baseline as the next trial of `study`, unless it was tried or waits already.

        For a study of your own; one of `ragc.study` begins with it. Raises UsageError for a study that is not
        of this objective.
        """
        self._check(study)
        if not _has_baseline(study):
            _enqueue_baseline(study, self.task)

    def _check(self, study: optuna.Study) -> None:
        """Raises UsageError for a study with other directions, recipe or questions than this objective."""
        objectives, directions = self.task.objectives, study.directions
        if len(directions) != len(objectives):
            raise UsageError(
                f"The study has {_pluralize(len(directions), 'direction')} and the recipe "
                f"{_pluralize(len(objectives), 'objective')} ({', '.join(o.name for o in objectives)}); "
                f"make it with optuna.create_study(directions={['maximize'] * len(objectives)}), "
                "or with ragc.study."
            )
        if optuna.study.StudyDirection.MINIMIZE in directions:
            name = objectives[list(directions).index(optuna.study.StudyDirection.MINIMIZE)].name
            raise UsageError(
                f"The study minimizes {name}, and objectives of ragc are told so that more is better; make "
                'it with direction="maximize", or with ragc.study.'
            )
        attributes = study.user_attrs
        if PATH in attributes and attributes[PATH] != str(self.path):
            raise UsageError(
                f"The study is kept in {attributes[PATH]} and the objective in {self.path}; make both of "
                "the same recipe, with the same overrides and name."
            )
        mine = inputs_of(self.task)
        if RECIPE not in attributes:
            study.set_user_attr(RECIPE, digest(self.task.recipe.identity()))
            study.set_user_attr(INPUTS, mine)
            return
        if attributes[RECIPE] != digest(self.task.recipe.identity()):
            raise UsageError(
                f"The study {study.study_name!r} was begun with another recipe, or other overrides of it; "
                "undo the change, or give the study another name."
            )
        if changed := facts_differ(mine, attributes.get(INPUTS) or {}):
            raise UsageError(
                f"The {changed} of the recipe changed since the study {study.study_name!r} began, though the "
                "recipe did not; undo the change, or give the study another name."
            )

    def _trials_spent(self, trial: optuna.Trial, *, before: bool) -> str:
        """Returns why `budget.trials` allows no more trials, or with `before` not even this one; else "".

        The baseline does not count, nor do trials that failed or that a spent budget ended.
        """
        limit = self.task.recipe.budget.trials
        if limit is None or (before and trial.user_attrs.get(BASELINE)):
            return ""
        counted = [
            other
            for other in trial.study.get_trials(deepcopy=False, states=(*_DONE, TrialState.RUNNING))
            if not {BASELINE, SPENT} & other.user_attrs.keys()
            and (other.state is TrialState.RUNNING or CANDIDATE in other.user_attrs)
            and (other.number < trial.number or (other.number == trial.number and not before))
        ]
        spent = f"The budget of {_pluralize(limit, 'trial')} is spent; raise budget.trials to go on."
        return spent if len(counted) >= limit else ""

    def _amounts_spent(self) -> str:
        """Returns why no further request is allowed; "" if one is."""
        return str(self.task.budget.refusal(Spent(1, 1, 1), settled=True) or "")

    def _stop_and_prune(self, trial: optuna.Trial, reason: str) -> optuna.TrialPruned:
        """Stops the study because a budget is spent; returns the exception that ends `trial`."""
        trial.set_user_attr(SPENT, reason)
        self._stop(trial.study, reason)
        return optuna.TrialPruned(reason)

    def _stop(self, study: optuna.Study, reason: str) -> None:
        if not self._noted:
            self._noted = reason
            log.warning("%s", reason)
        with suppress(RuntimeError):  # whoever asks and tells by hand has no loop to stop
            study.stop()

    def candidate(self, trial: optuna.Trial | optuna.trial.FrozenTrial) -> Candidate:
        """Returns the candidate of a trial of this objective. Raises UsageError for another trial."""
        attribute = trial.user_attrs.get(CANDIDATE)
        if attribute is None:
            raise UsageError(f"Trial {trial.number} was not run by this objective, so it names no candidate.")
        return Candidate.of(attribute)

    def save(self, trial: optuna.Trial | optuna.trial.FrozenTrial, out: str | Path) -> CompiledProgram:
        """Writes the compiled program of a finished `trial` to the directory `out`.

        It records the dev scores, replayed; the test split is not used: `ragc eval` scores it.
        """
        refuse_foreign(Path(out))
        candidate = self.candidate(trial)
        program = event_loop.run(self._program(candidate))
        rows = event_loop.run(evaluate(program, self._order, self.task.scorer, limit=self._limit))
        dev = intervals_to_json(self.task.summarize([row.scores for row in rows], groups_of(rows)))
        provenance = {
            **self.task.facts,
            **contamination.question_facts(self.task),
            "dev": {"winner": dev},
            "failures": {"dev": {"winner": failures_of(rows).to_json()}},
            "verdict": "not measured",
            "search": {"candidate": candidate.to_json(), "optuna": trial.number},
        }
        text = self.task.recipe.to_toml()
        run = {"base": str(self.task.recipe.base.resolve())}
        compiled = CompiledProgram.of(program, provenance=provenance, recipe=text, run=run)
        compiled.save(Path(out), program)
        return compiled

    def _answer(self, candidate: Candidate, trial: optuna.Trial) -> list[Row]:
        program = event_loop.run(self._program(candidate))
        rows: list[Row] = []
        for end in stopping_points(len(self._order), group_sizes(self._order)):
            block = self._order[len(rows) : end]
            with event_loop.frozen_gc():
                rows += event_loop.run(evaluate(program, block, self.task.scorer, limit=self._limit))
            if len(self.task.objectives) == 1:
                trial.report(self._mean(rows, 0), step=end)
                if end < len(self._order) and trial.should_prune():
                    _count_failures(rows, trial)
                    raise optuna.TrialPruned
        return rows

    def _mean(self, rows: list[Row], index: int) -> float:
        objective = self.task.objectives[index]
        return sum(objective.of(row.scores) for row in rows) / len(rows)

    async def _program(self, candidate: Candidate) -> Any:
        if not self._opened:
            async with self._opening:  # one lock of the loop: a thread's would stop it while a target opens
                await self.task.runtime.open()
                self._opened = True
        return await self._builder.program(candidate)


def _count_failures(rows: list[Row], trial: optuna.Trial) -> Failures:
    """Returns the failures among `rows`, and stores them in the attributes of `trial` if there are any."""
    failures = failures_of(rows)
    if failures.n:
        trial.set_user_attr(FAILURES, failures.to_json())
    return failures


def _pluralize(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
