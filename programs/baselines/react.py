"""React: thought, action and observation over a local source and the web.

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
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import dspy

from ragc.core import counters
from ragc.programs.base import RagProgram, format_passage
from ragc.programs.baselines.knobs import ReactKnobs
from ragc.programs.calls.predict import RagPredict
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Note, record, together
from ragc.records import Passage
from ragc.signatures.answer import apply_format, blank_if_nothing, step_answer, text_tokens
from ragc.signatures.step import AnswerFromSteps, ReactConcatStep, ReactStep

_THOUGHT = 156
"""Tokens of a step beside its action's input."""


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
        hit_lists = await together(
            *(self.search(name, query, depths[name], source=self.used[name]) for name in names)
        )
        return tuple(dict.fromkeys(hit.passage for hits in hit_lists for hit in hits))

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
