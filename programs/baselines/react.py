"""What searches step by step, with thoughts or with follow-up questions.

React: thought, action and observation over a local source and the web.
Paper: ReAct in PrefRAG's form (PrefRAG, sections 4.2 and 5.3, appendix B.3): no lookup tool; `tools` is
`choice`, one search tool for each source and the model picks, or `concat`, one tool that gives what both
find, local first; at most `max_step` steps, then an answer is forced.
Calls: at most `max_step` steps and one answer.
Differs: no fixed demonstrations, the compiler finds them; typed actions take the place of text markers, so a
malformed step is asked for again by the predictor's repair call, and one that stays unreadable ends the
steps; a search without words, or one made before (`no_repeats`), is answered by saying so; finishing without
an answer, or with none of the options that `answer_format` has, forces one, where ReAct's code gives an empty
answer; the word "none" is no answer, as prompts write it for an empty list, and as a query it stands for the
question. What does not fit the context is left out: the last passage of the longest observation first, then
whole steps from the oldest. Chunks are cut at 500 tokens, not 512, and a step has 256 reply tokens (more
where the answer may be long), not 4096. Every passage that the last call was shown is in `passages`.

SelfAsk: the model asks itself follow-up questions until it can answer.
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

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import dspy

from ragc.core import counters
from ragc.programs.base import RagProgram, format_passage
from ragc.programs.baselines.knobs import ReactKnobs, SelfAskKnobs
from ragc.programs.calls.predict import RagPredict
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Note, record, together
from ragc.records import Passage
from ragc.signatures.answer import apply_format, blank_if_nothing, step_answer, text_tokens
from ragc.signatures.step import AnswerFromSteps, IntermediateAnswer, ReactConcatStep, ReactStep, SelfAskStep

_THOUGHT = 156  # tokens of a step beside its action's input


@dataclass(frozen=True, slots=True)
class TakenStep:
    """A thought, the action that followed with its input, and the passages found.

    `cut` says that passages were left out because they did not fit, `repeated` that the same search was made
    before and is refused.
    """

    thought: str
    action: str
    text: str
    passages: tuple[Passage, ...] = ()
    cut: bool = False
    repeated: bool = False

    def render(self) -> str:
        """Returns the step as a prompt shows it."""
        head = f"Thought: {self.thought}\nAction: {self.action}"
        if not self.text:
            return f"{head}, refused because it said nothing to search for"
        head = f"{head}: {self.text}"
        if self.action == "finish":
            return head
        if self.repeated:
            return f"{head}, refused because it was searched before"
        missing = "left out" if self.cut else "nothing"
        listing = "\n".join(f"- {format_passage(p)}" for p in self.passages) or missing
        return f"{head}\nFound:\n{listing}"


def shrink_steps(steps: tuple[TakenStep, ...]) -> tuple[TakenStep, ...]:
    """Returns `steps` without the last passage of the longest observation, or without the oldest step."""
    at = max(range(len(steps)), key=lambda at: len(steps[at].passages))
    if not steps[at].passages:
        return steps[1:]
    less = replace(steps[at], passages=steps[at].passages[:-1], cut=True)
    return (*steps[:at], less, *steps[at + 1 :])


class React(RagProgram):
    """Steps of the role main, with searches of `local` and `web` between them."""

    def __init__(self, runtime: Runtime, knobs: ReactKnobs) -> None:
        super().__init__(runtime, knobs)
        self.used = {name: self.cut_source(name) for name in ("local", "web")}
        signature = ReactStep if knobs.tools == "choice" else ReactConcatStep
        self.step = self.predictor(
            self.reading(apply_format(signature, knobs.answer_format)),
            max_tokens=_THOUGHT + text_tokens(knobs.answer_format),
        )
        self.answer = self.answer_call(self.reading(AnswerFromSteps))

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Thinks and searches until the model finishes, then returns its answer to `question`."""
        steps: tuple[TakenStep, ...] = ()
        earlier: set[tuple[str, str]] = set()
        tallies = {"total_local": 0, "total_web": 0, "forced": 0}
        for _ in range(self.knobs.max_step):
            steps = self._fit_steps(self.step, question, steps)
            reply = await self.step.try_call(question=question, trajectory=[s.render() for s in steps])
            if reply is None:
                break
            text = reply.action_input.strip()
            if reply.action == "finish":
                if answer := step_answer(text, self.knobs.answer_format):
                    return self._prediction(answer, steps, tallies)
                counters.count(dropped=1)
                text = blank_if_nothing(text)
                record(Note("finish", f"not an answer as asked for: {text}" if text else "without an answer"))
                steps = (*steps, TakenStep(reply.thought, reply.action, text)) if text else steps
                break
            if text and not blank_if_nothing(text):
                record(Note(reply.action, "nothing to search for: the question itself is searched"))
                text = question
            search = (reply.action, text.casefold())
            if self.knobs.no_repeats and text and search in earlier:
                counters.count(dropped=1)
                record(Note(reply.action, f"refused, as it was searched before: {text}"))
                steps = (*steps, TakenStep(reply.thought, reply.action, text, repeated=True))
                continue
            earlier.add(search)
            passages = await self._retrieve(reply.action, text, tallies)
            steps = (*steps, TakenStep(reply.thought, reply.action, text, passages))
        tallies["forced"] = 1
        record(Note("answer", "forced: the steps gave none"))
        steps = self._fit_steps(self.answer, question, steps)
        forced = await self.answer.acall(question=question, trajectory=[s.render() for s in steps])
        return self._prediction(blank_if_nothing(forced.answer), steps, tallies)

    @staticmethod
    def _prediction(answer: str, steps: Sequence[TakenStep], tallies: dict[str, int]) -> dspy.Prediction:
        passages = tuple(dict.fromkeys(p for step in steps for p in step.passages))
        used = {"used": tallies["total_local"] + tallies["total_web"], "used_local": tallies["total_local"]}
        return dspy.Prediction(answer=answer, passages=passages, tallies={**tallies, **used})

    async def _retrieve(self, action: str, query: str, tallies: dict[str, int]) -> tuple[Passage, ...]:
        """Returns what the search `action` finds for `query`; nothing for a query without words."""
        if not query:
            counters.count(dropped=1)
            record(Note(action, "nothing to search for"))
            return ()
        names = tuple(self.used) if action == "search" else (action,)
        for name in names:
            tallies[f"total_{name}"] += 1
        depths = {"local": self.knobs.k_local, "web": self.knobs.k_web}
        lists = await together(
            *(self.find(name, query, depths[name], source=self.used[name]) for name in names)
        )
        return tuple(dict.fromkeys(passage for passages in lists for passage in passages))

    def _fit_steps(
        self, call: RagPredict, question: str, steps: tuple[TakenStep, ...]
    ) -> tuple[TakenStep, ...]:
        """Returns `steps`, shortened until they fit the context of `call`."""
        return self.shrink_to_fit(
            call,
            steps,
            lambda subset: {"question": question, "trajectory": [s.render() for s in subset]},
            shrink_steps,
        )


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
        found = await self.find("local", follow_up, self.knobs.top_k, source=self.local)
        passages = self.passages_that_fit(self.read, found, question=follow_up)
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
