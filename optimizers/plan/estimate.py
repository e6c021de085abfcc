"""The dry run: all inputs checked, nothing sent, and estimates of what a compile takes.

    questions of each part of a compile x the LM calls that one takes in a rehearsal = LM calls, about
    LM calls x the likely length of a request = tokens, about, and dollars

No bound is computed: the budget is the bound. Repairs, retries and fallbacks are not counted, and neither are
trials that are stopped.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragc.compiled.base import refuse_foreign
from ragc.compiled.contamination import Contamination, check_compile
from ragc.optimizers.candidates.space import search_space
from ragc.optimizers.external.optimize import check_optimizer
from ragc.optimizers.plan.average import (
    Average,
    average,
    candidate_calls,
    candidate_fit,
    judge_calls,
    pool_setting,
)
from ragc.optimizers.plan.budget_share import BudgetShare, Work, budget_share
from ragc.optimizers.plan.cost import cost_about, likely_cost
from ragc.recipe import Recipe
from ragc.recipe.values import CROSS, OWN_OPTIMIZER
from ragc.records import Question
from ragc.store.calls import CallStore
from ragc.targets.reasoning import reasoning_of
from ragc.task.base import Task, prepare
from ragc.task.budget import SPARE_CALLS
from ragc.task.folds import NEW_ANSWERS, fold_tasks
from ragc.task.prompt_size import prompt_tokens
from ragc.task.prompts import check_programs
from ragc.task.requirements import require

OTHERS = {"mipro": "MIPROv2", "gepa": "GEPA"}
"""External optimizers that decide themselves how many instructions they propose and evaluate."""

THRESHOLD_VALUES = 2
"""Values of a threshold that tuning tries on all dev questions, about."""

CALLS_PER_PROPOSAL = 3
"""Typed calls of one proposal: the purpose of the program, the purpose of the call, the instructions."""


@dataclass(frozen=True, slots=True)
class Phase:
    """One part of a compile: the questions it answers, and about how many LM calls; infinite if unknown."""

    questions: int = 0
    calls: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Returns the phase in the output of a dry run."""
        return {"questions": self.questions, "lm_calls_about": _finite(self.calls)}


class _Plan:
    """Adds up the phases of a compile of `task`."""

    def __init__(self, task: Task) -> None:
        self.task, self.search = task, task.recipe.search
        self.space = search_space(task.recipe, task.runtime)
        self.phases: dict[str, Phase] = {}
        first = self.space.baseline()
        self.baseline, self.fit = candidate_calls(task, first), candidate_fit(task, first)
        self.trials = 0 if task.recipe.searches_nothing else task.trials
        drawn = average(task, self.space) if self.trials else None
        self.average = drawn or Average(self.baseline, self.fit, 1.0)

    @classmethod
    def of(cls, task: Task) -> _Plan:
        """Returns all phases of a compile of `task`."""
        plan = cls(task)
        if plan.search.optimizer == OWN_OPTIMIZER:
            plan.own()
        else:
            plan.external(plan.search.optimizer)
        plan.add("test", task.test, 1, plan.baseline)
        plan.add("test", task.test, task.tested - 1, plan.average.calls)
        plan.folds()
        return plan

    @property
    def calls(self) -> float:
        """The LM calls of all phases."""
        return sum(phase.calls for phase in self.phases.values())

    @property
    def questions(self) -> dict[str, int]:
        """The questions that are answered, by what they are for; some uses only where there are any."""
        totals = {"dev": 0, "demonstrations": 0, "test": 0}
        for name, phase in self.phases.items():
            use = "dev" if name in ("baseline", "trials", "winner") else name
            totals[use] = totals.get(use, 0) + phase.questions
        return totals

    def put(self, name: str, questions: int, calls: float) -> None:
        """Adds to the phase `name`."""
        known = self.phases.get(name, Phase())
        self.phases[name] = Phase(known.questions + questions, known.calls + calls)

    def add(
        self, name: str, questions: Iterable[Question], times: float, calls: float, *, dev: bool = True
    ) -> None:
        """Adds a phase that answers `questions` so many `times`, with `calls` LM calls each.

        The answers are scored by all metrics, or without `dev` by the metric for demonstrations.
        """
        answered = tuple(questions)
        if answered and times:
            judging = judge_calls(self.task, answered, None if dev else (self.task.demo_metric,))
            self.put(name, round(len(answered) * times), times * (calls * len(answered) + judging))

    def learn(self, programs: float, calls: float) -> None:
        """Adds the learning of `programs` candidates from the train questions."""
        if calls and programs:
            self.add("learning", self.task.train, programs, calls, dev=False)

    def own(self) -> None:
        """Adds the phases of ragc's own study."""
        task, trials, mean = self.task, self.trials, self.average
        self.add("baseline", task.dev, 1, self.baseline)
        self.add("trials", task.dev, trials, mean.calls)
        if trials and self.search.demos:
            self._demonstrations()
        if self.search.instruction_rounds:
            self._rounds()
        elif self.search.instructions:
            self._instructions()
        thresholds = sum(knob.threshold for part in self.space.parts for knob in part.knobs)
        tuned = THRESHOLD_VALUES * thresholds if trials and self.search.calibrate else 0
        self.add("calibration", task.dev, tuned, mean.calls)
        self.learn(1, self.fit)
        self.learn(trials + tuned, mean.fit)

    def _demonstrations(self) -> None:
        """Adds the demonstration pools that the trials need: a share of them have one of their own."""
        task, space = self.task, self.space
        pools = max(1.0, self.trials * self.average.pools)
        calls = candidate_calls(task, pool_setting(task, space, space.first.baseline_with_demos()))
        kinds = set(self.search.demo_kinds)
        crossed = len(kinds & {CROSS}) / len(kinds)
        self.add("demonstrations", task.train, pools * (1 - crossed), calls, dev=False)
        self.add(
            "demonstrations", task.other.questions if task.other else (), pools * crossed, calls, dev=False
        )

    def _rounds(self) -> None:
        """Adds the rounds of evolving instructions: train questions that parents answer, and the teacher."""
        from ragc.optimizers.candidates.instructions.rounds import ANSWERS_PER_REFLECTION, STEPS

        if self.trials:
            steps = self.search.instruction_rounds * self.search.instructions * STEPS
            self.put("instructions", 0, steps)
            self.add("instructions", self.task.train[:ANSWERS_PER_REFLECTION], steps, self.average.calls)

    def _instructions(self) -> None:
        """Adds the instructions proposed at first: train questions that are read, and the teacher."""
        from ragc.optimizers.candidates.instructions.propose import MAX_TRAIN_READ

        for part in self.space.parts:
            program = self.task.method_of(part.program).build(self.task.runtime, part.baseline().knobs)
            proposals = len(program.predictors()) * self.search.instructions
            self.put("instructions", 0, CALLS_PER_PROPOSAL * proposals)
            self.add("instructions", self.task.train[:MAX_TRAIN_READ], 1, self.baseline)

    def external(self, name: str) -> None:
        """Adds the phases of the external optimizer `name`."""
        task, trials = self.task, self.task.trials
        self.add("baseline", task.dev, 2, self.baseline)  # as ragc builds it, and as the optimizer begins
        if name == "random":
            self.add("trials", task.dev, max(2, trials + 1), self.baseline)
            self.add("demonstrations", task.train, max(1, trials - 1), self.baseline)
        else:
            self.put("trials", 0, math.inf)
        self.add("winner", task.dev, 1, self.average.calls)
        self.learn(3, self.fit)

    def folds(self) -> None:
        """Adds the searches without each fold, and the answers of baseline and winner to its questions.

        About `NEW_ANSWERS` of what these searches ask is new.
        """
        for task, questions in fold_tasks(self.task):
            for phase in _Plan.of(task).phases.values():
                self.put("folds", phase.questions, NEW_ANSWERS * phase.calls)
            self.add("folds", questions, 1, self.baseline)
            self.add("folds", questions, 1, self.average.calls)

    def budget_pays(self, each: Mapping[str, float]) -> BudgetShare | None:
        """Returns what the budget pays for if an LM call takes `each`: tokens, dollars."""
        calls, budget = self.calls, self.task.recipe.budget
        if not calls or math.isinf(calls):
            return None

        def part(*names: str) -> float:
            return sum(self.phases[name].calls for name in names if name in self.phases) / calls

        costs = {"lm_calls": calls, **{what: calls * amount for what, amount in each.items()}}
        work = Work(part("baseline", "test"), part("demonstrations", "instructions"))
        ends = 2 if self.task.test else 1  # the last call of the search, and that on test
        spares = {what: ends * SPARE_CALLS * amount for what, amount in each.items()}
        if budget.tokens is None and budget.usd is None:
            spares = {}
        return budget_share(budget, costs, work=work, trials=self.trials, spares=spares)

    @property
    def unknown(self) -> list[str]:
        """Returns the reasons why the calls are unknown, a clause each."""
        reasons = list[str]()
        if peer := OTHERS.get(self.search.optimizer):
            reasons.append(f"{peer} decides itself how much it asks")
        if math.isinf(judge_calls(self.task, (*self.task.dev, *self.task.test)[:1])):
            reasons.append("the judge of citations is asked as often as an answer has sentences")
        return reasons


def budget_pays(task: Task, each: Mapping[str, float]) -> BudgetShare | None:
    """Returns what the budget of `task` pays for if an LM call takes `each`: tokens, dollars.

    Amounts may be missing. None without a limit, and where the calls are unknown. Off the process's loop.
    """
    return _Plan.of(task).budget_pays(each)


def estimate(recipe: Recipe, out: str | Path | None = None, *, include_seen: bool = False) -> dict[str, Any]:
    """Returns estimates of the cost of compiling `recipe`, in total and by phase, and the sizes behind them.

    `lm_calls_about` assumes that every reply can be read, that candidates take the average number of calls
    and that none is stopped; replay makes the real number smaller. It is at most the budget's. `tokens_about`
    and `usd_about` are for these calls. Each is None if unknown, and `unknown_because` says why.
    `budget_pays` says what share of the study the budget pays for; None without a budget. Raises as a compile
    to `out` does before it sends anything; without `out` the output directory is not checked.
    """
    task, contamination = _checked_task(recipe, out, include_seen=include_seen)
    plan = _Plan.of(task)
    limit = recipe.budget.lm_calls
    calls = plan.calls if limit is None else min(plan.calls, limit)
    programs = [
        task.method_of(part.program).build(task.runtime, part.baseline().knobs) for part in plan.space.parts
    ]
    calls_sent = (call for program in programs for _, call in program.named_calls())
    reply = max((call.sampling.max_tokens for call in calls_sent), default=0)
    prompt = prompt_tokens(task.baseline_knobs, recipe.search.demos)
    likely = likely_cost(task, prompt, reply)
    amounts = {"tokens": likely.tokens, "usd": likely.usd}
    paid = plan.budget_pays({what: amount for what, amount in amounts.items() if amount is not None})
    return {
        "program": recipe.program,
        "programs": [program.method.id for program in programs],
        "trials": plan.trials if recipe.search.optimizer == OWN_OPTIMIZER else task.trials,
        "folds": len(task.folds),
        "questions": plan.questions,
        "unknown_because": plan.unknown if math.isinf(plan.calls) else [],
        "lm_calls_about": _finite(calls),
        **cost_about(task, calls, prompt, reply),
        "phases": {name: phase.to_json() for name, phase in plan.phases.items()},
        "budget": recipe.budget.model_dump(exclude_none=True),
        "budget_pays": None if paid is None else {**paid.to_json(), "text": paid.text},
        "data": {name: len(questions) for name, questions in task.splits.items()},
        "note": " ".join(filter(None, [task.note, *contamination.sentences])),
        "targets": {role: target.name for role, target in task.runtime.targets.items()},
        "thinking_tokens": {
            role: tokens for role, target in task.runtime.targets.items() if (tokens := reasoning_of(target))
        },
    }


def _checked_task(
    recipe: Recipe, out: str | Path | None, *, include_seen: bool
) -> tuple[Task, Contamination]:
    """Returns the task of a compile to `out`, with everything checked that a compile checks before it
    sends.
    """
    if out is not None:
        refuse_foreign(Path(out))
    require(recipe)
    task, contamination = check_compile(
        prepare(recipe, store=CallStore(None)), None, include_seen=include_seen
    )
    check_programs(task)
    check_optimizer(task)
    return task, contamination


def _finite(number: float) -> int | None:
    return round(number) if math.isfinite(number) else None
