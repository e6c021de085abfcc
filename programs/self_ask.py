"""SelfAsk: the model asks itself follow-up questions until it can answer.

Paper: Self-Ask as SlimPLM runs it (METHODS section 6): each round the model asks a follow-up question or
answers; a follow-up is searched for, and the model reads what is found and answers it in a sentence.
Calls: at most `rounds` steps, `rounds` readings and one answer at the end.
Differs: no fixed demonstrations, the compiler finds them; a typed kind of step takes the place of text
markers; when the rounds are spent, or a step is empty or cannot be read, an answer is asked for where the
authors' code gives an empty one; a follow-up that finds nothing is marked so without a call; 3 passages
are read as in Vanilla, the paper does not say how many; steps that do not fit the context are left out
from the oldest. `passages` are all that were read, in order: the last call sees only what was made of them.
"""

from __future__ import annotations

from typing import Any

import dspy

from ragc import counters
from ragc.corpora.neutral import neutral
from ragc.errors import ParseFailure
from ragc.programs.base import RagProgram, shown
from ragc.programs.iterative_knobs import SelfAskKnobs
from ragc.programs.predict import RagPredict
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Note, record
from ragc.records import Passage
from ragc.signatures.answers import worded
from ragc.signatures.steps import AnswerFromSteps, IntermediateAnswer, SelfAskStep

_NOTHING = "nothing was found"


class SelfAsk(RagProgram):
    """Steps of main, each follow-up searched in `local` and read by main."""

    def __init__(self, runtime: Runtime, knobs: SelfAskKnobs) -> None:
        super().__init__(runtime, knobs)
        self.local = runtime.source("local").rechunked(knobs.chunk_size, knobs.overlap)
        self.step = self.predictor(worded(SelfAskStep, knobs.answer_format), max_tokens=100)
        self.read = self.predictor(IntermediateAnswer, max_tokens=100)
        self.answer = self.answering(AnswerFromSteps)

    def most_calls(self) -> int:
        """A step and a reading each round, and a forced answer."""
        return 2 * int(self.knobs.rounds) + 1

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Ask and read until the model answers `question`, then give that answer."""
        steps: list[str] = []
        read: dict[Passage, None] = {}
        answer = ""
        for _ in range(self.knobs.rounds):
            kind, text = await self._next(question, steps)
            if kind == "answer":
                answer = text
            if kind == "answer" or not text:
                break
            passages, reading = await self._reading(text)
            read |= dict.fromkeys(passages)
            steps.append(f"Follow-up: {neutral(text)}\nAnswer: {neutral(reading)}")
        forced = not answer
        if forced:
            answer = await self._forced(question, steps)
        tallies = {"follow_ups": len(steps), "forced": int(forced)}
        return dspy.Prediction(answer=answer, passages=tuple(read), tallies=tallies)

    async def _next(self, question: str, steps: list[str]) -> tuple[str, str]:
        """The kind and text of the next step; an empty text where there is none to use."""
        try:
            said = await self.step.acall(question=question, steps=self._kept(self.step, question, steps))
        except ParseFailure:
            record(Note("step", "its reply could not be read"))
            return "", ""
        text = said.text.strip()
        if not text:
            counters.count(dropped=1)
            record(Note("step", f"{said.kind} without a text"))
        return said.kind, text

    async def _reading(self, follow_up: str) -> tuple[tuple[Passage, ...], str]:
        """The passages read for `follow_up` and the sentence made of them."""
        hits = await self.search("local", follow_up, self.knobs.top_k, source=self.local)
        passages = self.fitting(self.read, [hit.passage for hit in hits], question=follow_up)
        if not passages:
            return (), _NOTHING
        try:
            said = await self.read.acall(question=follow_up, passages=[shown(p) for p in passages])
        except ParseFailure:
            record(Note("reading", "its reply could not be read"))
            return passages, _NOTHING
        return passages, said.intermediate_answer.strip() or _NOTHING

    async def _forced(self, question: str, steps: list[str]) -> str:
        """The answer from the steps so far."""
        record(Note("answer", "forced: the steps gave none"))
        said = await self.answer.acall(question=question, steps=self._kept(self.answer, question, steps))
        return str(said.answer)

    def _kept(self, call: RagPredict, question: str, steps: list[str]) -> list[str]:
        """The last of `steps`, as many as fit the context of `call`."""
        room = self.runtime.target(call.role).context_tokens
        kept = list(steps)
        while kept and call.size(question=question, steps=kept) > room:
            kept = kept[1:]
        return kept
