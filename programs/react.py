"""React: thought, action and observation over a local source and the web.

Paper: ReAct in PrefRAG's form (METHODS section 6): no lookup tool; `tools` is `choice`, one search tool for
each source and the model picks, or `concat`, one tool that gives what both find, local first; at most
`max_step` steps, then an answer is forced. Calls: at most `max_step` steps and one answer.
Differs: no fixed demonstrations, the compiler finds them; typed actions take the place of text markers,
so a malformed step is asked for again by the predictor's repair call, and one that stays unreadable ends
the steps; a search without words is answered by saying so, and finishing without an answer forces one,
where ReAct's code gives an empty answer. What does not fit the context is left out: the last passage of
the longest observation first, then whole steps from the oldest. Chunks are cut at 500 tokens, not 512,
and a step has 256 reply tokens, not 4096. Every passage that the last call was shown is in `passages`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import dspy

from ragc import counters
from ragc.corpora.neutral import neutral
from ragc.errors import ParseFailure
from ragc.programs.base import RagProgram, shown
from ragc.programs.iterative_knobs import ReactKnobs
from ragc.programs.predict import RagPredict
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Note, record, together
from ragc.records import Passage
from ragc.signatures.answers import worded
from ragc.signatures.steps import AnswerFromSteps, ReactConcatStep, ReactStep


@dataclass(frozen=True, slots=True)
class Step:
    """A thought, the search that followed (`tool` and `query`), and the passages it found."""

    thought: str
    tool: str
    query: str
    passages: tuple[Passage, ...]

    def shown(self) -> str:
        """The step as it stands in a prompt."""
        thought, query = neutral(self.thought), neutral(self.query)
        if not query:
            return f"Thought: {thought}\nAction: {self.tool}, refused because it said nothing to search for"
        found = "\n".join(f"- {shown(p)}" for p in self.passages) or "nothing"
        return f"Thought: {thought}\nAction: {self.tool}: {query}\nFound:\n{found}"


class React(RagProgram):
    """Steps of main with searches of `local` and `web` between them."""

    def __init__(self, runtime: Runtime, knobs: ReactKnobs) -> None:
        super().__init__(runtime, knobs)
        cut = (knobs.chunk_size, knobs.overlap)
        self.used = {name: runtime.source(name).rechunked(*cut) for name in ("local", "web")}
        signature = ReactStep if knobs.tools == "choice" else ReactConcatStep
        self.step = self.predictor(worded(signature, knobs.answer_format), max_tokens=256)
        self.answer = self.answering(AnswerFromSteps)

    def most_calls(self) -> int:
        """Every step and a forced answer."""
        return int(self.knobs.max_step) + 1

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Think and search until the model finishes, then give its answer to `question`."""
        steps: tuple[Step, ...] = ()
        tallies = {"total_local": 0, "total_web": 0, "forced": 0}
        for _ in range(self.knobs.max_step):
            steps = self._fitted(self.step, question, steps)
            said = await self._next(question, steps)
            if said is None:
                break
            if said.action == "finish":
                if answer := said.action_input.strip():
                    return self._prediction(answer, steps, tallies)
                counters.count(dropped=1)
                record(Note("finish", "without an answer"))
                break
            steps = (*steps, await self._acted(said, tallies))
        tallies["forced"] = 1
        record(Note("answer", "forced: the steps gave none"))
        steps = self._fitted(self.answer, question, steps)
        forced = await self.answer.acall(question=question, steps=[s.shown() for s in steps])
        return self._prediction(forced.answer, steps, tallies)

    @staticmethod
    def _prediction(answer: str, steps: Sequence[Step], tallies: dict[str, int]) -> dspy.Prediction:
        passages = tuple(dict.fromkeys(p for step in steps for p in step.passages))
        return dspy.Prediction(answer=answer, passages=passages, tallies=tallies)

    async def _next(self, question: str, steps: Sequence[Step]) -> Any:
        """The next thought and action; None when the reply cannot be read."""
        try:
            return await self.step.acall(question=question, steps=[s.shown() for s in steps])
        except ParseFailure:
            record(Note("step", "its reply could not be read"))
            return None

    async def _acted(self, said: Any, tallies: dict[str, int]) -> Step:
        """The step that `said` asks for, with what its search finds."""
        query = said.action_input.strip()
        if not query:
            counters.count(dropped=1)
            record(Note(said.action, "nothing to search for"))
            return Step(said.thought, said.action, "", ())
        names = tuple(self.used) if said.action == "search" else (said.action,)
        for name in names:
            tallies[f"total_{name}"] += 1
        wanted = {"local": self.knobs.k_local, "web": self.knobs.k_web}
        found = await together(
            *(self.search(name, query, wanted[name], source=self.used[name]) for name in names)
        )
        passages = tuple(dict.fromkeys(hit.passage for hits in found for hit in hits))
        return Step(said.thought, said.action, query, passages)

    def _fitted(self, call: RagPredict, question: str, steps: tuple[Step, ...]) -> tuple[Step, ...]:
        """`steps` with as many passages as fit the context of `call`; the rest are counted as trimmed."""
        room = self.runtime.target(call.role).context_tokens
        kept, trimmed = list(steps), 0
        while kept and call.size(question=question, steps=[s.shown() for s in kept]) > room:
            longest = max(range(len(kept)), key=lambda at: len(kept[at].passages))
            passages = kept[longest].passages
            if passages:
                kept[longest] = replace(kept[longest], passages=passages[:-1])
                trimmed += 1
            else:
                del kept[0]
        if trimmed:
            counters.count(trimmed=trimmed)
        return tuple(kept)
