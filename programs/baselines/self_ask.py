"""SelfAsk: the model asks itself follow-up questions until it can answer.

Paper: Self-Ask as SlimPLM runs it (SlimPLM, section 4.3, appendix B and Table 10): each round the model
asks a follow-up question or answers; a follow-up is searched for, and the model reads what is found and
answers it in a sentence. Calls: at most `rounds` steps, `rounds` readings and one answer at the end.
Differs: no fixed demonstrations, the compiler finds them; a typed kind of step takes the place of text
markers; the paper's three rounds are three steps, readings not counted; when the rounds are spent, or a step
is empty, cannot be read or answers with none of the options that `answer_format` has, an answer is asked for
where the authors' code gives an empty one; the word "none" is no answer, as prompts write it for an empty
list, and as the first follow-up it stands for the question; a follow-up that finds nothing is marked so
without a call; 3 passages are read as in Vanilla, the paper does not say how many; steps that do not fit the
context are left out from the oldest. `passages` are all that were read, in order: the last call sees only
what was made of them.
"""

from __future__ import annotations

from typing import Any

import dspy

from ragc.core import counters
from ragc.programs.base import RagProgram, format_passage
from ragc.programs.baselines.knobs import SelfAskKnobs
from ragc.programs.calls.predict import RagPredict
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Note, record
from ragc.records import Passage
from ragc.signatures.answer import apply_format, blank_if_nothing, step_answer, text_tokens
from ragc.signatures.step import AnswerFromSteps, IntermediateAnswer, SelfAskStep

_NOTHING = "nothing was found"


class SelfAsk(RagProgram):
    """Steps of the role main; each follow-up question is searched in `local` and read by main."""

    def __init__(self, runtime: Runtime, knobs: SelfAskKnobs) -> None:
        super().__init__(runtime, knobs)
        self.local = self.cut_source("local")
        self.step = self.predictor(
            self.answering(apply_format(SelfAskStep, knobs.answer_format)),
            max_tokens=text_tokens(knobs.answer_format),
        )
        self.read = self.predictor(self.reading(IntermediateAnswer), max_tokens=100)
        self.answer = self.answer_call(self.answering(AnswerFromSteps))

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Asks and reads until the model answers `question`, then returns that answer."""
        steps: list[str] = []
        read: dict[Passage, None] = {}
        follow_ups, answer = 0, ""
        for _ in range(self.knobs.rounds):
            steps = self._fit_steps(self.step, question, steps)
            kind, text = await self._next(question, steps)
            if kind == "answer":
                answer = self._accept_answer(text)
                steps = steps if answer else [*steps, f"Concluded: {text}"]
            if kind != "follow_up":
                break
            passages, reading = await self._reading(text)
            read |= dict.fromkeys(passages)
            steps = [*steps, f"Follow-up: {text}\nAnswer: {reading}"]
            follow_ups += 1
        forced = not answer
        if forced:
            answer = await self._force_answer(question, steps)
        tallies = {"follow_ups": follow_ups, "forced": int(forced)}
        return dspy.Prediction(answer=answer, passages=tuple(read), tallies=tallies)

    async def _next(self, question: str, steps: list[str]) -> tuple[str, str]:
        """Returns the kind and text of the next step; empty if there is none to use."""
        reply = await self.step.try_call(question=question, trajectory=steps)
        if reply is None:
            return "", ""
        if text := blank_if_nothing(reply.text):
            return reply.kind, text
        if reply.kind == "follow_up" and reply.text.strip() and not steps:
            record(Note("step", "nothing to ask: the question itself is searched"))
            return reply.kind, question
        counters.count(dropped=1)
        record(Note("step", f"{reply.kind} without a text"))
        return "", ""

    def _accept_answer(self, text: str) -> str:
        """Returns `text` as the answer; "" if the answer format does not allow it."""
        answer = step_answer(text, self.knobs.answer_format)
        if not answer:
            counters.count(dropped=1)
            record(Note("step", f"not an answer as asked for: {text}"))
        return answer

    async def _reading(self, follow_up: str) -> tuple[tuple[Passage, ...], str]:
        """Returns the passages read for `follow_up` and the sentence written from them."""
        hits = await self.search("local", follow_up, self.knobs.top_k, source=self.local)
        passages = self.passages_that_fit(self.read, [hit.passage for hit in hits], question=follow_up)
        if not passages:
            return (), _NOTHING
        reply = await self.read.try_call(question=follow_up, passages=[format_passage(p) for p in passages])
        sentence = blank_if_nothing(reply.intermediate_answer) if reply is not None else ""
        return passages, sentence or _NOTHING

    async def _force_answer(self, question: str, steps: list[str]) -> str:
        """Asks for the answer from the steps so far."""
        record(Note("answer", "forced: the steps gave none"))
        steps = self._fit_steps(self.answer, question, steps)
        forced = await self.answer.acall(question=question, trajectory=steps)
        return blank_if_nothing(forced.answer)

    def _fit_steps(self, call: RagPredict, question: str, steps: list[str]) -> list[str]:
        """Returns the last of `steps`, as many as fit the context of `call`."""
        return self.shrink_to_fit(
            call,
            steps,
            lambda subset: {"question": question, "trajectory": subset},
            lambda subset: subset[1:],
        )
