"""The searches of several optimizers, one after another."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from ragc.core.progress import Progress
from ragc.errors import NothingAnswered
from ragc.optimizers.candidates.builder import ProgramBuilder
from ragc.optimizers.compile.searches.base import Baseline, Searched, Selected, no_answer_error
from ragc.optimizers.compile.searches.own import StudySearch, dev_limits
from ragc.optimizers.search.portfolio import (
    BASELINE,
    FinalComparison,
    PartOutcome,
    PortfolioPart,
    failed,
    ledger_of,
    part_facts,
    run_portfolio,
)
from ragc.optimizers.search.selection import expected_of_choice, select
from ragc.optimizers.search.storage import InMemoryAttributes
from ragc.optimizers.search.study import Study
from ragc.recipe import Budget
from ragc.recipe.values import OWN_OPTIMIZER
from ragc.task.base import Task


class PortfolioSearch:
    """The searches of several optimizers, one after another (`ragc.optimizers.search.portfolio`)."""

    def __init__(self, task: Task, directory: Path, limit: asyncio.Semaphore, progress: Progress) -> None:
        self.task, self._directory, self._limit, self._progress = task, directory, limit, progress
        self._comparison = FinalComparison(task, limit, progress)
        self._outcomes: list[tuple[PortfolioPart, PartOutcome]] = []
        ledger_of(task)

    async def baseline(self) -> Baseline:
        """Answers the dev questions with the recipe's program."""
        ledger_of(self.task).enter(BASELINE, Budget())
        builder = ProgramBuilder(self.task, InMemoryAttributes(), self._limit, self._progress)
        program = await builder.program(builder.space.baseline())
        first = (await self._comparison.answer(BASELINE, program)).result
        calls = first.counters["lm_calls"] / max(1, len(self.task.dev))
        return Baseline(first.scores, first.failures, calls)

    async def search(self, reserved: int) -> Searched:
        """Runs the optimizers, and answers the dev questions with what each of them chose."""
        self._outcomes = await run_portfolio(self._comparison, self._run, self._progress, reserved=reserved)
        self.task.ledger.hold(0)
        return Searched()

    async def _run(self, part: PortfolioPart, reserved: int) -> PartOutcome:
        run = self._run_own if part.optimizer == OWN_OPTIMIZER else self._run_external
        outcome = await run(part, reserved)
        for note in outcome.notes:
            self._progress.note(note)
        return outcome

    async def _run_own(self, part: PortfolioPart, reserved: int) -> PartOutcome:
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
            trial_records=selected.trials,
        )

    async def _run_external(self, part: PortfolioPart, reserved: int) -> PartOutcome:
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
        task, finalists = self.task, self._comparison.finalists
        results = [finalist.result for finalist in finalists]
        chosen = select(results, task.rule)
        if chosen.failures.all:
            raise no_answer_error(chosen.failures, len(finalists), task)
        first, winner = finalists[0], finalists[chosen.number]
        by_name = {finalist.name: finalist for finalist in finalists[1:]}
        expected = expected_of_choice(results, task.rule, chosen)
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
        if limits := dev_limits(chosen, task.rule):
            facts["limits"] = limits
        return Selected(
            first.program,
            winner.program,
            {"baseline": first.result.scores, "winner": winner.result.scores},
            facts,
            [first.result.counters, *(cost for _, outcome in self._outcomes for cost in outcome.costs)],
            [trial for _, outcome in self._outcomes for trial in outcome.trial_records],
            {"baseline": first.result.failures, "winner": winner.result.failures},
        )
