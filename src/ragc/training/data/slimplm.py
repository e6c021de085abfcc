"""Labels for SlimPLM's judge of necessity to search, and the teacher's rewrites for its query writer.

Paper: SlimPLM, sections 3.2 and 3.3 and appendix A. The proxy model drafts an answer. The matching ratio is
the share of the gold answers, aliases counted apart, that the draft contains after normalisation; above the
knob `known_theta` the question is known. Known questions are the fewer, so an unknown one is kept only where
a known one before it has left a credit. For the query writer the teacher takes the question apart, and the
draft into claims, each with a query and whether it needs a search.
Differs: the annotations are typed calls without examples, and parts and claims that share no word with what
they are taken from are left out, as the program leaves them out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import dspy

from ragc.metrics.short_answer import slim_em
from ragc.programs.slimplm.program import Label, SlimPLM, demonstration, usable_items
from ragc.programs.trace import together
from ragc.records import Question
from ragc.signatures.claims import QuestionSplit, judgements
from ragc.targets.base import Sampling
from ragc.task.answering import answer
from ragc.task.base import Task
from ragc.training.data.base import (
    Gathered,
    Item,
    Row,
    Selection,
    all_items,
    as_run,
    conversation,
    drop_repeated,
    reply,
    teacher_call,
)

KNOWN, UNKNOWN = "known", "unknown"
NO_DRAFT = "a draft that could not be read, or was empty"
NO_CREDIT = "unknown, and no known question before it to balance it"
UNREADABLE = "an annotation that could not be read"
NOTHING_USABLE = "an annotation without a part or claim of use"
LEFT_OUT = "a part or claim without a query, or of something else"

_ANNOTATING = Sampling(temperature=0.01, max_tokens=512)


def is_known(ratio: float, theta: float) -> bool:
    """Returns SlimPLM's label: whether the matching ratio is above `theta`."""
    return ratio > theta


def balance(items: Sequence[Item]) -> Selection:
    """Returns `items` without unknown ones for which no earlier known one balances them."""
    credit, dropped, taken = 0, 0, []
    for item in items:
        if item.label == KNOWN:
            credit += 1
        elif credit:
            credit -= 1
        else:
            dropped += 1
            continue
        taken.append(item)
    return Selection(tuple(taken), {NO_CREDIT: dropped} if dropped else {})


class Drafts(SlimPLM):
    """SlimPLM up to the proxy's draft, which is the prediction."""

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Returns the draft; an empty one if it is unreadable."""
        return await self._draft_alone(question)


def _program(task: Task) -> Drafts:
    knobs: Any = task.recipe.settings()
    program: Drafts = as_run(
        Drafts(task.runtime, replace(knobs, use_qj=True, use_qr=True, use_qf=True)), task
    )
    return program


class JudgeLabels:
    """Rows of slimplm-labels over a task, or conversations of the judge.

    Raises UsageError without a proxy.
    """

    needs_gold = True
    roles = ("proxy",)
    calls = 1

    def __init__(self, task: Task, *, judge: bool = False) -> None:
        self.task, self._judge = task, judge
        self._drafts = _program(task)
        self.theta = self._drafts.knobs.known_theta

    @property
    def facts(self) -> dict[str, Any]:
        """The rule of the labels."""
        balanced = "yes" if self.task.recipe.training_data.balance else "no"
        return {"known": f"matching ratio above {self.theta:g}", "balanced": balanced}

    @property
    def longest_reply(self) -> int:
        """The limit of a draft, in tokens."""
        return self._drafts.draft.sampling.max_tokens

    async def collect(self, question: Question) -> Gathered:
        """Returns the label of `question`; none without a draft."""
        gathered = Gathered(question)
        draft = (await answer(self._drafts, question)).prediction
        if not draft:
            gathered.drops[NO_DRAFT] += 1
            return gathered
        ratio = slim_em(draft, question.answers)
        known = is_known(ratio, self.theta)
        row = self._conversation(question, draft, known) if self._judge else _label(question, known, ratio)
        gathered.items.append(Item(row, KNOWN if known else UNKNOWN))
        return gathered

    def _conversation(self, question: Question, draft: str, known: bool) -> Row:
        """Returns the judge's call with the right judgement."""
        call = self._drafts.judge
        inputs = {"question": question.question, "heuristic_answer": draft}
        label: Label = (question.question, draft, "yes" if known else "no")
        outputs = demonstration(label, call.signature.output_fields)
        return {"messages": [*conversation(call, inputs), reply(call, outputs)]}

    def select(self, gathered: Sequence[Gathered]) -> Selection:
        """Returns the labels in the order of the questions, balanced if the recipe says so."""
        items = all_items(gathered)
        return balance(items) if self.task.recipe.training_data.balance else Selection(tuple(items))


def _label(question: Question, known: bool, ratio: float) -> Row:
    return {"id": question.id, "question": question.question, "known": known, "ratio": round(ratio, 6)}


class Rewrites:
    """Rows of slimplm-rewrites over a task. Raises UsageError without a proxy or a teacher."""

    needs_gold = False
    roles = ("proxy", "teacher")
    calls = 3

    def __init__(self, task: Task) -> None:
        self.task = task
        self._drafts = drafts = _program(task)
        self._parts = teacher_call(drafts.parts, QuestionSplit, sampling=_ANNOTATING)
        split = judgements(drafts.knobs.judge_asks, "text").split
        self._claims = teacher_call(drafts.claims, split, sampling=_ANNOTATING)

    @property
    def facts(self) -> dict[str, Any]:
        """No facts beside those of every card."""
        return {}

    @property
    def longest_reply(self) -> int:
        """The greatest limit of a reply of any call."""
        return max(self._drafts.draft.sampling.max_tokens, _ANNOTATING.max_tokens)

    async def collect(self, question: Question) -> Gathered:
        """Returns the parts of `question`, and the claims of the proxy's draft."""
        gathered, text = Gathered(question), question.question
        draft = (await answer(self._drafts, question)).prediction
        if not draft:
            gathered.drops[NO_DRAFT] += 1
        split, claims = await together(
            self._parts.try_call(question=text),
            _nothing() if not draft else self._claims.try_call(question=text, heuristic_answer=draft),
        )
        program = self._drafts
        self._add(gathered, program.parts, {"question": text}, split, ("questions", "question"), text)
        if draft:
            inputs = {"question": text, "heuristic_answer": draft}
            self._add(gathered, program.claims, inputs, claims, ("claims", "claim"), f"{text} {draft}")
        return gathered

    @staticmethod
    def _add(
        gathered: Gathered, call: Any, inputs: Row, annotated: Any, names: tuple[str, str], text: str
    ) -> None:
        """Adds the annotation as the reply to `call`; `names` are those of the list and of its items."""
        if annotated is None:
            gathered.drops[UNREADABLE] += 1
            return
        items = getattr(annotated, names[0])
        usable = usable_items(text, items, names[1])
        if left := len(items) - len(usable):
            gathered.drops[LEFT_OUT] += left
        if not usable:
            gathered.drops[NOTHING_USABLE] += 1
            return
        messages = [*conversation(call, inputs), reply(call, {names[0]: usable})]
        gathered.items.append(Item({"messages": messages}, names[0]))

    def select(self, gathered: Sequence[Gathered]) -> Selection:
        """Returns all rows in the order of the questions, each once."""
        return drop_repeated(all_items(gathered))


async def _nothing() -> None:
    return None
