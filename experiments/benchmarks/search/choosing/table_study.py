"""ragc's own study on a table of scores: the real `Study`, with a runner that looks answers up.

Everything but the answers is what `ragc.compile` uses: the space and its sampler, the order and number of dev
questions, looks, the model, the budget in LM calls (one an answer) and the choice. No language model runs.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, make_dataclass, replace
from functools import cached_property
from math import prod
from pathlib import Path

from pydantic import PrivateAttr

from experiments.benchmarks.search.choosing.worlds import Pick, World
from ragc import recipe as recipes
from ragc.core.progress import Silent
from ragc.errors import BudgetExhausted
from ragc.metrics.base import Scorer
from ragc.optimizers.candidates.dev_order import shuffle_dev
from ragc.optimizers.candidates.space import Candidate, SearchSpace
from ragc.optimizers.candidates.trial import TrialResult, result_of
from ragc.optimizers.search.selection import expected_of_choice, select
from ragc.optimizers.search.study import Study
from ragc.programs import method
from ragc.programs.knobs import AnswerKnobs, choice, integer
from ragc.programs.method import Method
from ragc.programs.runtime import Runtime
from ragc.recipe import Recipe
from ragc.records import Question
from ragc.store.calls import CallStore
from ragc.task.answering import Row
from ragc.task.base import Task, objective_of
from ragc.task.budget import BudgetFile, Spent
from ragc.testing import ScriptedTarget

METRIC = "f1"

RECIPE = """
program = "no_retrieval"
seed = {seed}
[search]
trials = {trials}
objectives = ["{metric}"]
{more}
[budget]
lm_calls = {budget}
[targets.main]
kind = "embedded"
[metrics]
report = ["{metric}"]
"""


class TableRecipe(Recipe):
    """A recipe whose program has a knob for each column of a table."""

    _table_method: Method | None = PrivateAttr(default=None)

    def on(self, chosen: Method) -> TableRecipe:
        """Returns the recipe with the program of a table."""
        moved = self.model_copy()
        moved._table_method = chosen
        return moved

    @property
    def method(self) -> Method:
        """The program of the table."""
        return self._table_method or super().method


@dataclass(frozen=True)
class TableTask(Task):
    """The task of a table. A setting that is not in the table becomes the nearest that is."""

    table: World | None = None

    @cached_property
    def world(self) -> World:
        """The table."""
        if self.table is None:
            raise ValueError("A task of a table needs one.")
        return self.table

    def method_of(self, program: str) -> Method:
        """The same for every candidate."""
        return self.recipe.method

    def setting_of(self, candidate: Candidate) -> int:
        """The number of the setting that `candidate` is, or the nearest one."""
        return self.world.nearest(codes_of(self.world, candidate))


def method_of(world: World) -> Method:
    """A program with a knob for each column of `world`, whose defaults are the baseline."""
    base, columns = world.settings[world.baseline], []
    for index, (name, options) in enumerate(world.columns.items()):
        whole = all(type(option) is int for option in options)
        if whole and options == list(range(options[0], options[-1] + 1)):
            columns.append((f"column{index}", int, integer(base[name], options[0], options[-1], name)))
        else:
            columns.append((f"column{index}", type(options[0]), choice(base[name], tuple(options), name)))
    knobs = make_dataclass("TableKnobs", columns, bases=(AnswerKnobs,), frozen=True)
    return replace(method("no_retrieval"), knobs=knobs)


def within(space: SearchSpace, world: World) -> SearchSpace:
    """`space`, or where not all combinations are settings of `world`, one of these alone."""
    if len({tuple(row) for row in world.codes}) == prod(map(len, world.columns.values())):
        return space
    return PoolSpace(space.parts, space.targets, world=world)


@dataclass(frozen=True, slots=True)
class PoolSpace(SearchSpace):
    """A space of which only the settings of `world` can be tried: a proposal becomes the nearest of them."""

    world: World | None = None

    def written(self, candidate: Candidate) -> Candidate:
        """The nearest candidate that is in the pool."""
        if self.world is None:
            return candidate
        setting = self.world.settings[self.world.nearest(codes_of(self.world, candidate))]
        values = {f"column{index}": setting[name] for index, name in enumerate(self.world.columns)}
        return replace(candidate, knobs={**candidate.knobs, **values})


def codes_of(world: World, candidate: Candidate) -> list[int]:
    """The numbers of the values of `candidate`, a column each."""
    return [
        next(i for i, option in enumerate(options) if repr(option) == repr(candidate.knobs[f"column{index}"]))
        for index, options in enumerate(world.columns.values())
    ]


class TableRunner:
    """Answers trials from the table of `task`. An answer costs one LM call of the budget the first time."""

    concurrency = 64

    def __init__(self, task: TableTask, budget: TableBudget) -> None:
        self._task, self._budget = task, budget
        positions = {question.id: at for at, question in enumerate(task.dev)}
        self._order = [(question, positions[question.id]) for question in shuffle_dev(task)]

    async def run(
        self,
        number: int,
        candidate: Candidate,
        rivals: Sequence[TrialResult],
        span: tuple[int, int] | None = None,
    ) -> TrialResult:
        """See `ragc.optimizers.search.run_trial.Runner`."""
        setting, world = self._task.setting_of(candidate), self._task.world
        order = self._order[slice(*span)] if span else self._order
        self._budget.charge(setting, [at for _, at in order])
        rows = [
            Row(question, "", (), {METRIC: float(world.scores[setting, at])}, {"lm_calls": 1})
            for question, at in order
        ]
        return result_of(number, candidate, rows, self._task.objectives, None)


class TableBudget(BudgetFile):
    """The budget of a study on `world`, in answers."""

    def __init__(self, world: World, budget: recipes.Budget) -> None:
        super().__init__(None, budget)
        self._world = world

    def charge(self, setting: int, questions: Sequence[int]) -> None:
        """Charges the answers of `setting` to `questions` that were not asked before.

        Raises BudgetExhausted where the budget does not pay for all of them.
        """
        paid = len(self._world.answer(setting, questions))
        if paid < len(questions):
            raise BudgetExhausted(f"The budget of {self.limits.lm_calls} LM calls is spent.")

    @property
    def spent(self) -> Spent:
        """The answers so far."""
        return Spent(int(self._world.seen.sum()))


def table_task(world: World, seed: int, folder: Path, more: str = "") -> TableTask:
    """The task of a study on `world` with `seed`; `more` are further lines of `[search]`."""
    text = RECIPE.format(
        seed=seed, trials=len(world.settings) - 1 or 1, budget=world.budget, metric=METRIC, more=more
    )
    parsed = recipes.parse(text, where="the bench", base=folder)
    columns = tuple(f"column{index}" for index in range(len(world.columns)))
    values = dict(parsed)
    values["search"] = parsed.search.replace(knobs=columns)
    recipe = TableRecipe(**values).at(folder).on(method_of(world))
    budget = TableBudget(world, recipe.budget)
    runtime = Runtime({"main": ScriptedTarget([])}, store=CallStore(None), budget=budget)
    dev = tuple(Question(f"q{at}", f"Question {at}?", ("yes",)) for at in range(world.shape[1]))
    objective = objective_of(METRIC)
    return TableTask(
        recipe, runtime, budget, {"dev": dev}, Scorer((objective.metric,), {}), (objective,), table=world
    )


async def _studied(task: TableTask, folder: Path) -> Study:
    """The study of `task` after its search."""
    study, budget = Study(task, folder, asyncio.Semaphore(1), Silent()), task.budget
    if not isinstance(budget, TableBudget):
        raise TypeError("A study on a table has its budget.")
    study.builder.space = within(study.builder.space, task.world)
    study.runner = TableRunner(task, budget)
    await study.baseline()
    await study.search(0)
    return study


def study_picks(world: World, seed: int, risks: Sequence[float], more: str = "") -> dict[str, Pick]:
    """What a study of ragc chooses, by the risk that it may take, with `more` lines of `[search]`.

    The default risk is that of the study; the others choose again from its answers. The baseline where the
    budget does not pay for its dev questions.
    """
    with tempfile.TemporaryDirectory() as name:
        task = table_task(world, seed, Path(name), more)
        try:
            study = asyncio.run(_studied(task, Path(name)))
        except BudgetExhausted:
            pick = Pick(world.baseline, world.mean(world.baseline))
            return {f"{risk:g}": pick for risk in risks}
        trials, picks = study.trials, {}
        for risk in risks:
            rule = replace(task.rule, risk=risk)
            chosen = select(trials, rule)
            expected = expected_of_choice(trials, rule, chosen)
            picks[f"{risk:g}"] = Pick(task.setting_of(chosen.candidate), expected.value)
    return picks
