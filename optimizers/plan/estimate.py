"""The dry run: all inputs checked, nothing sent, and upper bounds on the cost of a compile.

    questions of each part of a compile x the most requests that one takes = requests at most
    requests at most x the longest a request can be = tokens at most, and dollars

A request that is retried after a failure counts once, because it is charged once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ragc.compiled.base import refuse_foreign
from ragc.compiled.contamination import Contamination, check_compile
from ragc.optimizers.candidates.space import search_space
from ragc.optimizers.candidates.thresholds.curve import POINTS
from ragc.optimizers.external.optimize import check_optimizer
from ragc.optimizers.plan.average import Average, average
from ragc.optimizers.plan.budget_share import BudgetShare, Work, budget_share
from ragc.optimizers.plan.call_bounds import REQUESTS, PartBound, judge_calls, longest_chain, part_bound
from ragc.optimizers.plan.cost import cost_bounds, likely_cost
from ragc.optimizers.plan.proposal_bounds import proposal_calls, round_bounds
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

UNBOUNDED_PEERS = {"mipro": "MIPROv2", "gepa": "GEPA"}
"""External optimizers that decide themselves how many instructions they propose and evaluate."""


@dataclass(frozen=True, slots=True)
class Phase:
    """One part of a compile: the number of questions it answers, and the most requests it sends.

    `requests` is infinite if no bound is known. `calls` assumes that all replies can be read; `about` assumes
    also that candidates take the average number of calls.
    """

    questions: int
    requests: float
    calls: float
    about: float

    def to_json(self, chain: int) -> dict[str, Any]:
        """Returns the phase in the output of a dry run; a request may be sent to as many as `chain`
        targets.
        """
        return {
            "questions": self.questions,
            "lm_calls": _whole(chain * self.requests),
            "lm_calls_about": _whole(self.about),
        }


class _Plan:
    """Adds up the phases of a compile of `task`."""

    def __init__(self, task: Task) -> None:
        self.task, self.recipe = task, task.recipe
        self.space = search_space(task.recipe, task.runtime)
        self.bounds = [part_bound(task, part) for part in self.space.parts]
        self.phases: dict[str, Phase] = {}
        self.baseline = self.bounds[0].baseline
        self.most = max(bound.most for bound in self.bounds)
        searched = not task.recipe.searches_nothing
        self.trials = task.trials if searched else 0
        drawn = average(task, self.space, self.trials) if searched else None
        self.average = drawn or Average(self.most, max(bound.fit for bound in self.bounds), self.trials)

    @classmethod
    def of(cls, task: Task) -> _Plan:
        """Returns all phases of a compile of `task`."""
        plan = cls(task)
        plan.search(task.recipe.search.optimizer)
        plan.test()
        plan.folds()
        return plan

    @property
    def questions(self) -> dict[str, int]:
        """The questions that are answered, by what they are for; some uses only where there are any."""
        totals = {"dev": 0, "demonstrations": 0, "test": 0}
        for name, phase in self.phases.items():
            use = "dev" if name in ("baseline", "trials", "winner") else name
            totals[use] = totals.get(use, 0) + phase.questions
        return totals

    def add(
        self,
        name: str,
        all_questions: Iterable[Question],
        times: int,
        calls: float,
        *,
        judged: bool | None = True,
        about: tuple[float, float] | None = None,
    ) -> None:
        """Adds a phase that answers `all_questions` `times` times, with at most `calls` typed calls a
        question.

        `judged` True: the answers are scored by all metrics; None: by the metric for demonstrations; False:
        by none. `about` are average times and calls, if they differ.
        """
        questions = tuple(all_questions)
        if not questions or not times:
            return
        metrics = None if judged else (self.task.demo_metric,)
        judging = 0.0 if judged is False else judge_calls(self.task, questions, metrics)
        total_calls = times * (calls * len(questions) + judging)
        often, mean = about or (times, calls)
        likely = min(total_calls, often * (mean * len(questions) + judging))
        self._put(name, Phase(len(questions) * times, REQUESTS * total_calls, total_calls, likely))

    def _put(self, name: str, phase: Phase) -> None:
        known = self.phases.get(name, Phase(0, 0, 0, 0))
        self.phases[name] = Phase(
            known.questions + phase.questions,
            known.requests + phase.requests,
            known.calls + phase.calls,
            known.about + phase.about,
        )

    def own(self) -> None:
        """Adds the phases of ragc's own study."""
        task, trials = self.task, self.trials
        self.add("baseline", task.dev, 1, self.baseline)
        self.add("trials", task.dev, trials, self.most, about=(trials, self.average.calls))
        if trials and task.recipe.search.demos:
            self._demonstrations()
        if task.recipe.search.instruction_rounds:
            if trials:
                self._rounds()
        elif task.recipe.search.instructions:
            for bound in self.bounds:
                self._instructions(bound)
        if trials and task.recipe.search.calibrate:
            for part, bound in zip(self.space.parts, self.bounds, strict=True):
                thresholds = sum(knob.threshold for knob in part.knobs)
                often = thresholds * (2 + POINTS)
                mean = min(bound.most, self.average.calls)
                self.add("calibration", task.dev, often, bound.most, about=(thresholds * 2, mean))
                self._fit(bound, often, about=thresholds * 2)
        self._fit(self.bounds[0], 1)
        if trials:
            dearest = max(self.bounds, key=lambda bound: bound.fit)
            share = self.average.fit / dearest.fit if dearest.fit else 0
            self._fit(dearest, trials, about=trials * share)

    def _fit(self, bound: PartBound, programs: int, *, about: float | None = None) -> None:
        """Adds the learning of `programs` candidates from the train questions; `about` is the expected
        number.
        """
        if bound.fit:
            calls = bound.fit
            judging = judge_calls(self.task, self.task.train, (self.task.demo_metric,)) * calls
            each = calls * len(self.task.train) + judging
            total_calls, likely = programs * each, (programs if about is None else about) * each
            self._put(
                "learning",
                Phase(programs * len(self.task.train), REQUESTS * total_calls, total_calls, likely),
            )

    def _demonstrations(self) -> None:
        """Adds the most expensive demonstration pools that as many trials can need."""
        task = self.task
        kinds = set(task.recipe.search.demo_kinds)
        sets = [(task.train, bool(kinds - {CROSS}))]
        sets.append((task.other.questions if task.other else (), CROSS in kinds))
        demonstrations = sorted(
            (
                (calls * (1 + bound.taught), calls, bound.taught, questions)
                for bound in self.bounds
                for calls in bound.pools
                for questions, used in sets
                if used
            ),
            key=lambda phase: phase[0] * len(phase[3]),
            reverse=True,
        )
        for rank, (_, calls, taught, questions) in enumerate(demonstrations[: self.trials]):
            likely = rank < self.average.collections
            self.add("demonstrations", questions, 1, calls, judged=None, about=(likely, calls))
            if taught:  # mostly replays of the first answer
                self.add("demonstrations", questions, 1, calls, judged=False, about=(0, calls))

    def _rounds(self) -> None:
        """Adds the rounds of evolving instructions: train questions that parents answer, and the teacher."""
        search = self.recipe.search
        children = search.instruction_rounds * search.instructions
        questions, teacher = round_bounds(self.task, children)
        judging = judge_calls(self.task, self.task.train) / max(1, len(self.task.train))
        calls, mean = questions * (self.most + judging), questions * (self.average.calls + judging)
        self._put(
            "instructions", Phase(questions, REQUESTS * calls + teacher, calls + teacher, mean + teacher)
        )

    def _instructions(self, bound: PartBound) -> None:
        from ragc.optimizers.candidates.instructions.propose import MAX_TRAIN_READ

        read = self.task.train[:MAX_TRAIN_READ]
        self.add("instructions", read, 1, bound.baseline)
        self.add("instructions", read, 1, bound.baseline, judged=False)  # with the gold answers
        calls, requests = proposal_calls(
            self.task.recipe.search.instructions + 1, bound.predictors, len(read), self.task
        )
        self._put("instructions", Phase(0, requests, calls, calls))

    def external(self, name: str) -> None:
        """Adds the phases of the external optimizer `name`."""
        task, trials = self.task, self.task.trials
        self.add("baseline", task.dev, 2, self.baseline)  # as ragc builds it, and as the optimizer begins
        self._fit(self.bounds[0], 2)
        if name == "random":
            self.add("trials", task.dev, max(2, trials + 1), self.baseline)
            self.add("demonstrations", task.train, max(1, trials - 1), self.baseline)
        else:
            self._put("trials", Phase(0, math.inf, math.inf, math.inf))
        self.add("winner", task.dev, 1, self.bounds[0].most, about=(1, self.average.calls))
        self._fit(self.bounds[0], 1)

    def search(self, optimizer: str) -> None:
        """Adds the phases of a search by `optimizer`."""
        if optimizer == OWN_OPTIMIZER:
            self.own()
        else:
            self.external(optimizer)

    def test(self) -> None:
        """Adds the test questions, answered by the baseline, and by the winner or the front."""
        chosen = self.task.tested - 1
        self.add("test", self.task.test, 1, self.baseline)
        self.add("test", self.task.test, chosen, self.most, about=(chosen, self.average.calls))

    def folds(self) -> None:
        """Adds the searches without each fold, and the answers of baseline and winner to its questions.

        At most nothing is replayed; about `NEW_ANSWERS` of what these searches ask is new.
        """
        for task, questions in fold_tasks(self.task):
            own = _Plan(task)
            own.search(task.recipe.search.optimizer)
            for phase in own.phases.values():
                self._put("folds", replace(phase, about=NEW_ANSWERS * phase.about))
            self.add("folds", questions, 1, self.baseline)
            self.add("folds", questions, 1, self.most, about=(1, self.average.calls))

    def budget_pays(self, each: Mapping[str, float]) -> BudgetShare | None:
        """Returns what the budget pays for if an LM call takes `each`: tokens, dollars."""
        calls = sum(phase.about for phase in self.phases.values())
        if not calls or math.isinf(calls):
            return None

        def part(*names: str) -> float:
            return sum(self.phases[name].about for name in names if name in self.phases) / calls

        costs = {"lm_calls": calls, **{what: calls * amount for what, amount in each.items()}}
        work = Work(part("baseline", "test"), part("demonstrations", "instructions"))
        spares = self._spares(each)
        return budget_share(self.recipe.budget, costs, work=work, trials=self.trials, spares=spares)

    def _spares(self, each: Mapping[str, float]) -> dict[str, float]:
        """Returns the part of each limit that stays unspent, as requests reserve more than they cost."""
        budget = self.recipe.budget
        if budget.tokens is None and budget.usd is None:
            return {}
        ends = 2 if self.task.test else 1  # the last call of the search, and that on test
        return {what: ends * SPARE_CALLS * amount for what, amount in each.items()}

    @property
    def open_ends(self) -> list[str]:
        """Returns the reasons why no bound is known, a clause each; empty if there is a bound."""
        reasons = list[str]()
        if peer := UNBOUNDED_PEERS.get(self.recipe.search.optimizer):
            reasons.append(f"{peer} decides itself how much it asks")
        if math.isinf(judge_calls(self.task, (*self.task.dev, *self.task.test)[:1])):
            reasons.append("the judge of citations is asked as often as an answer has sentences")
        return reasons


def budget_pays(task: Task, each: Mapping[str, float]) -> BudgetShare | None:
    """Returns what the budget of `task` pays for if an LM call takes `each`: tokens, dollars.

    Amounts may be missing. None without a limit, and where no bound on the calls is known.
    """
    return _Plan.of(task).budget_pays(each)


def estimate(recipe: Recipe, out: str | Path | None = None, *, include_seen: bool = False) -> dict[str, Any]:
    """Returns upper bounds on the cost of compiling `recipe`, in total and by phase, and the sizes they come
    from.

    `lm_calls` are LM requests over the whole search space: every program, range, role, demonstration and
    instruction, and a retry for every unreadable reply. It is None, and `bounded` False, if neither a bound
    is known nor the budget has one. `lm_calls_readable` assumes that every reply can be read.
    `lm_calls_about` assumes also that candidates take the average number of calls and that none is stopped;
    replay and programs that end early make the real number smaller still. `tokens` and `usd` are upper
    bounds; `tokens_about` and `usd_about` are estimates for `lm_calls_about`. Each is None if
    unknown. `budget_pays` says what share of the study the budget pays for; None without a budget. Raises as
    a compile to `out` does before it sends anything; without `out` the output directory is not checked.
    """
    task, contamination = _checked_task(recipe, out, include_seen=include_seen)
    plan = _Plan.of(task)
    chain = longest_chain(task)
    requests = chain * sum(phase.requests for phase in plan.phases.values())
    readable = sum(phase.calls for phase in plan.phases.values())
    about = sum(phase.about for phase in plan.phases.values())
    limit = recipe.budget.lm_calls
    most = requests if limit is None else min(requests, limit)
    reply = max(bound.reply for bound in plan.bounds)
    prompt = prompt_tokens(task.baseline_knobs, recipe.search.demos)
    costs = cost_bounds(task, most, min(about, most), prompt, reply)
    likely = likely_cost(task, prompt, reply)
    amounts = {"tokens": likely.tokens, "usd": likely.usd}
    paid = plan.budget_pays({what: amount for what, amount in amounts.items() if amount is not None})
    return {
        "program": recipe.program,
        "programs": [bound.program for bound in plan.bounds],
        "trials": plan.trials if recipe.search.optimizer == OWN_OPTIMIZER else task.trials,
        "folds": len(task.folds),
        "questions": plan.questions,
        "bounded": math.isfinite(most),
        "unbounded_because": plan.open_ends if math.isinf(requests) else [],
        "lm_calls": _whole(most),
        "lm_calls_readable": _whole(min(readable, most)),
        "lm_calls_about": _whole(min(about, most)),
        **costs,
        "phases": {name: phase.to_json(chain) for name, phase in plan.phases.items()},
        "budget": recipe.budget.model_dump(exclude_none=True),
        "budget_pays": None if paid is None else {**paid.to_json(), "text": paid.text},
        "data": {name: len(held) for name, held in task.splits.items()},
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


def _whole(number: float) -> int | None:
    return int(number) if math.isfinite(number) else None
