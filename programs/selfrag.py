"""Self-RAG without training: decide whether to search, answer from each passage, keep the best answer.

Paper: Self-RAG, section 3.3 and algorithm 1 (short form), with typed calls in the place of reflection
tokens and the paper's score; for `form` = graph the LangGraph form (METHODS section 6).
Differs: verdicts are certain, so a probability is 0 or 1, but for the percentage of `NeedRetrieval`;
a verdict that cannot be read counts 0; a weight of 0 spares its calls; when no passage gives an answer
it comes from what the model knows. In the graph a failed check always leads to a reworded query (the
original first answers again from the same passages, which at temperature 0 is the same answer),
passages are graded against the question as asked, and the last round is not checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import dspy

from ragc import counters
from ragc.errors import CapabilityMissing
from ragc.metrics.short import normalise
from ragc.programs.base import RagProgram, shown
from ragc.programs.corrective_knobs import SelfRagKnobs
from ragc.programs.crag_judging import attempt, readable
from ragc.programs.flare_tokens import mean_probability, pieces
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Note, record, together
from ragc.records import Passage
from ragc.signatures.answers import ClosedBookAnswer, ShortAnswer
from ragc.signatures.judges import BetterQuery, NeedRetrieval, RelevanceCheck, SupportGrade, Utility

SUPPORT = {"fully": 1.0, "partially": 0.5, "none": 0.0}


@dataclass(frozen=True, slots=True)
class Candidate:
    """An answer from one passage and its score."""

    passage: Passage
    answer: str
    score: float


class SelfRag(RagProgram):
    """Scored: 1 + 4n calls for n passages, 3 deep. Graph: n + 4 a round but the last, there n + 1."""

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
        self.answer = self.answering(ShortAnswer, logprobs=measured)
        if scored and knobs.gate == "adaptive":
            self.need = self.predictor(NeedRetrieval, max_tokens=24)
        if not scored or knobs.w_rel:
            self.relevance = self.predictor(RelevanceCheck, max_tokens=16)
        if not scored or knobs.w_sup:
            self.support = self.predictor(SupportGrade, max_tokens=16)
        if not scored or knobs.w_use:
            self.utility = self.predictor(Utility, max_tokens=16)
        if not scored:
            self.query = self.predictor(BetterQuery, max_tokens=60)
        self.closed = self.answering(ClosedBookAnswer)

    def most_calls(self) -> int:
        """Of the graph every round failing its check; of the scored form one answer a passage, or none."""
        knobs, n = self.knobs, self.knobs.top_k
        if knobs.form == "graph":
            return int(knobs.rounds * (n + 4) - 3)
        if knobs.gate == "never":
            return 1
        tried, scored = n * (1 + (knobs.w_rel > 0)), n * ((knobs.w_sup > 0) + (knobs.w_use > 0))
        return int((knobs.gate == "adaptive") + tried + max(scored, 1))

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Answer in the form that the knob `form` names."""
        if self.knobs.form == "graph":
            return await self._graph(question)
        if not await self._wanted(question):
            return await self._known(question, searched=0)
        return await self._best(question)

    async def _known(self, question: str, **tallies: float) -> dspy.Prediction:
        said = await self.closed.acall(question=question)
        return dspy.Prediction(answer=said.answer, passages=(), tallies=self._tallies(**tallies))

    @staticmethod
    def _tallies(*, searched: float = 1, rounds: float = 0, candidates: float = 0) -> dict[str, float]:
        return {"selfrag_searched": searched, "selfrag_rounds": rounds, "selfrag_candidates": candidates}

    async def _wanted(self, question: str) -> bool:
        """Whether to search; yes when the model's estimate cannot be read."""
        if self.knobs.gate != "adaptive":
            return bool(self.knobs.gate == "always")
        said = await attempt(self.need, question=question)
        return said is None or bool(said.need.percent / 100 > self.knobs.selfrag_threshold)

    async def _found(self, query: str) -> list[Passage]:
        hits = await self.search("local", query, self.knobs.top_k)
        return list(dict.fromkeys(hit.passage for hit in hits))

    async def _best(self, question: str) -> dspy.Prediction:
        """One answer from each passage, all at once, and the best of them."""
        tried = await together(*(self._tried(question, p) for p in await self._found(question)))
        candidates = [candidate for candidate in tried if candidate is not None]
        if not candidates:
            return await self._known(question)
        best = self._picked(candidates)
        record(Note("best", f"{best.passage.id} with {best.score:.3f} of {len(candidates)}"))
        tallies = self._tallies(candidates=len(candidates))
        return dspy.Prediction(answer=best.answer, passages=(best.passage,), tallies=tallies)

    def _picked(self, candidates: list[Candidate]) -> Candidate:
        """The candidate with the best score, or the best of those that share the answer of the best sum."""
        if self.knobs.pick == "sum":
            sums: dict[str, float] = {}
            for one in candidates:
                sums[normalise(one.answer)] = sums.get(normalise(one.answer), 0.0) + one.score
            winner = max(sums, key=lambda answer: sums[answer])
            candidates = [one for one in candidates if normalise(one.answer) == winner]
        return max(candidates, key=lambda one: one.score)

    async def _tried(self, question: str, passage: Passage) -> Candidate | None:
        """The answer that one passage gives, scored; None when there is none."""
        fit = self.fitting(self.answer, (passage,), question=question)
        if not fit:
            return None
        text = shown(passage)
        said, relevance = await together(
            attempt(self.answer, question=question, passages=[text]), self._relevance(question, passage)
        )
        answer = said.answer.strip() if said is not None else ""
        if not answer:
            return None
        support, utility = await together(
            self._support(question, (passage,), answer), self._utility(question, answer)
        )
        knobs = self.knobs
        score = knobs.w_rel * relevance + knobs.w_sup * support + knobs.w_use * utility
        if knobs.w_seq:
            score += knobs.w_seq * mean_probability(pieces(said.logprobs, "answer", said.answer))
        return Candidate(passage, answer, score)

    async def _relevance(self, question: str, passage: Passage) -> float:
        """1 when the passage is relevant, else 0."""
        if self.knobs.form == "scored" and not self.knobs.w_rel:
            return 0.0
        if not readable(self, self.relevance, (passage,), question):
            return 0.0
        said = await attempt(self.relevance, question=question, passage=shown(passage))
        return float(said is not None and said.relevant)

    async def _support(self, question: str, passages: tuple[Passage, ...], answer: str) -> float:
        """How far the passages back up the answer: 1, 0.5 or 0."""
        if self.knobs.form == "scored" and not self.knobs.w_sup:
            return 0.0
        fit = self.fitting(self.support, passages, question=question, answer=answer)
        if not fit:
            return 0.0
        said = await attempt(self.support, question=question, passages=[shown(p) for p in fit], answer=answer)
        return SUPPORT[said.support] if said is not None else 0.0

    async def _utility(self, question: str, answer: str) -> float:
        """A utility of 1 to 5 as -1 to 1; 0, the middle, when it cannot be told."""
        if self.knobs.form == "scored" and not self.knobs.w_use:
            return 0.0
        said = await attempt(self.utility, question=question, answer=answer)
        return (int(said.utility) - 3) / 2 if said is not None else 0.0

    async def _graph(self, question: str) -> dspy.Prediction:
        """Search, keep what is relevant, answer, check; reword the query and try again when a check fails."""
        query, best = question, None
        rounds = self.knobs.rounds
        for turn in range(1, rounds + 1):
            found = await self._found(query)
            grades = await together(*(self._relevance(question, p) for p in found))
            kept = [p for p, grade in zip(found, grades, strict=True) if grade]
            passages = self.fitting(self.answer, kept, question=question)
            record(Note("relevant", f"{len(kept)} of {len(found)}"))
            if passages:
                said = await self.answer.acall(question=question, passages=[shown(p) for p in passages])
                best = dspy.Prediction(
                    answer=said.answer, passages=passages, tallies=self._tallies(rounds=turn, candidates=1)
                )
                if turn < rounds and await self._good(question, passages, said.answer):
                    return best
            if turn < rounds:
                query = await self._reworded(question, query)
        return best if best is not None else await self._known(question, rounds=rounds)

    async def _good(self, question: str, passages: tuple[Passage, ...], answer: str) -> bool:
        """Whether the passages support the answer, at least in part, and it is useful."""
        support, utility = await together(
            self._support(question, passages, answer), self._utility(question, answer)
        )
        record(Note("check", f"support {support:g}, utility {utility:g}"))
        return support > 0 and bool(utility >= (self.knobs.useful_from - 3) / 2)

    async def _reworded(self, question: str, query: str) -> str:
        """Another query; the old one when none was given."""
        said = await attempt(self.query, question=question, query=query)
        better = said.better_query.strip() if said is not None else ""
        if said is not None and not better:
            counters.count(dropped=1)
        return better or query
