"""PrefRAG: search step by step, the preferred source first, and grade the answer before it is given.

Paper: PrefRAG, sections 3.2 and 3.3 and appendices A.4 (the preference in words), B.3 and E (more than two
sources); the loop and its budget follow the authors' code, where the grade comes with the answer and a step
may answer before any search. What is compared follows the code too: nothing at the first search, then by
the question, with all passages known so far.
Calls: at most max_step + 1 steps and two more for each supplement, a comparison for each search but the
first, a grade for each answer if `reflect_mode` is separate, and one answer when no step gave one.
Differs: a step is typed, a search or an answer; steps are told to answer from results, not from memory, and
so to search first, though an answer before any search is still taken; they are told how many steps may
follow, beside max_step, and in the trajectory that the question itself was searched after a bad grade; where
there is one tool it is called `search`; passages are numbered through, also in a comparison; a step that
cannot be read
ends the search and the answer is forced; a step that added nothing is sampled again, and ends the search at
temperature 0, or when it asks again for what was searched everywhere (`no_repeats`); the grade comes behind
its explanation; replies are limited to 412 tokens beside the answer (steps) and 256 (comparison, grade),
not 4096; the wording of the answer is in the instructions, not beside the question; what does not fit the
context is left out, oldest first. Chunks are cut at 500 tokens, not 512. After a bad grade every source
that may be searched is searched; without `pref` that is the preferred one alone, unless the choice is free.
With `strict_budget` an answer at the last step is given whatever its grade. A comparison that cannot be
read is a no (the code looks for "true" in its text); where the preferred source finds nothing the other one
is asked without a comparison; of several sources a step may name the preferred one, which any may be, and
what that finds is kept, as there is none to switch to; a confidence in place of true or false is ours, and
so is `no_repeats`: a query that is asked again goes to a source that was not asked for it, without a
comparison, which is no switch, and is dropped when all were. Without `pref` only the preferred source is
searched, or with `free_choice` the one that the step names (the paper's ablation does not say).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import dspy

from ragc.core import counters
from ragc.core.text import escape_numbers
from ragc.errors import UsageError
from ragc.programs.base import RagProgram, format_passage
from ragc.programs.calls.predict import RagPredict
from ragc.programs.prefrag import PrefRagKnobs
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Note, above, record, together
from ragc.records import Passage
from ragc.signatures.grade import comparison
from ragc.signatures.step import FINISH, Finish, ForcedAnswer, Reflect, agent_step

_STEP_TOKENS = 412  # of a step's reply beside those of the answer: thought, query and grade

_ABOUT_SOURCES = {"local": "a curated collection", "web": "pages of the open web"}
_COUNTS = ("total_local", "total_web", "switches", "repeats", "supplements")


@dataclass(frozen=True, slots=True)
class Turn:
    """One step: what the model wrote, as (label, text) pairs, and the passages found for it.

    `cut` says that passages were left out because they did not fit.
    """

    wrote: tuple[tuple[str, str], ...]
    passages: tuple[Passage, ...] = ()
    cut: bool = False


Trajectory = tuple[Turn, ...]
"""The accumulated context of section 3.2: what was thought, searched, found, answered and graded."""


@dataclass(slots=True)
class RunState:
    """Steps left, the turns so far, what the last call was shown, and how often each source was searched.

    `again` counts the steps since the trajectory last grew, `searches` are the searches made: source and
    query, in lower case.
    """

    question: str
    left: int
    turns: Trajectory = ()
    shown: Trajectory = ()
    again: int = 0
    searches: set[tuple[str, str]] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, wrote: tuple[tuple[str, str], ...], passages: tuple[Passage, ...]) -> None:
        """Appends a turn."""
        self.turns, self.again = (*self.turns, Turn(wrote, passages)), 0


def collect_passages(turns: Trajectory) -> tuple[Passage, ...]:
    """Returns the passages of all turns, in order, each once."""
    return tuple(dict.fromkeys(passage for turn in turns for passage in turn.passages))


def render_trajectory(turns: Trajectory) -> list[str]:
    """Returns `turns` as a prompt shows them, one text each, passages numbered through all of them.

    A turn that found a passage again names it, and its text is not repeated.
    """
    texts: list[str] = []
    numbers: dict[Passage, int] = {}
    for turn in turns:
        lines = [f"{label}: {text}" for label, text in turn.wrote if text]
        repeated = ", ".join(str(numbers[passage]) for passage in turn.passages if passage in numbers)
        missing = "" if turn.passages else " left out" if turn.cut else " none"
        lines.append(f"Results:{f' passages {repeated}, shown above' if repeated else missing}")
        for passage in turn.passages:
            if passage not in numbers:
                numbers[passage] = len(numbers) + 1
                lines.append(f"Passage {numbers[passage]}: {format_passage(passage)}")
        texts.append("\n".join(lines))
    return texts


def shrink_trajectory(turns: Trajectory) -> Trajectory:
    """Shortens `turns`: by the last passage of the oldest turn that has any, else by the oldest turn."""
    for number, turn in enumerate(turns):
        if turn.passages:
            less = replace(turn, passages=turn.passages[:-1], cut=True)
            return (*turns[:number], less, *turns[number + 1 :])
    return turns[1:]


def _source_names(sources: Iterable[str], knobs: PrefRagKnobs) -> tuple[str, ...]:
    """Returns the sources that may be searched, the preferred one first; raises UsageError."""
    first, names = knobs.preferred_source, tuple(sources)
    if first not in names:
        raise UsageError(
            f"The knob preferred_source asks for a source named {first!r}, found "
            f"{', '.join(names) or 'none'}; add [sources.{first}] or choose another preferred_source."
        )
    if not knobs.pref and not knobs.free_choice:
        return (first,)
    if len(names) == 1:
        knob = "pref" if knobs.pref else "free_choice"
        raise UsageError(
            f"The knob {knob} needs a source beside {first!r} and there is none; "
            f"add [sources.{'local' if first == 'web' else 'web'}] or set {knob} to false."
        )
    return (first, *(name for name in names if name != first))


def _tools(names: Sequence[str], knobs: PrefRagKnobs, *, compares: bool) -> dict[str, tuple[str, str]]:
    """Returns by action the source that it searches and its description for the model."""
    if len(names) == 1 or (compares and len(names) == 2):
        return {"search": (names[-1], "finds passages for a short query")}
    about = {name: f"searches {_ABOUT_SOURCES.get(name, name)}" for name in names}
    first, *others = names
    if compares:
        about |= {name: f"finds passages, if need be in {_ABOUT_SOURCES.get(name, name)}" for name in others}
    elif knobs.pref:
        about[first] += "; prefer this one, use others only for what it does not have"
    return {f"search_{name}": (name, text) for name, text in about.items()}


def _label(action: str) -> str:
    """Returns the name of a search in the trajectory."""
    return action.capitalize().replace("_", " ")


class PrefRag(RagProgram):
    """Steps over a preferred source and one or more others, then an answer.

    `used` are the sources by name, the preferred one first. `tools` has by action its source and its
    description for the model.
    """

    def __init__(self, runtime: Runtime, knobs: PrefRagKnobs) -> None:
        super().__init__(runtime, knobs)
        self.used = {name: self.cut_source(name) for name in _source_names(runtime.sources, knobs)}
        self.compares = knobs.pref and knobs.pref_style == "module"
        self.tools = _tools(tuple(self.used), knobs, compares=self.compares)
        if self.compares:
            self.compare = self.predictor(comparison(knobs.source_check), max_tokens=256)
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
            step = reply.step
            if isinstance(step, Finish) and step.answer:
                review = await self._review(run, step)
                if review is None:
                    return self._prediction(run, step.answer)
                await self._supplement(run, reply, review)
            elif step.action == FINISH:
                record(Note("step", "finished without an answer"))
                break
            elif step.action in self.tools and step.action_input:
                await self._search(run, reply)
            else:
                self._drop(run, step)
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

    async def _search(self, run: RunState, reply: Any) -> None:
        """Searches as the step asks; ends the steps if all sources were searched for that already."""
        step = reply.step
        passages = await self._search_preferred_first(run, self.tools[step.action][0], step.action_input)
        if passages is None:
            self._drop(run, step)
            run.left = 0
        else:
            run.add((*self._thought(reply), (_label(step.action), step.action_input)), passages)

    def _thought(self, reply: Any) -> tuple[tuple[str, str], ...]:
        """Returns the thought of `reply` as the trajectory shows it."""
        return (("Thought", reply.thought),) if self.knobs.thoughts else ()

    def _drop(self, run: RunState, step: Any) -> None:
        """Skips an unknown tool, an empty query or a repeated search; the step is spent."""
        counters.count(dropped=1)
        record(Note("step", f"dropped: {step.action}: {step.action_input}"))
        run.again += 1
        if not self.knobs.temperature:
            run.left = 0

    async def _review(self, run: RunState, step: Finish) -> Any:
        """Returns the grade of the answer of `step` if it is bad and more steps are allowed, else None."""
        knobs = self.knobs
        spent = run.counts["supplements"] == knobs.max_supplements or (knobs.strict_budget and not run.left)
        if not knobs.reflect or spent:
            return None
        review: Any = step
        if knobs.reflect_mode == "separate":
            review = await self.grade.try_call(**self._inputs(self.grade, run, answer=step.answer))
        bad = review is not None and any(word in review.grade.upper() for word in ("PARTIALLY", "INCORRECT"))
        return review if bad else None

    async def _supplement(self, run: RunState, reply: Any, review: Any) -> None:
        """Searches all sources with the question itself; adds two steps unless the budget is strict."""
        run.counts["supplements"] += 1
        record(Note("supplement", f"{reply.step.answer!r} is {review.grade}"))
        results = await together(*(self._search_source(run, name, run.question) for name in self.used))
        wrote = (
            *self._thought(reply),
            ("Answer", reply.step.answer),
            ("Explanation", review.explanation),
            ("Grade", review.grade),
            ("Improvement", review.improvement),
            (_label(*self.tools) if len(self.tools) == 1 else "Search everywhere", run.question),
        )
        run.add(wrote, tuple(passage for passages in results for passage in passages))
        run.left += 0 if self.knobs.strict_budget else 2

    async def _search_preferred_first(
        self, run: RunState, name: str, query: str
    ) -> tuple[Passage, ...] | None:
        """Returns the preferred source's passages if they add something, else those of the source `name`.

        With `no_repeats` a search is not repeated: the first source that was not searched for `query` is
        searched instead. None when all were.
        """
        left = [
            source
            for source in self.used
            if not (self.knobs.no_repeats and (source, query.casefold()) in run.searches)
        ]
        if not left:
            return None
        first = next(iter(self.used))
        preferred = first if self.compares else name
        if preferred not in left:
            other = name if name in left else left[0]
            run.counts["repeats"] += 1
            record(Note("repeat", f"{preferred} was searched for this, {other} was not"))
            return await self._search_source(run, other, query)
        passages = await self._search_source(run, preferred, query)
        if preferred == name or (passages and await self._adds_information(run, query, passages)):
            return passages
        run.counts["switches"] += 1
        record(Note("switch", f"{first} to {name}"))
        return await self._search_source(run, name, query)

    async def _adds_information(self, run: RunState, query: str, passages: tuple[Passage, ...]) -> bool:
        """Returns whether `passages` add to known ones; the first do, unless they are compared too."""
        known = collect_passages(run.turns)
        if not known and not self.knobs.compare_first:
            return True
        key = run.question if self.knobs.compare_key == "question" else query
        return await self.add_something(self._comparison_inputs(key, known, passages))

    async def add_something(self, inputs: Mapping[str, Any]) -> bool:
        """Returns whether the new passages among `inputs` of the comparison add to the known ones."""
        reply = await self.compare.try_call(**inputs)
        if reply is None:
            return False
        if self.knobs.source_check == "status":
            return bool(reply.status)
        return above("source_check_threshold", reply.confidence / 100, self.knobs.source_check_threshold)

    def _comparison_inputs(
        self, question: str, known: tuple[Passage, ...], new: tuple[Passage, ...]
    ) -> dict[str, Any]:
        """Returns the comparison's inputs, cut to fit: the oldest of `known` first, then the last of `new`.

        The first of `new` stays: the call cuts it when it does not fit alone. The numbers of `new` continue
        those of `known`, and a passage in both has one number.
        """

        def inputs(known: Sequence[Passage], new: Sequence[Passage]) -> dict[str, Any]:
            numbers = {passage: number for number, passage in enumerate(dict.fromkeys((*known, *new)), 1)}
            texts = (
                "\n".join(f"[{numbers[p]}] {escape_numbers(format_passage(p))}" for p in passages) or "none"
                for passages in (known, new)
            )
            return dict(zip(("question", "known", "new"), (question, *texts), strict=True))

        shown = self.shrink_to_fit(self.compare, known, lambda less: inputs(less, new), lambda less: less[1:])
        return inputs(
            shown, self.shrink_to_fit(self.compare, new, lambda less: inputs(shown, less)) or new[:1]
        )

    async def _search_source(self, run: RunState, name: str, query: str) -> tuple[Passage, ...]:
        """Searches the source `name` for `query`, and counts the search."""
        run.searches.add((name, query.casefold()))
        kind = "local" if name == "local" else "web"
        run.counts[f"total_{kind}"] += 1
        k = self.knobs.k_local if kind == "local" else self.knobs.k_web
        return await self.find(name, query, k, source=self.used[name])

    def _prediction(self, run: RunState, answer: str) -> dspy.Prediction:
        """Returns `answer` with the passages last shown, and how often each source was searched and used."""
        counts = {name: run.counts[name] for name in _COUNTS}
        unused = counts["switches"] if next(iter(self.used)) == "local" else 0
        counts["used_local"] = counts["total_local"] - unused
        counts["used"] = counts["total_local"] + counts["total_web"] - counts["switches"]
        return dspy.Prediction(answer=answer, passages=collect_passages(run.shown), tallies=counts)
