"""The search of a compile, by ragc's own study or by one of its peers: what it found, and what that cost."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragc.core.progress import Progress
from ragc.errors import BudgetExhausted, NothingAnswered
from ragc.metrics.base import Objective, Scores
from ragc.metrics.failures import Failures
from ragc.optimizers.answering import Row, evaluate, failures_of
from ragc.optimizers.distributed.runner import on_workers
from ragc.optimizers.search.builder import ProgramBuilder
from ragc.optimizers.search.run_trial import shuffle_dev
from ragc.optimizers.search.selection import is_outdone, shrunken_means
from ragc.optimizers.search.storage import InMemoryAttributes
from ragc.optimizers.search.study import Study
from ragc.optimizers.search.trial import TrialResult
from ragc.optimizers.task import Task
from ragc.programs.base import RagProgram

OWN = "ragc"
"""The name of the study of this package in `search.optimizer`."""


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """The program that the search began with and the one that it chose.

    `dev` are the scores of both on all dev questions and `failures` those of them without an answer, `facts`
    what provenance says of the search, `costs` the counters of each part of it and `trials` all that was
    tried, as JSON values.
    """

    baseline: RagProgram
    best: RagProgram
    dev: Mapping[str, Sequence[Scores]]
    facts: Mapping[str, Any]
    costs: Sequence[Mapping[str, float]]
    trials: Sequence[Mapping[str, Any]] = field(default_factory=tuple)
    failures: Mapping[str, Failures] = field(default_factory=dict)


async def search(task: Task, directory: Path, limit: asyncio.Semaphore, progress: Progress) -> SearchOutcome:
    """What the recipe's optimizer finds for `task`; its state is kept in `directory`.

    Raises NothingAnswered when every dev question failed, the baseline's included.
    """
    if task.recipe.search.optimizer == OWN:
        return await _search_study(task, directory, limit, progress)
    return await _search_external(task, limit, progress)


async def _search_study(
    task: Task, directory: Path, limit: asyncio.Semaphore, progress: Progress
) -> SearchOutcome:
    study = Study(task, directory, limit, progress)
    async with on_workers(task, directory, progress) as runner:
        study.runner = runner or study.runner
        chosen = await study.run()
    if chosen.failures.all:
        raise no_answer_error(chosen.failures, len(study.trials))
    base, hope = study.trials[0], shrunken_means(study.trials, task.pick)[chosen.number]
    facts: dict[str, Any] = {
        "candidate": chosen.candidate.to_json(),
        "expected": {task.pick.metric.id: _apply_sign(task.pick, hope.to_json())},
        "trials": len(study.trials) - 1,
        "stopped": sum(not tried.complete for tried in study.trials),
        "budget": study.spent,
    }
    if calibrated := study.calibrating.facts():
        facts["calibration"] = calibrated
    if scores := await study.maker.demo_scores(chosen.candidate):
        facts["demonstrations"] = scores
    if study.front:
        facts["front"] = [_on_front(task, tried) for tried in study.front]
    return SearchOutcome(
        await study.maker.program(base.candidate),
        await study.maker.program(chosen.candidate),
        {"baseline": base.scores, "winner": chosen.scores},
        facts,
        [*(tried.counters for tried in study.trials), *study.maker.costs(), *study.calibrating.costs()],
        [tried.to_json() for tried in study.trials],
        {"baseline": base.failures, "winner": chosen.failures},
    )


def no_answer_error(failures: Failures, programs: int) -> NothingAnswered:
    """The error of a search in which each of so many `programs` had these `failures`, or as many."""
    tried = f"each of the {programs} programs tried" if programs > 1 else "the one program tried"
    return NothingAnswered(
        f"Nothing was compiled, because no dev question was answered by {tried}: {failures.text}. Every "
        "reply is kept; see with `ragc ask RECIPE QUESTION --trace` what is asked, mend that, then compile "
        "again."
    )


def _means(task: Task, rows: Sequence[Row]) -> tuple[float, ...]:
    """The signed means of the objectives."""
    return tuple(sum(one.of(row.scores) for row in rows) / len(rows) for one in task.objectives)


def _apply_sign(objective: Objective, values: Mapping[str, float]) -> dict[str, float]:
    return {name: objective.sign * value for name, value in values.items()}


def _on_front(task: Task, tried: TrialResult) -> dict[str, Any]:
    pairs = zip(task.objectives, tried.values, strict=True)
    values = {objective.metric.id: objective.sign * value for objective, value in pairs}
    failed = {"failures": tried.failures.to_json()} if tried.failures.n else {}
    return {"trial": tried.number, "values": values, "candidate": tried.candidate.to_json(), **failed}


async def _search_external(task: Task, limit: asyncio.Semaphore, progress: Progress) -> SearchOutcome:
    from ragc.optimizers.external.optimize import optimize

    maker, order = ProgramBuilder(task, InMemoryAttributes(), limit, progress), shuffle_dev(task)

    async def score_program(program: RagProgram) -> tuple[Row, ...]:
        return await evaluate(program, order, task.scorer, limit=limit)

    progress.phase("baseline on dev", len(order))
    baseline = await maker.program(task.space.baseline())
    before = await score_program(baseline)
    calls = sum(row.counters.get("lm_calls", 0) for row in before) / max(1, len(order))
    task.ledger.hold(round(2 * calls * len(task.test)))
    peer = await optimize(task.recipe.search.optimizer, task, limit=limit, progress=progress)
    for note in peer.notes:
        progress.note(note)
    best = await peer.program(task)
    dev = {"baseline": [row.scores for row in before]}
    failures = {"baseline": failures_of(before)}
    budget, notes = "", list(peer.notes)
    try:
        after = await score_program(best)
        if failures_of(after).all and failures["baseline"].all:
            raise no_answer_error(failures["baseline"], 2)
        if failures_of(after).all or is_outdone(
            failures_of(after),
            _means(task, after),
            failures["baseline"],
            _means(task, before),
            task.objectives,
        ):
            notes.append(f"the baseline is kept, because of {peer.name}'s choice {failures_of(after).text}")
            progress.note(notes[-1])
            best, after = baseline, before
        dev["winner"], failures["winner"] = [row.scores for row in after], failures_of(after)
    except BudgetExhausted as error:
        budget = str(error)
    task.ledger.hold(0)
    facts = {
        "optimizer": peer.name,
        "trials": max(0, len(peer.trials) - 1),
        "stopped": 0,
        "budget": budget,
        "notes": notes,
    }
    return SearchOutcome(baseline, best, dev, facts, [peer.counters], failures=failures)
