"""Instructions that evolve inside the study: rounds of reflection between the trials.

    trials so far ─► pool by dev question ─► parents ─► their failures on train questions ─► teacher ─► texts
                                                                                   children, the next trials

A round draws parents from the trials that lead on some dev question (`parents`). Each parent answers train
questions, and the teacher rewrites the instruction of one of its calls after reading the failures. The child
answers further train questions and is rewritten again, up to `STEPS` times before its trial. The last child
of a later round unites two parents instead. A child has all other settings of its parent, and is the next
trial on the dev questions.

Dev questions choose parents by their scores and never reach the teacher, because dev also chooses the winner.
A round is a function of the task, the trials before it and the store. Its record is stored with the study, so
a killed study resumes with the same children. Its size is stored before the
round sends anything. It leaves enough of the budget for the trials of all children, because a trial that the
budget cuts off shows nothing.

Paper: Agrawal et al. 2025, arXiv:2507.19457. Differs: a child is not tested on the parent's minibatch before
it sees dev questions, since a bad one gets no look beyond about as many; several reflections follow each
other before its trial, and each reads failed questions only.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ragc.core.counters import Counters, counting
from ragc.core.progress import Silent
from ragc.optimizers.candidates.builder import ProgramBuilder
from ragc.optimizers.candidates.eligible import promising_trials
from ragc.optimizers.candidates.instructions.base import Round, round_name
from ragc.optimizers.candidates.instructions.filters import NO_TEXTS, TrainTexts, new_texts
from ragc.optimizers.candidates.instructions.parents import ParentPool
from ragc.optimizers.candidates.instructions.reflection import (
    Example,
    example_of,
    rewrite,
    run_in_harness,
    run_parallel,
)
from ragc.optimizers.candidates.space import Candidate
from ragc.optimizers.candidates.trial import TrialResult
from ragc.optimizers.harness.base import Harness
from ragc.programs.base import RagProgram
from ragc.task.answering import Row

STEPS = 3
"""The most reflections on one child before its trial; each reads new failures, after the first its own.

An answer to a train question costs a fraction of a trial on dev, and a text may need several changes before
any of them shows in a score.
"""

ANSWERS_PER_REFLECTION = 12
"""The most train questions that are answered for one reflection."""

BLOCK = 6
"""The train questions that are answered at a time, until enough have failed."""

FAILURES = 6
"""The most failed questions that the teacher reads in one reflection."""

DRAWS = 2
"""The most replies of the teacher in one reflection, when the first cannot be used."""

REFLECTION = ANSWERS_PER_REFLECTION + FAILURES
"""The cost of a reflection in answers to questions: the teacher reads so many again."""

_UNITE = (
    " Another instruction for the same task does better on other questions. Write one that keeps what each "
    "of the two does well, without contradictions. The other instruction: "
)


@dataclass(slots=True)
class _ChildPlan:
    """A child that is being written, number `turn` of the study.

    `text` is the instruction of the call `predictor` so far, the parent's at first. `other` is a text to
    unite it with. `examples` are the failures to reflect on next.
    """

    turn: int
    parent: TrialResult
    other: str = ""
    predictor: str = ""
    text: str = ""
    changed: bool = False
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
        """Returns whether a round is due after `done` trials, the baseline included.

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
        """Runs the next round after `trials` and stores it. Raises BudgetExhausted."""
        number, builder = len(self.held) + 1, self._builder
        builder.progress.phase(f"instructions, round {number} of {self._most}", None)
        children, steps = self._size(number, trials)
        with counting(Counters()) as spent:
            texts, written = await self._evolve(number, trials, children, steps)
        result = Round(len(trials), texts, tuple(written), spent.invariant())
        builder.put_round(round_name(number), result)
        self.held.append(result)
        new = sum(len(added) for by_name in texts.values() for added in by_name.values())
        why = "no reply of the teacher could be used" if children else "the budget is too small for more"
        builder.progress.note(
            f"instructions, round {number}: {new} written, {len(written)} to try"
            + ("" if written else f"; {why}")
        )
        return result

    def _size(self, number: int, trials: Sequence[TrialResult]) -> tuple[int, int]:
        """Returns the children of round `number` and the reflections on each, decided once a study.

        (0, 0) if the budget does not last for one of them and the batch of its trial.
        """
        builder, name = self._builder, f"size:{round_name(number)}"
        if (saved := builder.attribute(name)) is not None:
            return int(saved[0]), int(saved[1])
        left = self._questions_left(trials[0])
        size = next(
            (
                (children, steps)
                for children in range(self._children, 0, -1)
                if (steps := max(0, math.floor(min(left / children / REFLECTION, STEPS))))
            ),
            (0, 0),
        )
        builder.put_attribute(name, size)
        return size

    def _questions_left(self, base: TrialResult) -> float:
        """Returns the answers that the budget still allows before the next batch and the test questions.

        The answers of the baseline `base` say what one costs.
        """
        task, dev = self._task, len(base.scores)
        left = task.answers_left(base.counters, len(base.scores))
        return left - task.tested * len(task.test) - min(task.batch, self._trials) * dev

    async def _evolve(
        self, number: int, trials: Sequence[TrialResult], most: int, steps: int
    ) -> tuple[dict[str, dict[str, list[str]]], list[Candidate]]:
        """Returns the new texts of round `number` by program and predictor, and the children that have them.

        At most `most` children, each after at most so many `steps`.
        """
        task, builder = self._task, self._builder
        rng = random.Random(f"round {task.seed} {number}")
        pool = ParentPool.of(promising_trials(trials, task.objectives), task.pick)
        bench = Harness(task, builder.limit, Silent())
        tried_marks = {trial.candidate.mark for trial in trials}
        plans, children = list[_ChildPlan](), list[Candidate]()
        for turn in range(most):
            pair = pool.draw_pair(rng) if number > 1 and turn == most - 1 else None
            if pair and (united := combine(*pair)) is not None and united.mark not in tried_marks:
                children.append(united)
                continue
            number_of = (number - 1) * self._children + turn
            plan = await self._plan_union(number_of, *pair) if pair else None
            plans.append(plan or _ChildPlan(number_of, pool.draw(rng)))
        await self._write(bench, plans, steps)
        texts: dict[str, dict[str, list[str]]] = {}
        for plan in plans:
            if not plan.changed:
                continue
            candidate = plan.parent.candidate
            mine = texts.get(candidate.program, {}).get(plan.predictor, [])
            known = [*(await builder.instruction_texts(candidate.program))[plan.predictor], *mine]
            if not new_texts(known, [plan.text], (), 1, train=NO_TEXTS):
                continue
            texts.setdefault(candidate.program, {})[plan.predictor] = [*mine, plan.text]
            at = len(known)
            children.append(replace(candidate, instructions={**candidate.instructions, plan.predictor: at}))
        return texts, children

    async def _plan_union(self, turn: int, first: TrialResult, other: TrialResult) -> _ChildPlan | None:
        """Returns the plan to unite the texts of the first call where both parents have new ones; None if
        none.
        """
        texts = await self._builder.instruction_texts(first.candidate.program)
        for name, number in sorted(first.candidate.instructions.items()):
            second = other.candidate.instructions.get(name, 0)
            if number and second and number != second:
                return _ChildPlan(turn, first, texts[name][second], name)
        return None

    async def _write(self, bench: Harness, plans: Sequence[_ChildPlan], steps: int) -> None:
        """Writes the texts of `plans`, each in at most `steps` reflections.

        A plan ends earlier when no question fails, or when no reply is usable.
        """
        writing = list(plans)
        for step in range(steps):
            rows = list[Row]()
            for plan in writing:
                rows += await self._read_failures(bench, plan, step)
            writing = [plan for plan in writing if plan.examples]
            writing = await self._reflect(bench, writing, rows)
            for plan in writing:
                plan.other = ""

    async def _read_failures(self, bench: Harness, plan: _ChildPlan, step: int) -> list[Row]:
        """Answers train questions with the child so far and gives `plan` the failed ones as examples.

        Returns all rows. The questions are in an order drawn with the seed; every reflection begins a block
        further. The first reflection chooses the call to rewrite, in turn among the calls of failed
        questions.
        """
        candidate = plan.parent.candidate
        program = await self._builder.program(candidate)
        for name, call in program.named_predictors():
            if plan.changed and name == plan.predictor:
                call.signature = call.signature.with_instructions(plan.text)
        rows = await self._answer(bench, program, (plan.turn * STEPS + step) * BLOCK)
        failed = [row for row in rows if bench.value(row) < bench.best][:FAILURES]
        texts = await self._builder.instruction_texts(candidate.program)
        calls = {
            name: shown
            for name in texts
            if (shown := [example for row in failed if (example := example_of(bench, row, name)) is not None])
        }
        if not step and plan.predictor not in calls:
            plan.other, plan.predictor = "", list(calls)[plan.turn % len(calls)] if calls else ""
        if not step and plan.predictor:
            plan.text = texts[plan.predictor][candidate.instructions.get(plan.predictor, 0)]
        plan.examples = calls.get(plan.predictor, [])
        return rows

    async def _answer(self, bench: Harness, program: RagProgram, start: int) -> list[Row]:
        """Answers train questions with `program` from position `start` on, until enough have failed."""
        order = list(self._task.train)
        random.Random(f"rounds {self._task.seed}").shuffle(order)
        start %= len(order)
        order = (order[start:] + order[:start])[:ANSWERS_PER_REFLECTION]
        rows = list[Row]()
        while len(rows) < len(order) and sum(bench.value(row) < bench.best for row in rows) < FAILURES:
            rows += await bench.rows(program, order[len(rows) : len(rows) + BLOCK])
        return rows

    async def _reflect(
        self, bench: Harness, plans: Sequence[_ChildPlan], rows: Sequence[Row]
    ) -> list[_ChildPlan]:
        """Reflects once on each of `plans` and returns those whose text changed."""
        train, golds = self._task.train, [gold for question in self._task.train for gold in question.answers]
        copied = TrainTexts.of(train, rows)
        waiting, changed = list(plans), list[_ChildPlan]()
        for draw in range(DRAWS if plans else 0):
            jobs = [
                partial(
                    rewrite,
                    bench,
                    plan.predictor,
                    plan.text,
                    plan.examples,
                    plan.turn * DRAWS + draw,
                    _UNITE + plan.other if plan.other else "",
                )
                for plan in waiting
            ]
            if not jobs:
                break
            replies = await run_in_harness(bench, partial(run_parallel, jobs, self._task.in_flight))
            for plan, reply in zip(tuple(waiting), replies, strict=True):
                usable = new_texts([plan.text], [reply], golds, 1, train=copied)
                if usable and await self._builder.fits(plan.parent.candidate, {plan.predictor: usable[0]}):
                    plan.text, plan.changed = usable[0], True
                    changed.append(plan)
                    waiting.remove(plan)
        return [plan for plan in plans if plan in changed]


def combine(first: TrialResult, other: TrialResult) -> Candidate | None:
    """Returns the candidate of `first` with some instructions of `other`; None if that is no new combination.

    A call that only one parent rewrote has that text. Of the calls that both rewrote, in the order of their
    names, every second has the text of `other`.
    """
    mine, theirs = first.candidate.instructions, other.candidate.instructions
    differing = [name for name in sorted({*mine, *theirs}) if mine.get(name, 0) != theirs.get(name, 0)]
    both = [name for name in differing if mine.get(name) and theirs.get(name)]
    chosen: Mapping[str, Any] = {
        **{name: number for name in differing if (number := theirs.get(name, 0)) and name not in both},
        **{name: theirs[name] for name in both[1::2]},
    }
    united = {**mine, **chosen}
    if united == dict(mine) or united == dict(theirs):
        return None
    return replace(first.candidate, instructions=united)
