"""A portfolio: several optimizers, one after another, on one store, one budget and the same questions.

    baseline ─► optimizer 1 ─► optimizer 2 ─► ... ─► every winner on dev, with the baseline ─► `select`

Each optimizer has its share of the trials and of the budget that is left after the baseline, the test
questions and the final comparison on dev. The unspent rest of an optimizer that ran to its end goes to the
next. An optimizer that its share cut off leaves nothing, because its rest would depend on timing. So a
portfolio that is killed and resumed has the same result.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol

from ragc.core import inputs
from ragc.core.digest import pretty
from ragc.core.display import quantity
from ragc.core.outputs import put_file
from ragc.core.progress import Progress
from ragc.errors import BudgetExhausted, NothingAnswered, UsageError
from ragc.optimizers.candidates.dev_order import shuffle_dev
from ragc.optimizers.candidates.space import Candidate
from ragc.optimizers.candidates.trial import TrialResult, result_of
from ragc.programs.base import RagProgram
from ragc.recipe import Budget
from ragc.task.answering import Row, evaluate
from ragc.task.base import Task
from ragc.task.budget import FileLedger

BASELINE, COMPARISON = "baseline", "meeting"
"""The parts of the ledger beside those of the optimizers."""

PROGRESS = "parts.json"
"""The file in the study's directory that says how each optimizer of a portfolio stands."""

BY_TRAIN = ("reanchor",)
"""Optimizers that choose without answering the dev questions; calls are held back for their winners."""


@dataclass(frozen=True, slots=True)
class PortfolioPart:
    """One optimizer of a portfolio: its share of the whole, from 0 to 1, and its task with its trials.

    `until` is the share of the whole at its end, with those of the optimizers before.
    """

    optimizer: str
    share: float
    until: float
    task: Task


def parts_of(task: Task) -> list[PortfolioPart]:
    """Returns the optimizers of `task`, in order; one alone has the whole.

    Raises UsageError if there are fewer trials than optimizers.
    """
    search = task.recipe.search
    names = (search.optimizer,) if isinstance(search.optimizer, str) else search.optimizer
    if len(names) == 1:
        return [PortfolioPart(names[0], 1.0, 1.0, task)]
    if task.trials < len(names):
        raise UsageError(
            f"{len(names)} optimizers need a trial each, and the recipe allows "
            f"{quantity(task.trials, 'trial')}; raise search.trials or budget.trials, or name fewer."
        )
    weights = search.shares or (1.0,) * len(names)
    ends = [end / sum(weights) for end in accumulate(weights)]
    parts = []
    for at, (name, trials) in enumerate(divide_trials(names, search.shares, task.trials)):
        own = search.replace(optimizer=name, shares=(), trials=trials)
        recipe = replace(task.recipe, search=own, budget=task.recipe.budget.replace(trials=None))
        parts.append(PortfolioPart(name, weights[at] / sum(weights), ends[at], replace(task, recipe=recipe)))
    return parts


def divide_trials(names: Sequence[str], shares: Sequence[float], trials: int) -> list[tuple[str, int]]:
    """Returns the trials of each optimizer, divided by the `shares`, () for equal ones; one at least.

    There must be as many trials as optimizers.
    """
    weights = shares or (1.0,) * len(names)
    whole = sum(weights)
    limits = [0, *(round(trials * end / whole) for end in accumulate(weights))]
    divided = [limits[at + 1] - limits[at] for at in range(len(names))]
    while min(divided) < 1 < max(divided):
        divided[divided.index(max(divided))] -= 1
        divided[divided.index(min(divided))] += 1
    return list(zip(names, divided, strict=True))


@dataclass(frozen=True, slots=True)
class PartOutcome:
    """The result of one optimizer. `program` is None if it has none, as the notes then say.

    `trials` and `stopped` count its trials without the baseline. `ended` says which budget ended it, "" for
    none. `facts` are those of its own search for provenance, `costs` the counters of its parts.
    `trial_records` are its trials as JSON values. `limits` are its share, set where that cut it off.
    """

    program: RagProgram | None
    trials: int = 0
    stopped: int = 0
    ended: str = ""
    notes: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    costs: Sequence[Mapping[str, float]] = ()
    trial_records: Sequence[Mapping[str, Any]] = ()
    limits: Budget = field(default_factory=Budget)


class RunPart(Protocol):
    """Runs the optimizer of a part, with `reserved` LM calls of the budget held back."""

    async def __call__(self, part: PortfolioPart, reserved: int) -> PartOutcome: ...  # noqa: D102 - described above


@dataclass(frozen=True, slots=True)
class Finalist:
    """A program of the final comparison and its result on dev; `outcome` is None for the baseline."""

    name: str
    program: RagProgram
    result: TrialResult
    outcome: PartOutcome | None = None


class BudgetShares:
    """Divides a budget among the parts of a portfolio.

    `pool` is the part of the recipe's limits that is divided; `left` is what earlier parts left over of it.
    """

    def __init__(self, ledger: FileLedger, limits: Budget, *, held: int) -> None:
        spent = ledger.spent(BASELINE)
        tokens, usd = ledger.held_back(held)
        taken = {"lm_calls": spent.calls + held, "tokens": spent.tokens + tokens, "usd": spent.usd + usd}
        self._ledger, self._limits = ledger, limits
        self._pool = {
            what: max(0.0, float(limit) - amount)
            for what, amount in taken.items()
            if (limit := getattr(limits, what)) is not None
        }
        self._left = dict.fromkeys(self._pool, 0.0)

    def enter(self, part: PortfolioPart) -> Budget:
        """Begins `part` on the ledger, and returns its limits."""
        amounts: dict[str, Any] = {
            what: pool * part.share + self._left[what] for what, pool in self._pool.items()
        }
        for what in ("lm_calls", "tokens"):
            if what in amounts:
                amounts[what] = int(amounts[what] + 1e-9)
        if self._limits.minutes is not None:
            amounts["minutes"] = self._limits.minutes * part.until
        limits = Budget().replace(**amounts)
        self._ledger.enter(part.optimizer, limits)
        return limits

    def leave(self, part: PortfolioPart, limits: Budget, *, cut_off: bool) -> None:
        """Ends `part`; its unspent rest goes to later parts, unless its share cut it off."""
        spent = self._ledger.spent(part.optimizer)
        used = {"lm_calls": spent.calls, "tokens": spent.tokens, "usd": spent.usd}
        for what in self._pool:
            self._left[what] = 0.0 if cut_off else max(0.0, getattr(limits, what) - used[what])


class FinalComparison:
    """The dev questions, answered by the baseline and by the winner of each optimizer."""

    def __init__(self, task: Task, limit: asyncio.Semaphore, progress: Progress) -> None:
        self.task, self._limit, self._progress = task, limit, progress
        self._order = shuffle_dev(task)
        self.finalists: list[Finalist] = []

    async def answer(self, name: str, program: RagProgram, outcome: PartOutcome | None = None) -> Finalist:
        """Answers the dev questions with `program`, which then takes part. Raises BudgetExhausted."""
        self._progress.phase(f"{name} on dev", len(self._order))
        rows: Sequence[Row] = await evaluate(
            program, self._order, self.task.scorer, limit=self._limit, done=self._progress.step
        )
        # Selection tells finalists apart by their candidates; what was searched differs by optimizer.
        candidate = Candidate(self.task.baseline_knobs, program=name)
        result = result_of(len(self.finalists), candidate, rows, self.task.objectives, None)
        finalist = Finalist(name, program, result, outcome)
        self.finalists.append(finalist)
        return finalist


def limited(
    task: Task, ledger: FileLedger, part: PortfolioPart, limits: Budget, reserved: int
) -> PortfolioPart:
    """Returns `part` with its share as the budget of its recipe, from which a search plans what it may spend.

    The amounts are those of the whole ledger at the end of the share, with `reserved` calls held back.
    """
    spent = ledger.spent(part.optimizer)
    budget = part.task.recipe.budget.replace(
        lm_calls=None if limits.lm_calls is None else ledger.calls - spent.calls + reserved + limits.lm_calls,
        tokens=None if limits.tokens is None else ledger.tokens - spent.tokens + limits.tokens,
        usd=None if limits.usd is None else ledger.usd - spent.usd + limits.usd,
        minutes=limits.minutes,
    )
    return replace(part, task=replace(part.task, recipe=replace(part.task.recipe, budget=budget)))


async def run_portfolio(
    comparison: FinalComparison, run: RunPart, progress: Progress, *, reserved: int
) -> list[tuple[PortfolioPart, PartOutcome]]:
    """Runs every optimizer in its share, then compares their programs with the baseline on dev.

    `reserved` LM calls of the budget are held back for the test questions. An optimizer that ends with an
    error of its own, or answers nothing, has no program, and the others go on.
    """
    task, ledger = comparison.task, ledger_of(comparison.task)
    baseline, limits = comparison.finalists[0], task.recipe.budget
    parts = parts_of(task)
    once = baseline.result.counters.get("lm_calls", 0)
    held = reserved + round(once * sum(part.optimizer in BY_TRAIN for part in parts))
    shares = BudgetShares(ledger, limits, held=held)
    results: list[tuple[PortfolioPart, PartOutcome]] = []
    for part in parts:
        own = shares.enter(part)
        progress.note(f"{part.optimizer} begins, {part.share:.0%} of the search")
        ledger.hold(held)
        outcome = await run(limited(task, ledger, part, own, held), held)
        shares.leave(part, own, cut_off=bool(outcome.ended))
        results.append((part, replace(outcome, limits=own) if outcome.ended else outcome))
        write_progress(comparison, results)
    ledger.enter(COMPARISON, Budget())
    ledger.hold(reserved)
    for at, (part, outcome) in enumerate(results):
        if outcome.program is None:
            continue
        try:
            await comparison.answer(part.optimizer, outcome.program, outcome)
            write_progress(comparison, results)
        except BudgetExhausted as error:
            note = f"what {part.optimizer} chose was not compared on dev: {error}"
            progress.note(note)
            results[at] = part, replace(outcome, notes=(*outcome.notes, note))
    ledger.enter("", Budget())
    return results


def write_progress(comparison: FinalComparison, results: Sequence[tuple[PortfolioPart, PartOutcome]]) -> None:
    """Writes how the optimizers that ended stand, for `ragc study status`; nothing else reads it."""
    path = ledger_of(comparison.task).path
    if path is None:
        return
    objectives = comparison.task.objectives
    dev = {
        finalist.name: {
            o.metric.id: o.to_metric(v) for o, v in zip(objectives, finalist.result.values, strict=True)
        }
        for finalist in comparison.finalists
    }
    ended = {
        part.optimizer: {
            "trials": outcome.trials,
            "cut_off": bool(outcome.ended),
            "program": outcome.program is not None,
            "dev": dev.get(part.optimizer, {}),
        }
        for part, outcome in results
    }
    put_file(path.with_name(PROGRESS), pretty(ended).encode())


def read_progress(directory: Path) -> Mapping[str, Mapping[str, Any]]:
    """Returns how the optimizers of the study in `directory` stand that ended; {} where nothing can be
    read.
    """
    try:
        ended = json.loads(inputs.read_text(directory / PROGRESS))
        return {str(name): dict(entry) for name, entry in ended.items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return {}


def ledger_of(task: Task) -> FileLedger:
    """Returns the ledger of `task`. Raises UsageError for one that other processes share."""
    if not isinstance(task.ledger, FileLedger):
        raise UsageError("Several optimizers run in one process; name one.")
    return task.ledger


def part_facts(
    part: PortfolioPart, outcome: PartOutcome, finalist: Finalist | None, task: Task
) -> dict[str, Any]:
    """Returns the facts on one optimizer for provenance: its share, what it spent and what it chose.

    `spent` are counters, replayed calls included; of one that its share cut off, the share.
    """
    total: dict[str, Any] = {}
    for counters in outcome.costs:
        for name, amount in counters.items():
            total[name] = total.get(name, 0) + amount
    if outcome.ended:
        shares = {what: getattr(outcome.limits, what) for what in ("lm_calls", "tokens", "usd", "minutes")}
        total = {what: amount for what, amount in shares.items() if amount is not None}
    facts: dict[str, Any] = {
        "optimizer": part.optimizer,
        "share": round(part.share, 6),
        "trials": outcome.trials,
        "stopped": outcome.stopped,
        "spent": total,
        "budget": outcome.ended,
        "notes": list(outcome.notes),
        "search": dict(outcome.facts),
    }
    if finalist is not None:
        pairs = zip(task.objectives, finalist.result.values, strict=True)
        facts["dev"] = {objective.metric.id: objective.to_metric(value) for objective, value in pairs}
        facts["failures"] = finalist.result.failures.to_json()
    return facts


def failed(name: str, error: Exception, costs: Sequence[Mapping[str, float]] = ()) -> PartOutcome:
    """Returns the outcome of an optimizer that ended with `error` and has no program."""
    what = "answered no question" if isinstance(error, NothingAnswered) else "ended with an error"
    return PartOutcome(None, notes=(f"{name} {what}: {' '.join(str(error).split())}",), costs=costs)
