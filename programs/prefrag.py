"""PrefRAG: search step by step, the preferred source first, and grade the answer before it is given.

Paper: PrefRAG, sections 3.2 and 3.3, appendices A.4 and E; the loop, its budget and what is compared
follow the authors' code (METHODS 1.1): the first search is not compared, passages are compared by the
question and with all that is known, the grade comes with the answer.
Calls: at most max_step + 1 steps and two more for each supplement, a comparison for each search but the
first, a grade for each answer if `reflect_mode` is separate, and one answer when no step gave one.
Differs: a search that a step asks for is made whatever answer stands beside it, as typed steps fill
every field (in the code an answer wins); a comparison that cannot be read is a no (the code looks for
"true" in its text); a step that cannot be read ends the search and the answer is forced; where the
preferred source finds nothing the other one is asked without a comparison; a step that added nothing is
sampled anew, and ends the search at temperature 0; replies are limited to 512 tokens (steps), 256
(comparison, grade) and 100 (answer), not 4096; what does not fit the context is left out, oldest first.
Without `pref` only the preferred source is searched, after a bad grade too (the paper does not say).
With `strict_budget` an answer at the last step is given whatever its grade.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import dspy

from ragc import counters
from ragc.errors import ParseFailure, UsageError
from ragc.programs.base import RagProgram, shown
from ragc.programs.predict import RagPredict
from ragc.programs.prefrag_knobs import PrefRagKnobs
from ragc.programs.prefrag_trajectory import Trajectory, Turn, found, rendered, shorter
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Note, record, together
from ragc.records import Passage
from ragc.signatures.answers import FORMATS
from ragc.signatures.reflection import FINISH, Reflect, agent_step, forced_answer
from ragc.signatures.sources import CompareSources

_ABOUT = {"local": "a curated collection", "web": "pages of the open web"}
_COUNTED = ("total_local", "total_web", "switches", "supplements")


@dataclass(slots=True)
class _Run:
    """One question on its way: steps left, what was done, and what the last call was shown.

    `again` counts the steps since the trajectory last grew.
    """

    question: str
    left: int
    turns: Trajectory = ()
    shown: Trajectory = ()
    again: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, wrote: tuple[tuple[str, str], ...], passages: tuple[Passage, ...]) -> None:
        self.turns, self.again = (*self.turns, Turn(wrote, passages)), 0


def _filled(text: str) -> str:
    """`text`, or nothing when it says that it is left empty."""
    text = text.strip()
    return "" if text.casefold() == "none" else text


def _bad(grade: str) -> bool:
    """Whether `grade` is negative; its words may stand in a longer text."""
    return any(word in grade.upper() for word in ("PARTIALLY", "INCORRECT"))


class PrefRag(RagProgram):
    """Steps over a preferred source and one or more others, then an answer."""

    def __init__(self, runtime: Runtime, knobs: PrefRagKnobs) -> None:
        super().__init__(runtime, knobs)
        self.sources = self._named_sources()
        self.tools = self._named_tools()
        self.format = {"answer_format": FORMATS[knobs.answer_format].what}
        self.about = [f"{action}: {about}" for action, (_, about) in self.tools.items()]
        graded = knobs.reflect and knobs.reflect_mode == "joint"
        signature = agent_step(tuple(self.tools), graded=graded, answer_format=knobs.answer_format)
        self.step = self.predictor(signature, max_tokens=512)
        if knobs.pref and knobs.pref_style == "module":
            self.compare = self.predictor(CompareSources, max_tokens=256)
        if knobs.reflect and not graded:
            self.grade = self.predictor(Reflect, max_tokens=256)
        self.answer = self.predictor(
            forced_answer(knobs.answer_format), max_tokens=FORMATS[knobs.answer_format].tokens
        )

    def _named_sources(self) -> tuple[str, ...]:
        """The sources that may be searched, the preferred one first; raises UsageError."""
        first, known = self.knobs.preferred_source, tuple(self.runtime.sources)
        if first not in known:
            raise UsageError(
                f"The knob preferred_source asks for a source named {first!r}, found "
                f"{', '.join(known) or 'none'}; add [sources.{first}] or choose another preferred_source."
            )
        others = tuple(name for name in known if name != first)
        if not self.knobs.pref:
            return (first,)
        if not others:
            raise UsageError(
                f"The knob pref prefers {first!r} to another source and there is none; "
                f"add [sources.{'local' if first == 'web' else 'web'}] or set pref to false."
            )
        return (first, *others)

    def _named_tools(self) -> dict[str, tuple[str, str]]:
        """By action: the source that it asks for, and what the model is told about it."""
        first, *others = self.sources
        if others and self.knobs.pref_style == "prompt":
            told = {name: f"searches {_ABOUT.get(name, name)}" for name in self.sources}
            told[first] += "; prefer this one, use others only for what it does not have"
            return {f"search_{name}": (name, about) for name, about in told.items()}
        if len(others) > 1:
            told = {n: f"finds passages, if need be in {_ABOUT.get(n, n)}" for n in others}
            return {f"search_{name}": (name, about) for name, about in told.items()}
        return {"search": (others[0] if others else first, "finds passages for a short query")}

    def most_calls(self) -> int:
        """Steps, comparisons and grades, and the forced answer."""
        return int(self.knobs.most_calls())

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Take steps until one answers, or none is left and the answer is forced."""
        run = _Run(question, left=self.knobs.max_step + (0 if self.knobs.strict_budget else 1))
        while run.left:
            run.left -= 1
            said = await self._next(run)
            if said is None:
                break
            answer, action = _filled(said.answer), _filled(said.action).casefold()
            if answer and not (action in self.tools and _filled(said.action_input)):
                review = await self._review(run, said, answer)
                if review is None:
                    return self._prediction(run, answer)
                await self._supplement(run, said, answer, review)
            elif action in ("", FINISH):
                record(Note("step", "finished without an answer"))
                break
            else:
                await self._act(run, said)
        forced = await self._ask(self.answer, run, **self.format)
        return self._prediction(run, forced.answer)

    async def _next(self, run: _Run) -> Any:
        """The next step; None when it cannot be read."""
        told = {**self.format, "tools": self.about, "max_step": self.knobs.max_step}
        try:
            return await self._ask(self.step, run, config={"rollout_id": run.again}, **told)
        except ParseFailure as error:
            record(Note("step", f"unreadable: {error}"))
            return None

    async def _ask(self, call: RagPredict, run: _Run, config: Any = None, **inputs: Any) -> Any:
        """`call` with as much of the trajectory as fits; the passages left out are counted as trimmed."""
        inputs["question"], turns = run.question, run.turns
        room = self.runtime.target(call.role).context_tokens
        while turns and call.size(**inputs, trajectory=rendered(turns)) > room:
            turns = shorter(turns)
        counters.count(trimmed=len(found(run.turns)) - len(found(turns)))
        run.shown = turns
        return await call.acall(**inputs, trajectory=rendered(turns), config=config)

    async def _act(self, run: _Run, said: Any) -> None:
        """Search as `said` asks; an unknown tool or an empty query is dropped and the step is spent."""
        action, query = said.action.strip().casefold(), _filled(said.action_input)
        if action not in self.tools or not query:
            counters.count(dropped=1)
            record(Note("step", f"dropped: {said.action}: {said.action_input}"))
            run.again += 1
            if not self.knobs.temperature:
                run.left = 0
            return
        passages = await self._found(run, self.tools[action][0], query)
        label = action.capitalize().replace("_", " ")
        run.add((("Thought", said.thought), (label, query)), passages)

    async def _found(self, run: _Run, name: str, query: str) -> tuple[Passage, ...]:
        """The preferred source's passages when they add something, else those of the source `name`."""
        if not self.knobs.pref or self.knobs.pref_style == "prompt":
            return await self._searched(run, name, query)
        first = self.sources[0]
        passages = await self._searched(run, first, query)
        if passages and await self._adds(run, query, passages):
            return passages
        run.counts["switches"] += 1
        record(Note("switch", f"{first} to {name}"))
        return await self._searched(run, name, query)

    async def _adds(self, run: _Run, query: str, passages: tuple[Passage, ...]) -> bool:
        """Whether `passages` add to what is known; the first ones do, unless they are compared too."""
        known = [shown(p) for p in dict.fromkeys(found(run.turns))]
        if not known and not self.knobs.compare_first:
            return True
        key = run.question if self.knobs.compare_key == "question" else query
        inputs = {"question": key, "known": known, "new": [shown(p) for p in passages]}
        room = self.runtime.target(self.compare.role).context_tokens
        for part, drop in (("known", slice(1, None)), ("new", slice(None, -1))):
            while inputs[part] and self.compare.size(**inputs) > room:
                inputs[part] = inputs[part][drop]
                counters.count(trimmed=1)
        try:
            return bool((await self.compare.acall(**inputs)).status)
        except ParseFailure as error:
            record(Note("comparison", f"unreadable: {error}"))
            return False

    async def _review(self, run: _Run, said: Any, answer: str) -> Any:
        """The grade of `answer` when it is bad and may be worked on, else None."""
        knobs = self.knobs
        spent = run.counts["supplements"] == knobs.max_supplements or (knobs.strict_budget and not run.left)
        if not knobs.reflect or spent:
            return None
        if knobs.reflect_mode == "separate":
            try:
                said = await self._ask(self.grade, run, answer=answer)
            except ParseFailure as error:
                record(Note("grade", f"unreadable: {error}"))
                return None
        return said if _bad(said.grade) else None

    async def _supplement(self, run: _Run, said: Any, answer: str, review: Any) -> None:
        """Search all sources with the question itself; two more steps follow unless the budget is strict."""
        run.counts["supplements"] += 1
        record(Note("supplement", f"{answer!r} is {review.grade}"))
        results = await together(*(self._searched(run, name, run.question) for name in self.sources))
        wrote = (
            ("Thought", said.thought),
            ("Answer", answer),
            ("Grade", review.grade),
            ("Explanation", review.explanation),
            ("Improvement", review.improvement),
        )
        run.add(wrote, tuple(passage for passages in results for passage in passages))
        run.left += 0 if self.knobs.strict_budget else 2

    async def _searched(self, run: _Run, name: str, query: str) -> tuple[Passage, ...]:
        kind = "local" if name == "local" else "web"
        run.counts[f"total_{kind}"] += 1
        hits = await self.search(name, query, self.knobs.k_local if kind == "local" else self.knobs.k_web)
        return tuple(hit.passage for hit in hits)

    def _prediction(self, run: _Run, answer: str) -> dspy.Prediction:
        """`answer` with the passages last shown, and how often each source was asked and used."""
        counts = {name: run.counts[name] for name in _COUNTED}
        unused = counts["switches"] if self.sources[0] == "local" else 0
        counts["used_local"] = counts["total_local"] - unused
        counts["used"] = counts["total_local"] + counts["total_web"] - counts["switches"]
        passages = tuple(dict.fromkeys(found(run.shown)))
        return dspy.Prediction(answer=answer, passages=passages, tallies=counts)
