"""Corrective RAG: grades the retrieved passages, and corrects bad ones from the web.

Paper: Corrective Retrieval Augmented Generation, sections 4.2 (evaluator) to 4.5 (web search), and the
ablations of its section 5; for `form` = binary LangGraph's example, as in PrefRAG, appendix B.3. Knowledge
refinement (section 4.4) cuts a passage into strips and joins the good ones again; the three kinds of strips
are those of the authors' code.
Differs: a typed grade stands in for the trained evaluator; a grade that cannot be read counts as 0,
between the thresholds, and a passage too long for the grader's context on its own is left out; a
`crag_lower` above `crag_upper` counts as `crag_upper`; chosen strips of one passage are joined again under
its id, and web pages are cut as local passages are; a sentence ends at a full stop, question mark or
exclamation mark, and short ones count as others. Of cut passages at most `strips_max` strips of one search
are graded; the others are left out, and counted as `crag_strips_left`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import dspy

from ragc.core import counters
from ragc.errors import UsageError
from ragc.programs.base import RagProgram, format_passage
from ragc.programs.baselines.knobs import CragKnobs
from ragc.programs.calls.predict import RagPredict
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Note, at_least, record, together
from ragc.records import Passage
from ragc.signatures.answer import ShortAnswer
from ragc.signatures.grade import CheckRelevance, ExtractKeywords, RelevanceGrade, RephraseQuery

_SENTENCES, _WORDS, _TAIL = 3, 50, 10
"""Sentences of a strip, words of one, and the fewest words that are a strip at the end of a passage."""

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


def strips(passage: Passage, kind: str) -> tuple[Passage, ...]:
    """Returns `passage` cut into strips of a `kind`, in reading order; each keeps its id, title and start."""
    if kind == "whole":
        return (passage,)
    if kind == "three_sentences":
        parts = _group(_SENTENCE_END.split(passage.text.strip()), _SENTENCES)
    else:
        parts = _group(passage.text.split(), _WORDS)
        if len(parts) > 1 and len(parts[-1]) < _TAIL:
            parts = [*parts[:-2], parts[-2] + parts[-1]]
    texts = [" ".join(part) for part in parts]
    return tuple(replace(passage, text=text) for text in dict.fromkeys(texts) if text)


def _group(units: list[str], size: int) -> list[list[str]]:
    return [units[i : i + size] for i in range(0, len(units), size)]


def recompose(best: Sequence[Passage], order: Iterable[Passage]) -> tuple[Passage, ...]:
    """Returns the strips in `best` joined into one passage for each id.

    Passages come in the order of `best`, the strips of one in reading order, which is that of `order`.
    """
    texts: dict[str, list[str]] = {strip.id: [] for strip in best}
    chosen = set(best)
    for strip in dict.fromkeys(order):
        if strip in chosen:
            texts[strip.id].append(strip.text)
    first = {strip.id: strip for strip in reversed(best)}
    return tuple(replace(first[id], text=" ".join(parts)) for id, parts in texts.items())


def passages_that_fit_alone(
    call: RagPredict, passages: Sequence[Passage], question: str
) -> tuple[Passage, ...]:
    """Returns the `passages` that each fit the context of `call` alone; others are counted as trimmed."""
    shown_passages = tuple(p for p in passages if call.fits(question=question, passage=format_passage(p)))
    if len(shown_passages) < len(passages):
        counters.count(trimmed=len(passages) - len(shown_passages))
    return shown_passages


class Crag(RagProgram):
    """Graded, with whole strips: k grades and an answer, and when corrected a rewrite and web_k grades."""

    def __init__(self, runtime: Runtime, knobs: CragKnobs) -> None:
        super().__init__(runtime, knobs)
        role: Any = knobs.grader
        if role not in runtime.targets:
            raise UsageError(
                f"Grading by the role {role!r} needs [targets.{role}]; "
                'add it, or set the knob grader = "main".'
            )
        self.used = {name: self.cut_source(name) for name in ("local", "web")}
        self.answer = self.answer_call(self.reading(ShortAnswer))
        graded = knobs.form == "graded"
        self.grade = self.predictor(RelevanceGrade if graded else CheckRelevance, role=role, max_tokens=24)
        if knobs.rewrite:
            self.query = self.predictor(ExtractKeywords if graded else RephraseQuery, max_tokens=40)

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Searches locally, grades, corrects, answers once."""
        passages = await self.find("local", question, self.knobs.top_k, source=self.used["local"])
        tallies: dict[str, float] = dict.fromkeys(
            ("crag_correct", "crag_incorrect", "crag_ambiguous", "crag_web", "crag_strips_left"), 0
        )
        correct = self._correct_graded if self.knobs.form == "graded" else self._correct_binary
        chosen = dict.fromkeys(await correct(question, passages, tallies))
        prediction = await self.answer_from(self.answer, question, tuple(chosen))
        return dspy.Prediction(answer=prediction.answer, passages=prediction.passages, tallies=tallies)

    async def _correct_binary(
        self, question: str, passages: Sequence[Passage], tallies: dict[str, float]
    ) -> tuple[Passage, ...]:
        """Returns the relevant passages; with web passages after them when any was not relevant."""
        scores = await self._scores(question, passages)
        relevant = tuple(p for p in passages if scores.get(p, 0.0) > 0)
        if relevant and len(relevant) == len(passages):
            return relevant
        record(Note("grades", f"{len(relevant)} of {len(passages)} relevant"))
        return (*relevant, *await self._web(question, tallies))

    async def _correct_graded(
        self, question: str, passages: Sequence[Passage], tallies: dict[str, float]
    ) -> tuple[Passage, ...]:
        """Returns local knowledge, web knowledge, or both, by the grades of the local passages."""
        scores = await self._scores(question, passages)
        action = self._action(list(scores.values()))
        record(Note("action", action))
        tallies[f"crag_{action}"] = 1
        if action == "correct":
            return await self._local_knowledge(question, passages, scores, tallies)
        if action == "incorrect":
            return await self._web_knowledge(question, tallies)
        both = await together(
            self._local_knowledge(question, passages, scores, tallies), self._web_knowledge(question, tallies)
        )
        return (*both[0], *both[1])

    def _action(self, scores: list[float]) -> str:
        """Returns `correct`, `incorrect` or `ambiguous`; a switched-off action becomes its neighbour."""
        knobs = self.knobs
        best = max(scores, default=None)
        if best is not None and at_least("crag_upper", best, knobs.crag_upper):
            return "ambiguous" if knobs.actions == "no_correct" else "correct"
        if knobs.actions == "no_incorrect":
            return "ambiguous"
        if best is None or knobs.actions == "no_ambiguous":
            return "incorrect"
        return "ambiguous" if at_least("crag_lower", best, knobs.crag_lower) else "incorrect"

    async def _local_knowledge(
        self,
        question: str,
        passages: Sequence[Passage],
        scores: Mapping[Passage, float],
        tallies: dict[str, float],
    ) -> tuple[Passage, ...]:
        if not self.knobs.refine:
            return tuple(passages)
        known = list(scores) if self.knobs.strips == "whole" else passages
        return await self._refine(question, known, scores, tallies)

    async def _web_knowledge(self, question: str, tallies: dict[str, float]) -> tuple[Passage, ...]:
        passages = await self._web(question, tallies)
        return await self._refine(question, passages, {}, tallies) if self.knobs.select_web else passages

    async def _web(self, question: str, tallies: dict[str, float]) -> tuple[Passage, ...]:
        """Returns the web passages for the rewritten question."""
        tallies["crag_web"] = 1
        query = question
        if self.knobs.rewrite and self.knobs.form == "graded":
            query = await self.write_query(self.query, "query", question, question=question)
        elif self.knobs.rewrite:
            inputs = {"question": question, "query": question}
            query = await self.write_query(self.query, "better_query", question, **inputs)
        return await self.find("web", query, self.knobs.web_k, source=self.used["web"])

    async def _refine(
        self,
        question: str,
        passages: Sequence[Passage],
        known: Mapping[Passage, float],
        tallies: dict[str, float],
    ) -> tuple[Passage, ...]:
        """Returns the best strips of `passages`, joined by passage; `known` are existing grades."""
        knobs = self.knobs
        pieces = dict.fromkeys(strip for passage in passages for strip in strips(passage, knobs.strips))
        fresh = [strip for strip in pieces if strip not in known]
        most = len(fresh) if knobs.strips == "whole" else knobs.strips_max
        tallies["crag_strips_left"] += len(fresh[most:])
        scores = {**known, **await self._scores(question, fresh[:most])}
        ranked = sorted((strip for strip in pieces if strip in scores), key=lambda strip: -scores[strip])
        keep = knobs.keep if knobs.strips == "whole" else 2 * knobs.keep
        return recompose(ranked[:keep], pieces)

    async def _scores(self, question: str, passages: Sequence[Passage]) -> dict[Passage, float]:
        """Grades each of `passages` that fits the grader, all at once, in [-1, 1]."""
        fit = passages_that_fit_alone(self.grade, list(dict.fromkeys(passages)), question)
        replies = await together(
            *(self.grade.try_call(question=question, passage=format_passage(p)) for p in fit)
        )
        return {passage: self._points(reply) for passage, reply in zip(fit, replies, strict=True)}

    def _points(self, reply: Any) -> float:
        if reply is None:
            return 0.0
        return float(reply.grade.points / 100 if self.knobs.form == "graded" else reply.relevant)
