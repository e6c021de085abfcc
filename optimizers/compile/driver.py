"""The search on the dev questions, by ragc's own study or by an external optimizer.

Both kinds of search have the methods `baseline`, `search` and `select`. `ragc.optimizers.compile` calls them
in this order.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ragc.core.display import quantity
from ragc.core.progress import Progress
from ragc.errors import BudgetExhausted, NothingAnswered
from ragc.metrics.base import Objective, Scores
from ragc.metrics.failures import Failures
from ragc.optimizers.candidates.builder import ProgramBuilder
from ragc.optimizers.candidates.dev_order import shuffle_dev
from ragc.optimizers.candidates.eligible import is_outdone
from ragc.optimizers.candidates.trial import TrialResult
from ragc.optimizers.distributed.runner import on_workers
from ragc.optimizers.search.portfolio import (
    BASELINE,
    Meeting,
    Part,
    failed,
    ledger_of,
    part_facts,
    run_portfolio,
)
from ragc.optimizers.search.portfolio import Outcome as PartOutcome
from ragc.optimizers.search.selection import best, expected_of_choice, pareto_front, select
from ragc.optimizers.search.storage import InMemoryAttributes
from ragc.optimizers.search.study import Study
from ragc.programs.base import RagProgram
from ragc.recipe import Budget
from ragc.recipe.values import OWN_OPTIMIZER
from ragc.task.answering import Row, evaluate, failures_of
from ragc.task.base import Task
from ragc.task.space import Candidate

if TYPE_CHECKING:
    from ragc.optimizers.external.optimize import ExternalResult


@dataclass(frozen=True, slots=True)
class Baseline:
    """The recipe's program, scored on the dev questions in the order of the search.

    All of them, or those that the budget allows (`allocation.affordable_questions`). `lm_calls` is the mean
    number of LM calls a question, replayed calls included.
    """

    scores: Sequence[Scores]
    failures: Failures
    lm_calls: float

    def calls_on(self, questions: int) -> int:
        """The expected LM calls of two such programs on `questions` questions."""
        return round(2 * self.lm_calls * questions)


@dataclass(frozen=True, slots=True)
class Searched:
    """The result of a search. `budget` is the message of the budget that ended it, "" for none.

    `trials` are the trials of ragc's own study, the baseline first. `external` is the result of an external
    optimizer.
    """

    trials: tuple[TrialResult, ...] = ()
    budget: str = ""
    external: ExternalResult | None = None


@dataclass(frozen=True, slots=True)
class Selected:
    """The baseline program and the program that is compiled.

    `dev` has the scores of both on the dev questions that they answered and `failures` their unanswered
    questions, by "baseline" and "winner". `facts` are the search facts for provenance, `costs` the counters
    of each part of the search, and `trials` all trials as JSON values. `led` is a clause about a trial with a
    higher mean on dev than the baseline, where that is chosen nevertheless; "" if there is none.
    """

    baseline: RagProgram
    best: RagProgram
    dev: Mapping[str, Sequence[Scores]]
    facts: Mapping[str, Any]
    costs: Sequence[Mapping[str, float]]
    trials: Sequence[Mapping[str, Any]] = field(default_factory=tuple)
    failures: Mapping[str, Failures] = field(default_factory=dict)
    led: str = ""


class DevSearch(Protocol):
    """A search on the dev questions of `task`. Its methods are called once each, in this order."""

    task: Task

    async def baseline(self) -> Baseline:
        """Answers the dev questions with the recipe's program. Raises BudgetExhausted."""
        ...

    async def search(self, reserved: int) -> Searched:
        """Tries candidates until the trials or the budget are spent.

        `reserved` LM calls of the budget are held back for the test questions.
        """
        ...

    async def select(self, searched: Searched) -> Selected:
        """Selects the program to compile. Raises NothingAnswered if no program answered any dev question."""
        ...


@asynccontextmanager
async def open_search(
    task: Task, directory: Path, limit: asyncio.Semaphore, progress: Progress
) -> AsyncIterator[DevSearch]:
    """Opens the search of the recipe's optimizer. A study in `directory` is resumed; its workers run until
    exit.

    `limit` bounds the questions in flight.
    """
    if not isinstance(task.recipe.search.optimizer, str):
        yield PortfolioSearch(task, directory, limit, progress)
        return
    if task.recipe.search.optimizer != OWN_OPTIMIZER:
        yield ExternalSearch(task, limit, progress)
        return
    study = Study(task, directory, limit, progress)
    async with on_workers(task, directory, progress) as runner:
        study.runner = runner or study.runner
        yield StudySearch(study)


class StudySearch:
    """The search by ragc's own study."""

    def __init__(self, study: Study) -> None:
        self.task, self._study = study.task, study

    async def baseline(self) -> Baseline:
        """Runs the first trial, unless the study has it already."""
        trial = await self._study.baseline()
        calls = trial.counters["lm_calls"] / max(1, len(trial.scores))
        return Baseline(trial.scores, trial.failures, calls)

    async def search(self, reserved: int) -> Searched:
        """Runs trials until the trials or the budget are spent."""
        await self._study.search(reserved)
        self.task.ledger.hold(0)
        return Searched(tuple(self._study.trials), self._study.spent)

    async def select(self, searched: Searched) -> Selected:
        """Selects the trial with the greatest expected score, on the Pareto front if there are several
        objectives.
        """
        task, study, trials = self.task, self._study, searched.trials
        chosen = study.select(trials, searched.budget)
        if chosen.failures.all:
            raise no_answer_error(chosen.failures, len(trials), task)
        first = trials[0]
        expected = expected_of_choice(trials, task.objectives, task.pick, chosen, risk=task.risk)
        facts: dict[str, Any] = {
            "candidate": chosen.candidate.to_json(),
            "expected": {task.pick.metric.id: expected.to_json(task.pick.sign)},
            "trials": len(trials) - 1,
            "stopped": sum(not trial.complete for trial in trials),
            "budget": searched.budget,
        }
        remarks = [study.cut] if study.cut else []
        if calibrated := study.calibrating.facts():
            facts["calibration"] = calibrated
            remarks += _fitted_remarks(calibrated, chosen.candidate, task.recipe.program)
        if remarks:
            facts["remarks"] = remarks
        if scores := await study.builder.demo_scores(chosen.candidate):
            facts["demonstrations"] = scores
        if len(task.objectives) > 1:
            facts["front"] = [_on_front(task, trial) for trial in pareto_front(trials, task.objectives)]
        return Selected(
            await study.builder.program(first.candidate),
            await study.builder.program(chosen.candidate),
            {"baseline": first.scores, "winner": chosen.scores},
            facts,
            [*(trial.counters for trial in trials), *study.builder.costs(), *study.calibrating.costs()],
            [trial.to_json() for trial in trials],
            {"baseline": first.failures, "winner": chosen.failures},
            "" if len(task.objectives) > 1 else _what_led(trials, task.pick),
        )


def _what_led(trials: Sequence[TrialResult], objective: Objective) -> str:
    """A clause about the trial that led the baseline, the first of `trials`, by its mean; "" if none did."""
    leader = best(trials, [objective])
    lead = leader.values[0] - trials[0].values[0]
    if lead <= 0:
        return ""
    questions = quantity(len(leader.scores), "dev question")
    return f"trial {leader.number} led by {lead:.4g} on {questions}, too little to expect that it is better"


class ExternalSearch:
    """The search by an external optimizer, such as MIPROv2, with the same store, budget and splits."""

    def __init__(self, task: Task, limit: asyncio.Semaphore, progress: Progress) -> None:
        self.task, self._limit, self._progress = task, limit, progress
        self._order = shuffle_dev(task)
        self._first: tuple[RagProgram, Baseline] | None = None

    async def _answered(self, program: RagProgram) -> tuple[Row, ...]:
        return await evaluate(program, self._order, self.task.scorer, limit=self._limit)

    async def baseline(self) -> Baseline:
        """Answers the dev questions with the recipe's program."""
        builder = ProgramBuilder(self.task, InMemoryAttributes(), self._limit, self._progress)
        self._progress.phase("baseline on dev", len(self._order))
        program = await builder.program(self.task.space.baseline())
        rows = await self._answered(program)
        calls = sum(row.counters.get("lm_calls", 0) for row in rows) / max(1, len(self._order))
        baseline = Baseline([row.scores for row in rows], failures_of(rows), calls)
        self._first = program, baseline
        return baseline

    async def search(self, reserved: int) -> Searched:
        """Runs the external optimizer. When a budget is spent, the result is the best program so far."""
        from ragc.optimizers.external.optimize import optimize

        name = str(self.task.recipe.search.optimizer)
        external = await optimize(name, self.task, limit=self._limit, progress=self._progress)
        for note in external.notes:
            self._progress.note(note)
        return Searched(external=external)

    async def select(self, searched: Searched) -> Selected:
        """Selects the optimizer's program, or the baseline if that program failed in many more questions."""
        if self._first is None or searched.external is None:
            raise RuntimeError("select comes after baseline and search")
        (program, baseline), external = self._first, searched.external
        best = await external.program(self.task)
        dev, failures = {"baseline": baseline.scores}, {"baseline": baseline.failures}
        budget, notes = "", list(external.notes)
        try:
            rows = await self._answered(best)
            scores, failed = [row.scores for row in rows], failures_of(rows)
            if failed.all and baseline.failures.all:
                raise no_answer_error(baseline.failures, 2, self.task)
            if failed.all or self._is_outdone(scores, failed, baseline):
                notes.append(f"the baseline is kept, because of {external.name}'s choice {failed.text}")
                self._progress.note(notes[-1])
                best, scores, failed = program, list(baseline.scores), baseline.failures
            dev["winner"], failures["winner"] = scores, failed
        except BudgetExhausted as error:
            budget = str(error)
        self.task.ledger.hold(0)
        facts = {
            "optimizer": external.name,
            "trials": max(0, len(external.trials) - 1),
            "stopped": 0,
            "budget": budget,
            "notes": notes,
        }
        return Selected(program, best, dev, facts, [external.counters], failures=failures)

    def _is_outdone(self, scores: Sequence[Scores], failed: Failures, baseline: Baseline) -> bool:
        """Whether the optimizer's program failed in many more questions than the baseline and scored no
        better.
        """
        task = self.task
        return is_outdone(
            failed, _means(task, scores), baseline.failures, _means(task, baseline.scores), task.objectives
        )


class PortfolioSearch:
    """The searches of several optimizers, one after another (`ragc.optimizers.search.portfolio`)."""

    def __init__(self, task: Task, directory: Path, limit: asyncio.Semaphore, progress: Progress) -> None:
        self.task, self._directory, self._limit, self._progress = task, directory, limit, progress
        self._meeting = Meeting(task, limit, progress)
        self._outcomes: list[tuple[Part, PartOutcome]] = []
        ledger_of(task)

    async def baseline(self) -> Baseline:
        """Answers the dev questions with the recipe's program."""
        ledger_of(self.task).enter(BASELINE, Budget())
        builder = ProgramBuilder(self.task, InMemoryAttributes(), self._limit, self._progress)
        program = await builder.program(self.task.space.baseline())
        first = (await self._meeting.answer(BASELINE, program)).result
        calls = first.counters["lm_calls"] / max(1, len(self.task.dev))
        return Baseline(first.scores, first.failures, calls)

    async def search(self, reserved: int) -> Searched:
        """Runs the optimizers, and answers the dev questions with what each of them chose."""
        self._outcomes = await run_portfolio(self._meeting, self._run, self._progress, reserved=reserved)
        self.task.ledger.hold(0)
        return Searched()

    async def _run(self, part: Part, reserved: int) -> PartOutcome:
        run = self._run_own if part.optimizer == OWN_OPTIMIZER else self._run_external
        outcome = await run(part, reserved)
        for note in outcome.notes:
            self._progress.note(note)
        return outcome

    async def _run_own(self, part: Part, reserved: int) -> PartOutcome:
        study = StudySearch(Study(part.task, self._directory, self._limit, self._progress))
        await study.baseline()
        searched = await study.search(reserved)
        self.task.ledger.hold(reserved)
        try:
            selected = await study.select(searched)
        except NothingAnswered as error:
            return failed(part.optimizer, error, [trial.counters for trial in searched.trials])
        trials, stopped = selected.facts["trials"], selected.facts["stopped"]
        return PartOutcome(
            selected.best,
            trials,
            stopped,
            searched.budget,
            facts=selected.facts,
            costs=selected.costs,
            tried=selected.trials,
        )

    async def _run_external(self, part: Part, reserved: int) -> PartOutcome:
        from ragc.optimizers.external.optimize import optimize
        from ragc.optimizers.harness.base import OptimizerFailed

        task, name = part.task, part.optimizer
        try:
            external = await optimize(name, task, limit=self._limit, progress=self._progress)
            program = await external.program(task)
        except OptimizerFailed as error:
            return failed(name, error)
        trials = max(0, len(external.trials) - 1)
        # The counters of a search that was cut off depend on what was in flight then.
        costs = () if external.ended else (external.counters,)
        return PartOutcome(program, trials, ended=external.ended, notes=external.notes, costs=costs)

    async def select(self, searched: Searched) -> Selected:
        """Selects among the baseline and the optimizers' programs by the rule that selects a trial."""
        task, entrants = self.task, self._meeting.entrants
        results = [entrant.result for entrant in entrants]
        chosen = select(results, task.objectives, task.pick, risk=task.risk)
        if chosen.failures.all:
            raise no_answer_error(chosen.failures, len(entrants), task)
        first, winner = entrants[0], entrants[chosen.number]
        by_name = {entrant.name: entrant for entrant in entrants[1:]}
        expected = expected_of_choice(results, task.objectives, task.pick, chosen, risk=task.risk)
        facts: dict[str, Any] = {
            "optimizer": [part.optimizer for part, _ in self._outcomes],
            "winner": winner.name,
            "expected": {task.pick.metric.id: expected.to_json(task.pick.sign)},
            "trials": sum(outcome.trials for _, outcome in self._outcomes),
            "stopped": sum(outcome.stopped for _, outcome in self._outcomes),
            "budget": "",
            "parts": [
                part_facts(part, outcome, by_name.get(part.optimizer), task)
                for part, outcome in self._outcomes
            ],
        }
        return Selected(
            first.program,
            winner.program,
            {"baseline": first.result.scores, "winner": winner.result.scores},
            facts,
            [first.result.counters, *(cost for _, outcome in self._outcomes for cost in outcome.costs)],
            [trial for _, outcome in self._outcomes for trial in outcome.tried],
            {"baseline": first.result.failures, "winner": winner.result.failures},
        )


def no_answer_error(failures: Failures, programs: int, task: Task) -> NothingAnswered:
    """The error of a search in which none of `programs` programs answered a question.

    `failures` are those of one program; `programs` is 0 where the search stopped at the baseline.
    """
    tried = {0: "the baseline", 1: "the one program tried"}
    which = tried.get(programs, f"each of the {programs} programs tried")
    stopped = "" if programs else " Nothing else was tried, so that nothing more is spent."
    replies, way_out = _replies_and_way_out(task)
    return NothingAnswered(
        f"Nothing was compiled, because no dev question was answered by {which}: "
        f"{failures.text}.{stopped} {replies}; see with `ragc ask RECIPE QUESTION --trace` what is asked, "
        f"mend that, then compile again{way_out}"
    )


def _replies_and_way_out(task: Task) -> tuple[str, str]:
    """What becomes of the replies of a search of `task` in the next one, and how they are asked for anew."""
    gateway, targets = task.runtime.gateway, task.runtime.targets.values()
    targets_used = gateway.targets_used or {(target.name, gateway.forgets(target)) for target in targets}
    forgetful = sorted(name for name, forgets in targets_used if forgets)
    if forgetful and len(forgetful) == len(targets_used):
        return (
            "No reply is kept for another study, as cache=False says",
            ", which asks all anew unless it resumes this study.",
        )
    way_out = ". Where the model was at fault, --again (in Python again=True) asks it anew."
    if gateway.replayed and not gateway.sent:
        return "Every reply was replayed from an earlier run", way_out
    if forgetful:
        names = " and ".join(forgetful)
        return f"Every reply is kept and would be replayed, except those of {names} (cache=False)", way_out
    return "Every reply is kept and would be replayed", way_out


def _fitted_remarks(calibrated: Sequence[Mapping[str, Any]], chosen: Candidate, program: str) -> list[str]:
    """A sentence for each threshold of `chosen` that was fitted to the dev questions."""
    own = chosen.program or program
    return [
        f"{fit['knob']} = {fit['threshold']:g} was fitted to the dev questions. It is one trial, but the "
        f"best of {len(fit['points'])} values, so its score on dev and what is expected of it flatter it "
        "more than those of other trials."
        for fit in calibrated
        if "threshold" in fit
        and fit["threshold"] != fit["present"]
        and (fit["program"], chosen.knobs.get(fit["knob"])) == (own, fit["threshold"])
    ]


def _means(task: Task, scores: Sequence[Scores]) -> tuple[float, ...]:
    """The signed means of the objectives."""
    return tuple(sum(objective.of(row) for row in scores) / len(scores) for objective in task.objectives)


def _on_front(task: Task, trial: TrialResult) -> dict[str, Any]:
    pairs = zip(task.objectives, trial.values, strict=True)
    values = {objective.metric.id: objective.sign * value for objective, value in pairs}
    failed = {"failures": trial.failures.to_json()} if trial.failures.n else {}
    return {"trial": trial.number, "values": values, "candidate": trial.candidate.to_json(), **failed}
