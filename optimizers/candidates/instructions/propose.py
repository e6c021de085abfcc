"""Proposes instruction candidates for ragc's own study, from two complementary sources.

DSPy's GroundedProposer (MIPROv2's) reads the program, a summary of the train questions and demonstrations.
GEPA's proposer reflects on failed train questions, with feedback on each. Each source gives half of the
proposals; all calls pass through the store and the ledger.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from copy import copy
from functools import partial
from typing import Any

import dspy
from dspy.propose.grounded_proposer import TIPS

from ragc.core.progress import Silent
from ragc.errors import UsageError
from ragc.optimizers.candidates.demos.bootstrap import collect
from ragc.optimizers.candidates.demos.pool import DemoPool
from ragc.optimizers.candidates.instructions.filters import TrainTexts, candidates
from ragc.optimizers.candidates.instructions.grounding import build_proposer
from ragc.optimizers.candidates.instructions.reflection import (
    Example,
    example_of,
    has_failed,
    proposal_of,
    rewrite,
    run_in_harness,
    run_parallel,
)
from ragc.optimizers.harness.base import Harness
from ragc.programs.base import RagProgram
from ragc.task.answering import Row
from ragc.task.base import Task

MAX_TRAIN_READ = 48
"""The most train questions that are answered to find failures, and shown to the proposer."""

REFLECTED_FAILURES = 3
"""The failed questions in one reflection, as in GEPA's minibatches."""

SPARE_PROPOSALS = 2
"""Extra proposals from each source, because some are filtered out."""


async def propose_instructions(program: RagProgram, task: Task, *, n: int) -> dict[str, tuple[str, ...]]:
    """Proposes instruction candidates for each predictor of `program`, by its name.

    At most `n`, the present instruction first; fewer if the teacher gives too few usable ones (`filters`).
    With `n` 1 nothing is sent. Each candidate takes about two calls of the teacher, and about six more read
    the questions. The same task, seed and store give the same candidates. Raises UsageError without train
    questions or for `n` below 1, and BudgetExhausted if the next call would exceed the budget.
    """
    present = {name: p.signature.instructions for name, p in program.named_predictors()}
    if n < 1:
        raise UsageError(f"The number of instruction candidates must be 1 or more, found {n}.")
    if n == 1:
        return {name: (text,) for name, text in present.items()}
    if not task.train:
        raise UsageError("Proposing instructions needs train questions, found none; set data.train.")
    bench = Harness(task, asyncio.Semaphore(task.in_flight), Silent())
    plain = program.deepcopy()
    rows = await bench.rows(plain, task.train[:MAX_TRAIN_READ])
    grounded = await _propose_grounded(bench, plain, n // 2 + SPARE_PROPOSALS)
    reflected = await _propose_reflected(bench, plain, rows, (n - 1) // 2 + SPARE_PROPOSALS)
    texts = TrainTexts.of(task.train, rows)
    answers = [answer for question in task.train for answer in question.answers]
    by_predictor = {}
    for name, text in present.items():
        mixed = _interleave(grounded.get(name, []), reflected.get(name, []))
        by_predictor[name] = candidates(text, mixed, answers, n, train=texts)
    return by_predictor


def _interleave(first: Sequence[str], other: Sequence[str]) -> list[str]:
    longest = max(len(first), len(other))
    return [part[at] for at in range(longest) for part in (first, other) if at < len(part)]


async def _propose_grounded(bench: Harness, program: RagProgram, count: int) -> dict[str, list[str]]:
    """Returns `count` proposals a predictor from DSPy's GroundedProposer; "" where there is none."""
    task = bench.task
    pool = await collect(
        program,
        task.train[:MAX_TRAIN_READ],
        task.scorer.only([task.demo_metric]),
        n_demos=REFLECTED_FAILURES,
        filled=REFLECTED_FAILURES,
        threshold=task.demo_threshold,
        limit=bench.limit,
    )
    predictors = program.named_predictors()
    shown = _demo_sets(pool, [name for name, _ in predictors], count, task.seed)

    def propose() -> dict[str, list[str]]:
        rng = random.Random(f"instructions {task.seed}")
        try:
            proposer = build_proposer(bench.teacher, program, bench.train[:MAX_TRAIN_READ], rng=rng)
        except Exception as error:
            if has_failed(error):
                return {}
            raise
        proposer.use_task_demos = shown is not None
        jobs = [
            partial(_propose_one, proposer, program, at, shown, number, task.seed)
            for at in range(len(predictors))
            for number in range(count)
        ]
        texts = run_parallel(jobs, task.in_flight)
        return {name: texts[at * count : (at + 1) * count] for at, (name, _) in enumerate(predictors)}

    proposals: dict[str, list[str]] = await run_in_harness(bench, propose)
    return proposals


def _demo_sets(
    pool: DemoPool, names: Sequence[str], count: int, seed: int
) -> dict[int, list[list[Any]]] | None:
    """Returns demonstrations in the proposer's form, a set for each proposal; None if there are none."""
    if not pool.size:
        return None
    sets = pool.sets(count, REFLECTED_FAILURES, seed)
    return {
        at: [[dspy.Example(augmented=True, **demo) for demo in chosen.get(name, [])] for chosen in sets]
        for at, name in enumerate(names)
    }


def _propose_one(proposer: Any, program: Any, at: int, shown: Any, number: int, seed: int) -> str:
    """Returns proposal `number` for predictor number `at`, with its own tip; "" if there is none."""
    mine = copy(proposer)
    mine.rng = random.Random(f"instructions {seed} {at} {number}")
    tip = TIPS[mine.rng.choice(sorted(TIPS))]
    mine.use_tip = bool(tip)
    return proposal_of(
        lambda: mine.propose_instruction_for_predictor(
            program=program,
            predictor=program.predictors()[at],
            pred_i=at,
            demo_candidates=shown,
            demo_set_i=number,
            trial_logs={},
            tip=tip,
        )
    )


async def _propose_reflected(
    bench: Harness, program: RagProgram, rows: Sequence[Row], count: int
) -> dict[str, list[str]]:
    """Returns `count` rewritten instructions a predictor, each after reflecting on a few failed questions.

    Empty for a predictor that no question called.
    """
    wrong = [row for row in rows if bench.value(row) < bench.best] or list(rows)
    present = {name: predictor.signature.instructions for name, predictor in program.named_predictors()}

    def reflect() -> dict[str, list[str]]:
        rewritings = {}
        for name, text in present.items():
            seen = [seen for row in wrong if (seen := example_of(bench, row, name))]
            jobs = [
                partial(rewrite, bench, name, text, _pick(bench, name, seen, number), number)
                for number in range(count)
            ]
            rewritings[name] = run_parallel(jobs, bench.task.in_flight) if seen else []
        return rewritings

    proposals: dict[str, list[str]] = await run_in_harness(bench, reflect)
    return proposals


def _pick(bench: Harness, name: str, seen: Sequence[Example], number: int) -> list[Example]:
    """Returns the examples of reflection `number` on the predictor `name`."""
    rng = random.Random(f"reflection {bench.task.seed} {name} {number}")
    return rng.sample(list(seen), min(REFLECTED_FAILURES, len(seen)))
