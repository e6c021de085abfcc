"""Instructions that evolve inside the study: rounds of reflection between the trials.

    trials so far ─► pool by dev question ─► parents ─► their failures on train questions ─► teacher ─► texts
                                                                                   children, the next trials

A round draws parents from the trials that lead on some dev question (`parents`). Each parent answers train
questions, and the teacher rewrites the instruction of one of its calls after reading the failures. The last
child of a later round unites two parents instead. A child has all other settings of its parent, and races on
the dev questions like any trial.

Dev questions choose parents by their scores and never reach the teacher, because dev also chooses the winner.
A round is a function of the task, the trials before it and the store. Its record is one attribute of the
study, so a killed study resumes with the same children, and workers read the texts there.
Paper: Agrawal et al. 2025, arXiv:2507.19457. Differs: a child is not tested on the parent's minibatch before
it sees dev questions, since racing stops a bad one after about as many; a reflection reads `FAILURES` failed
questions and no others.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ragc.core.counters import Counters, counting
from ragc.core.progress import Silent
from ragc.optimizers.answering import Row
from ragc.optimizers.external.harness import Harness
from ragc.optimizers.instructions.filters import TrainTexts, new_texts
from ragc.optimizers.instructions.parents import ParentPool
from ragc.optimizers.instructions.reflection import Example, example_of, rewrite, run_in_harness, run_parallel
from ragc.optimizers.search.builder import ProgramBuilder, Round, round_name
from ragc.optimizers.search.selection import eligible_trials
from ragc.optimizers.search.trial import TrialResult
from ragc.optimizers.space import Candidate
from ragc.records import Question

ANSWERED = 24
"""The most train questions that a parent answers for one child."""

BLOCK = 6
"""The train questions that a parent answers at a time, until enough have failed."""

FAILURES = 6
"""The most failed questions that the teacher reads for one child."""

DRAWS = 2
"""The most replies of the teacher for one child, when the first cannot be used."""

_UNITE = (
    " Another instruction for the same task does better on other questions. Write one that keeps what each "
    "of the two does well, without contradictions. The other instruction: "
)


@dataclass(slots=True)
class _Plan:
    """A child before it is written: its parent, the call to rewrite and the text to unite it with.

    `failed` are the parent's failed train questions for this child.
    """

    parent: TrialResult
    other: str = ""
    predictor: str = ""
    text: str = ""
    failed: list[Row] = field(default_factory=list)
    examples: list[Example] = field(default_factory=list)


class InstructionRounds:
    """The rounds of a study. `builder` holds its task and attributes."""

    def __init__(self, builder: ProgramBuilder, trials: int) -> None:
        self._builder, self._task = builder, builder.task
        search = self._task.recipe.search
        self._most, self._children = search.instruction_rounds, search.instructions
        self._trials = trials
        self.held = list(builder.rounds())

    def due(self, done: int) -> bool:
        """Whether a round is due after `done` trials, the baseline included.

        Rounds are spread evenly over the trials, the first right after the baseline. A round waits until the
        children of the one before have been tried.
        """
        number = len(self.held)
        if number >= self._most or done > self._trials:
            return False
        last = self.held[-1] if self.held else None
        waiting = last is not None and done < last.at + len(last.children)
        return not waiting and done >= 1 + number * self._trials // self._most

    async def hold(self, trials: Sequence[TrialResult]) -> Round:
        """Holds the next round after `trials` and stores it. Raises BudgetExhausted."""
        number, builder = len(self.held) + 1, self._builder
        builder.progress.phase(f"instructions, round {number} of {self._most}", None)
        with counting(Counters()) as spent:
            texts, children = await self._evolve(number, trials)
        result = Round(len(trials), texts, tuple(children), spent.invariant())
        builder.put_round(round_name(number), result)
        self.held.append(result)
        new = sum(len(written) for by_name in texts.values() for written in by_name.values())
        builder.progress.note(
            f"instructions, round {number}: {new} written, {len(children)} to try"
            + ("" if children else "; no reply of the teacher could be used")
        )
        return result

    async def _evolve(
        self, number: int, trials: Sequence[TrialResult]
    ) -> tuple[dict[str, dict[str, list[str]]], list[Candidate]]:
        """The new texts of round `number` by program and predictor, and the children that have them."""
        task, builder = self._task, self._builder
        rng = random.Random(f"round {task.seed} {number}")
        pool = ParentPool.of(eligible_trials(trials, task.objectives), task.pick)
        bench = Harness(task, builder.limit, Silent())
        tried = {trial.candidate.mark for trial in trials}
        plans, children = list[_Plan](), list[Candidate]()
        for turn in range(self._children):
            pair = pool.draw_pair(rng) if number > 1 and turn == self._children - 1 else None
            if pair and (united := _combine(*pair)) is not None and united.mark not in tried:
                children.append(united)
                continue
            plan = await self._plan_union(*pair) if pair else None
            plans.append(plan or _Plan(pool.draw(rng)))
        rows = await self._answer(bench, number, plans)
        for turn, plan in enumerate(plans):
            await self._aim(bench, plan, (number - 1) * self._children + turn)
        written = await self._write(bench, number, [plan for plan in plans if plan.examples], rows)
        texts: dict[str, dict[str, list[str]]] = {}
        for plan, text in written:
            candidate = plan.parent.candidate
            mine = texts.setdefault(candidate.program, {}).setdefault(plan.predictor, [])
            before = (await builder.instruction_texts(candidate.program))[plan.predictor]
            mine.append(text)
            at = len(before) + len(mine) - 1
            children.append(replace(candidate, instructions={**candidate.instructions, plan.predictor: at}))
        return texts, children

    async def _plan_union(self, one: TrialResult, other: TrialResult) -> _Plan | None:
        """The plan to unite the texts of the first call where both parents have new ones; None if none."""
        texts = await self._builder.instruction_texts(one.candidate.program)
        for name, number in sorted(one.candidate.instructions.items()):
            second = other.candidate.instructions.get(name, 0)
            if number and second and number != second:
                return _Plan(one, texts[name][second], name)
        return None

    async def _answer(self, bench: Harness, number: int, plans: Sequence[_Plan]) -> list[Row]:
        """Answers train questions with the parents of `plans` and gives each plan its failed ones.

        Returns all rows. The questions are in an order drawn with the seed; a round begins where the one
        before began, and a block further. Siblings share the answers of their parent, not the failures.
        """
        order = list(self._task.train)
        random.Random(f"rounds {self._task.seed}").shuffle(order)
        start = (number - 1) * BLOCK % len(order)
        order = order[start:] + order[:start]
        every = list[Row]()
        for mark in dict.fromkeys(plan.parent.candidate.mark for plan in plans):
            siblings = [plan for plan in plans if plan.parent.candidate.mark == mark]
            rows = await self._failures_of(bench, siblings[0].parent, order, len(siblings))
            every += rows
            failed = [row for row in rows if bench.value(row) < bench.best]
            for at, plan in enumerate(siblings):
                others = failed[at :: len(siblings)] or failed
                plan.failed = others[:FAILURES]
        return every

    async def _failures_of(
        self, bench: Harness, parent: TrialResult, order: Sequence[Question], children: int
    ) -> list[Row]:
        """`parent`'s answers, block by block, until enough failed for its `children`."""
        program = await self._builder.program(parent.candidate)
        rows = list[Row]()
        failed = 0
        most = min(len(order), children * ANSWERED)
        while len(rows) < most and failed < children * FAILURES:
            block = order[len(rows) : min(most, len(rows) + BLOCK)]
            rows += await bench.rows(program, block)
            failed = sum(bench.value(row) < bench.best for row in rows)
        return rows

    async def _aim(self, bench: Harness, plan: _Plan, turn: int) -> None:
        """Chooses the call that `plan` rewrites, in turn among those that failed questions made."""
        candidate = plan.parent.candidate
        texts = await self._builder.instruction_texts(candidate.program)
        calls = {
            name: shown
            for name in texts
            if (shown := [one for row in plan.failed if (one := example_of(bench, row, name)) is not None])
        }
        if plan.predictor not in calls:
            plan.other = ""
            plan.predictor = list(calls)[turn % len(calls)] if calls else ""
        if plan.predictor:
            plan.examples = calls[plan.predictor]
            plan.text = texts[plan.predictor][candidate.instructions.get(plan.predictor, 0)]

    async def _write(
        self, bench: Harness, number: int, plans: Sequence[_Plan], rows: Sequence[Row]
    ) -> list[tuple[_Plan, str]]:
        """The plans with their new texts; a plan whose draws give nothing usable is left out."""
        train, golds = self._task.train, [gold for question in self._task.train for gold in question.answers]
        copied = TrainTexts.of(train, rows)
        written = list[tuple[_Plan, str]]()
        waiting = list(plans)
        for draw in range(DRAWS):
            jobs = [
                partial(
                    rewrite,
                    bench,
                    plan.predictor,
                    plan.text,
                    plan.examples,
                    (number - 1) * self._children * DRAWS + draw * self._children + at,
                    _UNITE + plan.other if plan.other else "",
                )
                for at, plan in enumerate(plans)
                if plan in waiting
            ]
            if not jobs:
                break
            replies = await run_in_harness(bench, partial(run_parallel, jobs, self._task.in_flight))
            for plan, reply in zip(tuple(waiting), replies, strict=True):
                texts = await self._builder.instruction_texts(plan.parent.candidate.program)
                known = [*texts[plan.predictor], *_texts_of(written, plan)]
                usable = new_texts(known, [reply], golds, 1, train=copied)
                if usable and await self._builder.fits(plan.parent.candidate, {plan.predictor: usable[0]}):
                    written.append((plan, usable[0]))
                    waiting.remove(plan)
        return written


def _texts_of(written: Sequence[tuple[_Plan, str]], like: _Plan) -> Iterator[str]:
    """The texts already written for the same call of the same program."""
    for plan, text in written:
        same = plan.parent.candidate.program == like.parent.candidate.program
        if same and plan.predictor == like.predictor:
            yield text


def _combine(one: TrialResult, other: TrialResult) -> Candidate | None:
    """The candidate of `one` with some instructions of `other`; None if that is no new combination.

    A call that only one parent rewrote has that text. Of the calls that both rewrote, in the order of their
    names, every second has the text of `other`.
    """
    mine, theirs = one.candidate.instructions, other.candidate.instructions
    differing = [name for name in sorted({*mine, *theirs}) if mine.get(name, 0) != theirs.get(name, 0)]
    both = [name for name in differing if mine.get(name) and theirs.get(name)]
    chosen: Mapping[str, Any] = {
        **{name: number for name in differing if (number := theirs.get(name, 0)) and name not in both},
        **{name: theirs[name] for name in both[1::2]},
    }
    united = {**mine, **chosen}
    if united == dict(mine) or united == dict(theirs):
        return None
    return replace(one.candidate, instructions=united)
