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

from collections import Counter
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
from ragc.training.data.base import Collector, Gathered, Item, Row, conversation, reply, teacher_call

_ANNOTATING = Sampling(temperature=0.01, max_tokens=512)


class Drafts(SlimPLM):
    """SlimPLM up to the proxy's draft, which is the prediction."""

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Returns the draft; an empty one if it is unreadable."""
        return await self._draft_alone(question)


class DraftCollector(Collector):
    """Collects from the proxy's drafts. Raises UsageError without a proxy."""

    roles: tuple[str, ...] = ("proxy",)
    calls = 1

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        knobs = replace(self.knobs, use_qj=True, use_qr=True, use_qf=True)
        self.program: Any = self.as_run(Drafts(task.runtime, knobs))

    async def draft(self, gathered: Gathered) -> str:
        """Returns the draft for the question of `gathered`; "", counted there, without one."""
        draft = (await answer(self.program, gathered.question)).prediction or ""
        gathered.drops["a draft that could not be read, or was empty"] += not draft
        return draft


class Labels(DraftCollector):
    """Rows of slimplm-labels over a task."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.theta, self.balanced = self.program.knobs.known_theta, task.recipe.training_data.balance
        self.facts = {
            "known": f"matching ratio above {self.theta:g}",
            "balanced": "yes" if self.balanced else "no",
        }

    async def collect(self, question: Question) -> Gathered:
        """Returns the label of `question`; none without a draft."""
        gathered = Gathered(question)
        if draft := await self.draft(gathered):
            ratio = slim_em(draft, question.answers)
            row = self.row(question, draft, ratio)
            gathered.items.append(Item(row, "known" if ratio > self.theta else "unknown"))
        return gathered

    def row(self, question: Question, draft: str, ratio: float) -> Row:
        """Returns the row of a question with its draft and the matching ratio of that."""
        return {
            "id": question.id,
            "question": question.question,
            "known": ratio > self.theta,
            "ratio": round(ratio, 6),
        }

    def select(self, items: Sequence[Item], drops: Counter[str]) -> Sequence[Item]:
        """Returns the labels in the order of the questions; balanced, if the recipe says so.

        Then an unknown question, counted in `drops`, is left out unless an earlier known one balances it.
        """
        credit, taken = 0, list[Item]()
        for item in items:
            if not self.balanced or item.label == "known" or credit:
                credit += 1 if item.label == "known" else -1
                taken.append(item)
        drops["unknown, and no known question before it to balance it"] += len(items) - len(taken)
        return taken


class Judgements(Labels):
    """Rows of slimplm-judge: the same labels as the judge's calls with the right judgement."""

    def row(self, question: Question, draft: str, ratio: float) -> Row:
        """Returns the judge's call with the right judgement."""
        call = self.program.judge
        inputs = {"question": question.question, "heuristic_answer": draft}
        label: Label = (question.question, draft, "yes" if ratio > self.theta else "no")
        outputs = demonstration(label, call.signature.output_fields)
        return {"messages": [*conversation(call, inputs), reply(call, outputs)]}


class Rewrites(DraftCollector):
    """Rows of slimplm-rewrites over a task. Raises UsageError without a proxy or a teacher."""

    needs_gold = False
    roles = ("proxy", "teacher")
    calls = 3

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.parts = teacher_call(self.program.parts, QuestionSplit, sampling=_ANNOTATING)
        split = judgements(self.program.knobs.judge_asks, "text").split
        self.claims = teacher_call(self.program.claims, split, sampling=_ANNOTATING)

    async def collect(self, question: Question) -> Gathered:
        """Returns the parts of `question`, and the claims of the proxy's draft."""
        gathered, text = Gathered(question), question.question
        draft = await self.draft(gathered)
        drafted = {"question": text, "heuristic_answer": draft}
        work = [self.parts.try_call(question=text), *([self.claims.try_call(**drafted)] if draft else [])]
        split, *claims = await together(*work)
        self._add(gathered, self.program.parts, {"question": text}, split, ("questions", "question"))
        for annotated in claims:
            self._add(gathered, self.program.claims, drafted, annotated, ("claims", "claim"))
        return gathered

    @staticmethod
    def _add(gathered: Gathered, call: Any, inputs: Row, annotated: Any, names: tuple[str, str]) -> None:
        """Adds the annotation as the reply to `call`; `names` are those of the list and of its items."""
        if annotated is None:
            gathered.drops["an annotation that could not be read"] += 1
            return
        items = getattr(annotated, names[0])
        usable = usable_items(" ".join(inputs.values()), items, names[1])
        gathered.drops["a part or claim without a query, or of something else"] += len(items) - len(usable)
        gathered.drops["an annotation without a part or claim of use"] += not usable
        if usable:
            messages = [*conversation(call, inputs), reply(call, {names[0]: usable})]
            gathered.items.append(Item({"messages": messages}, names[0]))
