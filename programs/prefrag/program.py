"""PrefRAG: search step by step, the preferred source first, and grade the answer before it is given.

Paper: PrefRAG, sections 3.2 and 3.3 and appendix B.3; the loop and its budget follow the authors' code,
where the grade comes with the answer and a step may answer before any search. `sources.py` says which
source a step searches.
Calls: at most max_step + 1 steps and two more for each supplement, a comparison for each search but the
first, a grade for each answer if `reflect_mode` is separate, and one answer when no step gave one.
Differs: a step is typed, a search or an answer; where a reply holds both, as it may without a schema, the
search is made (in the code an answer wins), and the input of a finish counts as its answer; steps are told to
answer from results, not from memory, and so to search first, though an answer before any search is still
taken; they are told how many steps may follow, beside max_step, and in the trajectory that the question
itself was searched after a bad grade; where there is one tool it is called `search`, and the paper's name
`Search_Engine` means it; passages are numbered through, also in a comparison; a step that cannot be read ends
the search and the answer is forced; a step that added nothing is sampled anew, and ends the search at
temperature 0, or when it asks again for what was searched everywhere (`no_repeats`); the grade comes behind
its explanation; replies are limited to 412 tokens beside the answer (steps) and 256 (comparison, grade), not
4096; the wording of the answer is in the instructions, not beside the question; what does not fit the context
is left out, oldest first. Chunks are cut at 500 tokens, not 512. After a bad grade every source that may be
searched is searched; without `pref` that is the preferred one alone, unless the choice is free. With
`strict_budget` an answer at the last step is given whatever its grade.
"""

from __future__ import annotations

from typing import Any

import dspy

from ragc.core import counters
from ragc.programs.calls.predict import RagPredict
from ragc.programs.prefrag import PrefRagKnobs
from ragc.programs.prefrag.sources import SourceChoice
from ragc.programs.prefrag.trajectory import (
    RunState,
    Trajectory,
    collect_passages,
    render_trajectory,
    shrink_trajectory,
)
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Note, record, together
from ragc.signatures.step import FINISH, ForcedAnswer, Move, Reflect, agent_step, read_move

_STEP_TOKENS = 412
"""Tokens of a step's reply beside those of the answer: thought, query and grade."""


def _is_negative(grade: str) -> bool:
    """Returns whether `grade` is negative; its words may be part of a longer text."""
    return any(word in grade.upper() for word in ("PARTIALLY", "INCORRECT"))


def _label(action: str) -> str:
    """Returns the name of a search in the trajectory."""
    return action.capitalize().replace("_", " ")


class PrefRag(SourceChoice):
    """Steps over a preferred source and one or more others, then an answer."""

    def __init__(self, runtime: Runtime, knobs: PrefRagKnobs) -> None:
        super().__init__(runtime, knobs)
        graded = knobs.reflect and knobs.reflect_mode == "joint"
        signature = agent_step(tuple(self.tools), graded=graded, answer_format=knobs.answer_format)
        self.step = self.answer_call(self.reading(signature), extra_tokens=_STEP_TOKENS)
        if knobs.reflect and not graded:
            self.grade = self.predictor(Reflect, max_tokens=256)
        self.answer = self.answer_call(self.reading(ForcedAnswer))

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Takes steps until one answers `question`, or none is left and the answer is forced."""
        run = RunState(question, left=self.knobs.max_step + (0 if self.knobs.strict_budget else 1))
        while run.left:
            run.left -= 1
            reply = await self._next(run)
            if reply is None:
                break
            move = read_move(reply, tuple(self.tools))
            if move.action in self.tools and move.action_input:
                await self._search(run, move)
            elif move.answer:
                review = await self._review(run, move)
                if review is None:
                    return self._prediction(run, move.answer)
                await self._supplement(run, move, review)
            elif move.action in ("", FINISH):
                record(Note("step", "finished without an answer"))
                break
            else:
                self._drop(run, move)
        record(Note("answer", "forced: no step gave one"))
        forced = await self.answer.acall(**self._inputs(self.answer, run))
        return self._prediction(run, forced.answer)

    async def _next(self, run: RunState) -> Any:
        """Returns the next step; None when it is unreadable."""
        tools = [f"{action}: {about}" for action, (_, about) in self.tools.items()]
        inputs = self._inputs(self.step, run, tools=tools, max_step=self.knobs.max_step, steps_left=run.left)
        return await self.step.try_call(**inputs, config={"rollout_id": run.again})

    def _inputs(self, call: RagPredict, run: RunState, **more: Any) -> dict[str, Any]:
        """Returns the inputs of `call`: `more`, the question, and as much of the trajectory as fits."""

        def inputs(turns: Trajectory) -> dict[str, Any]:
            return {**more, "question": run.question, "trajectory": render_trajectory(turns)}

        run.shown = self.shrink_to_fit(call, run.turns, inputs, shrink_trajectory)
        return inputs(run.shown)

    async def _search(self, run: RunState, move: Move) -> None:
        """Searches as the step asks; ends the steps if all sources were searched for that already."""
        passages = await self.search_preferred_first(run, self.tools[move.action][0], move.action_input)
        if passages is None:
            self._drop(run, move)
            run.left = 0
        else:
            run.add((*self._thought(move), (_label(move.action), move.action_input)), passages)

    def _thought(self, move: Move) -> tuple[tuple[str, str], ...]:
        """Returns the thought of `move` as the trajectory shows it."""
        return (("Thought", move.thought),) if self.knobs.thoughts else ()

    def _drop(self, run: RunState, move: Move) -> None:
        """Skips an unknown tool, an empty query or a repeated search; the step is spent."""
        counters.count(dropped=1)
        record(Note("step", f"dropped: {move.action}: {move.action_input}"))
        run.again += 1
        if not self.knobs.temperature:
            run.left = 0

    async def _review(self, run: RunState, move: Move) -> Any:
        """Returns the grade of the answer of `move` if it is bad and more steps are allowed, else None."""
        knobs = self.knobs
        spent = run.counts["supplements"] == knobs.max_supplements or (knobs.strict_budget and not run.left)
        if not knobs.reflect or spent:
            return None
        review: Any = move
        if knobs.reflect_mode == "separate":
            review = await self.grade.try_call(**self._inputs(self.grade, run, answer=move.answer))
        return review if review is not None and _is_negative(review.grade) else None

    async def _supplement(self, run: RunState, move: Move, review: Any) -> None:
        """Searches all sources with the question itself; adds two steps unless the budget is strict."""
        run.counts["supplements"] += 1
        record(Note("supplement", f"{move.answer!r} is {review.grade}"))
        results = await together(*(self.search_source(run, name, run.question) for name in self.used))
        wrote = (
            *self._thought(move),
            ("Answer", move.answer),
            ("Explanation", review.explanation),
            ("Grade", review.grade),
            ("Improvement", review.improvement),
            (_label(*self.tools) if len(self.tools) == 1 else "Search everywhere", run.question),
        )
        run.add(wrote, tuple(passage for passages in results for passage in passages))
        run.left += 0 if self.knobs.strict_budget else 2

    def _prediction(self, run: RunState, answer: str) -> dspy.Prediction:
        """Returns `answer` with the passages last shown, and how often each source was searched and used."""
        return dspy.Prediction(answer=answer, passages=collect_passages(run.shown), tallies=self.tallies(run))
