"""The search by an external optimizer, such as MIPROv2."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ragc.core.progress import Progress
from ragc.errors import BudgetExhausted
from ragc.metrics.base import Scores
from ragc.metrics.failures import Failures
from ragc.optimizers.candidates.builder import ProgramBuilder
from ragc.optimizers.candidates.dev_order import shuffle_dev
from ragc.optimizers.candidates.eligible import is_outdone
from ragc.optimizers.compile.searches.base import Baseline, Searched, Selected, no_answer_error
from ragc.optimizers.search.storage import InMemoryAttributes
from ragc.programs.base import RagProgram
from ragc.task.answering import Row, evaluate, failures_of
from ragc.task.base import Task


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
        program = await builder.program(builder.space.baseline())
        rows = await self._answered(program)
        calls = sum(row.counters.get("lm_calls", 0) for row in rows) / max(1, len(self._order))
        baseline = Baseline([row.scores for row in rows], failures_of(rows), calls)
        self._first = program, baseline
        return baseline

    async def search(self, reserved: int) -> Searched:
        """Runs the external optimizer. When a budget is spent, the result is the best program so far."""
        from ragc.optimizers.external.optimize import optimize

        name = self.task.recipe.search.optimizer
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
        self.task.budget.hold(0)
        facts = {
            "optimizer": external.name,
            "trials": max(0, len(external.trials) - 1),
            "stopped": 0,
            "budget": budget,
            "notes": notes,
        }
        return Selected(program, best, dev, facts, [external.counters], failures=failures)

    def _is_outdone(self, scores: Sequence[Scores], failed: Failures, baseline: Baseline) -> bool:
        """Returns whether the optimizer's program failed in many more questions than the baseline and scored
        no better.
        """
        task = self.task
        return is_outdone(
            failed, _means(task, scores), baseline.failures, _means(task, baseline.scores), task.objectives
        )


def _means(task: Task, scores: Sequence[Scores]) -> tuple[float, ...]:
    """Returns the signed means of the objectives."""
    return tuple(sum(objective.of(row) for row in scores) / len(scores) for objective in task.objectives)
