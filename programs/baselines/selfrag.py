"""Self-RAG without training: decide whether to search, answer from each passage, keep the best answer.

Paper: Self-RAG, section 3.3 and algorithm 1 (one segment, as the authors' code answers short questions),
with typed calls in the place of reflection tokens and the paper's score; for `form` = graph LangGraph's
example, as in PrefRAG, appendix B.3.
Differs: verdicts are certain, so a probability is 0 or 1, but for the percentage of `NeedRetrieval`;
a verdict that cannot be read counts 0; a weight of 0 spares its calls; when no passage gives an answer
it comes from what the model knows. In the graph a failed check always leads to a reworded query (the
original first answers again from the same passages, which at temperature 0 is the same answer),
passages are graded against the question as asked, an answer that cannot be read counts as none, and the
last round is not checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import dspy

from ragc.errors import CapabilityMissing
from ragc.metrics.short_answer import normalise
from ragc.programs.base import RagProgram, format_passage
from ragc.programs.baselines.crag import passages_that_fit_alone
from ragc.programs.baselines.knobs import SelfRagKnobs
from ragc.programs.calls.field_logprobs import field_tokens, mean_probability
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Note, above, at_least, record, together
from ragc.records import Passage
from ragc.signatures.answer import ClosedBookAnswer, ShortAnswer
from ragc.signatures.grade import CheckRelevance, NeedRetrieval, RephraseQuery, SupportGrade, Utility

SUPPORT = {"fully": 1.0, "partially": 0.5, "none": 0.0}


@dataclass(frozen=True, slots=True)
class ScoredAnswer:
    """An answer from one passage and its score."""

    passage: Passage
    answer: str
    score: float


class SelfRag(RagProgram):
    """Scored form: 1 + 4n calls for n passages, 3 deep. Graph form: n + 4 a round, 4 deep; the last n + 1."""

    def __init__(self, runtime: Runtime, knobs: SelfRagKnobs) -> None:
        super().__init__(runtime, knobs)
        target = runtime.target("main")
        scored = knobs.form == "scored"
        measured = scored and knobs.w_seq > 0
        if measured and "logprobs" not in target.capabilities:
            raise CapabilityMissing(
                f"The answer's probability needs log probabilities and {target.name} gives none; "
                "set the knob w_seq = 0."
            )
        self.local = self.cut_source("local")
        self.answer = self.answer_call(self.reading(ShortAnswer), logprobs=measured)
        if scored and knobs.gate == "adaptive":
            self.need = self.predictor(NeedRetrieval, max_tokens=24)
        if not scored or knobs.w_rel:
            self.relevance = self.predictor(CheckRelevance, max_tokens=16)
        if not scored or knobs.w_sup:
            self.support = self.predictor(SupportGrade, max_tokens=16)
        if not scored or knobs.w_use:
            self.utility = self.predictor(Utility, max_tokens=16)
        if not scored:
            self.query = self.predictor(RephraseQuery, max_tokens=60)
        self.closed = self.answer_call(ClosedBookAnswer)

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Answers in the form of the knob `form`."""
        if self.knobs.form == "graph":
            return await self._answer_graph(question)
        if not await self._needs_search(question):
            return await self._answer_closed_book(question, searched=0)
        return await self._answer_scored(question)

    async def _answer_closed_book(self, question: str, **tallies: float) -> dspy.Prediction:
        reply = await self.closed.acall(question=question)
        return dspy.Prediction(answer=reply.answer, passages=(), tallies=self._tallies(**tallies))

    @staticmethod
    def _tallies(*, searched: float = 1, rounds: float = 0, candidates: float = 0) -> dict[str, float]:
        return {"selfrag_searched": searched, "selfrag_rounds": rounds, "selfrag_candidates": candidates}

    async def _needs_search(self, question: str) -> bool:
        """Returns whether to search; True if the model's estimate is unreadable."""
        if self.knobs.gate != "adaptive":
            return bool(self.knobs.gate == "always")
        reply = await self.need.try_call(question=question)
        least = self.knobs.selfrag_threshold
        needs_search = reply is None or above("selfrag_threshold", reply.need / 100, least)
        record(Note("search", "needed" if needs_search else "not needed"))
        return needs_search

    async def _retrieve(self, query: str) -> list[Passage]:
        return list(dict.fromkeys(await self.find("local", query, self.knobs.top_k, source=self.local)))

    async def _answer_scored(self, question: str) -> dspy.Prediction:
        """Returns one answer from each passage, all at once, and the best of them."""
        tried = await together(*(self._try_passage(question, p) for p in await self._retrieve(question)))
        candidates = [candidate for candidate in tried if candidate is not None]
        if not candidates:
            return await self._answer_closed_book(question)
        best = self._pick_best(candidates)
        record(Note("best", f"{best.passage.id} with {best.score:.3f} of {len(candidates)}"))
        tallies = self._tallies(candidates=len(candidates))
        return dspy.Prediction(answer=best.answer, passages=(best.passage,), tallies=tallies)

    def _pick_best(self, candidates: list[ScoredAnswer]) -> ScoredAnswer:
        """Returns the candidate with the best score; for `pick` sum, of those with the best summed answer."""
        if self.knobs.pick == "sum":
            sums: dict[str, float] = {}
            for one in candidates:
                sums[normalise(one.answer)] = sums.get(normalise(one.answer), 0.0) + one.score
            winner = max(sums, key=lambda answer: sums[answer])
            candidates = [one for one in candidates if normalise(one.answer) == winner]
        return max(candidates, key=lambda one: one.score)

    async def _try_passage(self, question: str, passage: Passage) -> ScoredAnswer | None:
        """Returns the answer that one passage gives, scored; None when there is none."""
        if not self.passages_that_fit(self.answer, (passage,), question=question):
            return None
        reply, relevance = await together(
            self.answer.try_call(question=question, passages=[format_passage(passage)]),
            self._relevance(question, passage),
        )
        answer = reply.answer.strip() if reply is not None else ""
        if not answer:
            return None
        support, utility = await together(
            self._support(question, (passage,), answer), self._utility(question, answer)
        )
        knobs = self.knobs
        score = knobs.w_rel * relevance + knobs.w_sup * support + knobs.w_use * utility
        if knobs.w_seq:
            score += knobs.w_seq * mean_probability(field_tokens(reply.logprobs, "answer", reply.answer))
        return ScoredAnswer(passage, answer, score)

    async def _relevance(self, question: str, passage: Passage) -> float:
        """Returns 1 when the passage is relevant, else 0."""
        if self.knobs.form == "scored" and not self.knobs.w_rel:
            return 0.0
        if not passages_that_fit_alone(self.relevance, (passage,), question):
            return 0.0
        reply = await self.relevance.try_call(question=question, passage=format_passage(passage))
        return float(reply is not None and reply.relevant)

    async def _support(self, question: str, passages: tuple[Passage, ...], answer: str) -> float:
        """Returns how far the passages support the answer: 1, 0.5 or 0."""
        if self.knobs.form == "scored" and not self.knobs.w_sup:
            return 0.0
        fit = self.passages_that_fit(self.support, passages, question=question, answer=answer)
        if not fit:
            return 0.0
        reply = await self.support.try_call(
            question=question, passages=[format_passage(p) for p in fit], answer=answer
        )
        return SUPPORT[reply.support] if reply is not None else 0.0

    async def _utility(self, question: str, answer: str) -> float:
        """Returns a utility of 1 to 5 as -1 to 1; 0, the middle, if unknown."""
        if self.knobs.form == "scored" and not self.knobs.w_use:
            return 0.0
        reply = await self.utility.try_call(question=question, answer=answer)
        return (int(reply.utility) - 3) / 2 if reply is not None else 0.0

    async def _answer_graph(self, question: str) -> dspy.Prediction:
        """Searches, filters, answers and checks; when a check fails, rewords the query and repeats."""
        query, rounds = question, self.knobs.rounds
        answer = ""
        passages: tuple[Passage, ...] = ()
        for turn in range(1, rounds + 1):
            new_answer, new_passages = await self._round(question, query)
            if new_answer:
                answer, passages = new_answer, new_passages
            if turn == rounds or (new_answer and await self._is_good(question, new_passages, new_answer)):
                break
            query = await self.write_query(self.query, "better_query", query, question=question, query=query)
        if not answer:
            return await self._answer_closed_book(question, rounds=turn)
        return dspy.Prediction(
            answer=answer, passages=passages, tallies=self._tallies(rounds=turn, candidates=1)
        )

    async def _round(self, question: str, query: str) -> tuple[str, tuple[Passage, ...]]:
        """Returns the answer from the relevant passages for `query`, "" if there is none, and them."""
        candidates = await self._retrieve(query)
        grades = await together(*(self._relevance(question, p) for p in candidates))
        relevant = [p for p, grade in zip(candidates, grades, strict=True) if grade]
        record(Note("relevant", f"{len(relevant)} of {len(candidates)}"))
        passages = self.passages_that_fit(self.answer, relevant, question=question)
        if not passages:
            return "", ()
        reply = await self.answer.try_call(question=question, passages=[format_passage(p) for p in passages])
        return (reply.answer.strip() if reply is not None else ""), passages

    async def _is_good(self, question: str, passages: tuple[Passage, ...], answer: str) -> bool:
        """Returns whether the passages support the answer, at least in part, and it is useful."""
        support, utility = await together(
            self._support(question, passages, answer), self._utility(question, answer)
        )
        record(Note("check", f"support {support:g}, utility {utility:g}"))
        return support > 0 and at_least("useful_from", 2 * utility + 3, self.knobs.useful_from)
