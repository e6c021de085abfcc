"""PrefRAG: search step by step, the preferred source first, and grade the answer before it is given.

Paper: PrefRAG, sections 3.2 and 3.3 and appendix B.3; the loop and its budget follow the authors' code,
where the grade comes with the answer and a step may answer before any search. `sources.py` says which
source a step searches.
Calls: at most max_step + 1 steps and two more for each supplement, a comparison for each search but the
first, a grade for each answer if `reflect_mode` is separate, and one answer when no step gave one.
Differs: a search that a step asks for is made whatever answer comes with it, as typed steps fill every
field (in the code an answer wins); steps are told to answer from results, not from memory, and so to search
first, though an answer before any search is still taken; a step that cannot be read ends the search and the
answer is forced; a step that added nothing is sampled anew, and ends the search at temperature 0, or when
it asks again for what was searched everywhere; replies are limited to 412 tokens beside the answer (steps)
and 256 (comparison, grade), not 4096; the wording of the answer is in the instructions, not beside the
question; what does not fit the context is left out, oldest first. Chunks are cut at 500 tokens, not 512.
After a bad grade every source that may be searched is searched; without `pref` that is the preferred one
alone, unless the choice is free. With `strict_budget` an answer at the last step is given whatever its grade.
"""

from __future__ import annotations

from typing import Any

import dspy

from ragc.core import counters
from ragc.programs.calls.predict import RagPredict
from ragc.programs.prefrag import PrefRagKnobs
from ragc.programs.prefrag.sources import SourceChoice
from ragc.programs.prefrag.trajectory import (
    Run,
    Trajectory,
    collect_passages,
    render_trajectory,
    shrink_trajectory,
)
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Note, record, together
from ragc.signatures.step import FINISH, ForcedAnswer, Reflect, agent_step

_BESIDE = 412
"""Tokens of a step's reply beside those of the answer: thought, query and grade."""


def _blank_if_none(text: str) -> str:
    """`text`, or nothing when it says that it is left empty."""
    text = text.strip()
    return "" if text.casefold() == "none" else text


def _bad(grade: str) -> bool:
    """Whether `grade` is negative; its words may stand in a longer text."""
    return any(word in grade.upper() for word in ("PARTIALLY", "INCORRECT"))


class PrefRag(SourceChoice):
    """Steps over a preferred source and one or more others, then an answer."""

    call_knobs = (
        "max_step", "strict_budget", "pref", "pref_style", "compare_first", "reflect", "reflect_mode",
        "max_supplements",
    )  # fmt: skip

    def __init__(self, runtime: Runtime, knobs: PrefRagKnobs) -> None:
        super().__init__(runtime, knobs)
        graded = knobs.reflect and knobs.reflect_mode == "joint"
        signature = agent_step(tuple(self.tools), graded=graded)
        self.step = self.answer_call(self.reading(signature), also=("",), extra_tokens=_BESIDE)
        if knobs.reflect and not graded:
            self.grade = self.predictor(Reflect, max_tokens=256)
        self.answer = self.answer_call(self.reading(ForcedAnswer))

    def most_calls(self) -> int:
        """Steps, comparisons and grades, and the forced answer."""
        return int(self.knobs.most_calls())

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Take steps until one answers `question`, or none is left and the answer is forced."""
        run = Run(question, left=self.knobs.max_step + (0 if self.knobs.strict_budget else 1))
        while run.left:
            run.left -= 1
            reply = await self._next(run)
            if reply is None:
                break
            action, query, answer = (
                _blank_if_none(reply.action),
                _blank_if_none(reply.action_input),
                _blank_if_none(reply.answer),
            )
            action = action.casefold()
            if action in self.tools and query:
                await self._search(run, reply, action, query)
            elif answer:
                review = await self._review(run, reply, answer)
                if review is None:
                    return self._prediction(run, answer)
                await self._supplement(run, reply.thought, answer, review)
            elif action in ("", FINISH):
                record(Note("step", "finished without an answer"))
                break
            else:
                self._drop(run, reply)
        record(Note("answer", "forced: no step gave one"))
        forced = await self.answer.acall(**self._inputs(self.answer, run))
        return self._prediction(run, forced.answer)

    async def _next(self, run: Run) -> Any:
        """The next step; None when it cannot be read."""
        tools = [f"{action}: {about}" for action, (_, about) in self.tools.items()]
        inputs = self._inputs(self.step, run, tools=tools, max_step=self.knobs.max_step)
        return await self.step.try_call(**inputs, config={"rollout_id": run.again})

    def _inputs(self, call: RagPredict, run: Run, **more: Any) -> dict[str, Any]:
        """What `call` is given: `more`, the question, and as much of the trajectory as fits."""

        def inputs(turns: Trajectory) -> dict[str, Any]:
            return {**more, "question": run.question, "trajectory": render_trajectory(turns)}

        run.shown = self.shrink_to_fit(call, run.turns, inputs, shrink_trajectory)
        return inputs(run.shown)

    async def _search(self, run: Run, reply: Any, action: str, query: str) -> None:
        """Search as the step asks; one that asks again for what all sources were asked ends the steps."""
        passages = await self.search_preferred_first(run, self.tools[action][0], query)
        if passages is None:
            self._drop(run, reply)
            run.left = 0
        else:
            label = action.capitalize().replace("_", " ")
            run.add((("Thought", reply.thought), (label, query)), passages)

    def _drop(self, run: Run, reply: Any) -> None:
        """Pass over an unknown tool, an empty query or a search made before; the step is spent."""
        counters.count(dropped=1)
        record(Note("step", f"dropped: {reply.action}: {reply.action_input}"))
        run.again += 1
        if not self.knobs.temperature:
            run.left = 0

    async def _review(self, run: Run, reply: Any, answer: str) -> Any:
        """The grade of `answer` when it is bad and may be worked on, else None."""
        knobs = self.knobs
        spent = run.counts["supplements"] == knobs.max_supplements or (knobs.strict_budget and not run.left)
        if not knobs.reflect or spent:
            return None
        if knobs.reflect_mode == "separate":
            reply = await self.grade.try_call(**self._inputs(self.grade, run, answer=answer))
        return reply if reply is not None and _bad(reply.grade) else None

    async def _supplement(self, run: Run, thought: str, answer: str, review: Any) -> None:
        """Search all sources with the question itself; two more steps follow unless the budget is strict."""
        run.counts["supplements"] += 1
        record(Note("supplement", f"{answer!r} is {review.grade}"))
        results = await together(*(self.search_source(run, name, run.question) for name in self.used))
        wrote = (
            ("Thought", thought),
            ("Answer", answer),
            ("Grade", review.grade),
            ("Explanation", review.explanation),
            ("Improvement", review.improvement),
        )
        run.add(wrote, tuple(passage for passages in results for passage in passages))
        run.left += 0 if self.knobs.strict_budget else 2

    def _prediction(self, run: Run, answer: str) -> dspy.Prediction:
        """`answer` with the passages last shown, and how often each source was asked and used."""
        return dspy.Prediction(answer=answer, passages=collect_passages(run.shown), tallies=self.tallies(run))
