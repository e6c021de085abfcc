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

from ragc.core import counters
from ragc.errors import CapabilityMissing
from ragc.metrics.short_answer import normalise
from ragc.programs.base import RagProgram, shown
from ragc.programs.baselines.crag import readable
from ragc.programs.baselines.knobs import SelfRagKnobs
from ragc.programs.calls.replies import field_tokens, mean_probability
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Note, exceeds, reaches, record, together
from ragc.records import Passage
from ragc.signatures.answer import ClosedBookAnswer, ShortAnswer
from ragc.signatures.grade import BetterQuery, NeedRetrieval, RelevanceCheck, SupportGrade, Utility

SUPPORT = {"fully": 1.0, "partially": 0.5, "none": 0.0}


@dataclass(frozen=True, slots=True)
class Candidate:
    """An answer from one passage and its score."""

    passage: Passage
    answer: str
    score: float


class SelfRag(RagProgram):
    """Scored: 1 + 4n calls for n passages, 3 deep. Graph: n + 4 a round, 4 deep, but n + 1 in the last."""

    call_knobs = ("form", "top_k", "gate", "w_rel", "w_sup", "w_use", "rounds")

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
        """Of the graph every round failing its check, or an only one without an answer that can be read.

        Of the scored form one answer a passage, or none.
        """
        knobs, n = self.knobs, self.knobs.top_k
        if knobs.form == "graph":
            return int(max(knobs.rounds * (n + 4) - 3, n + 2))
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
        said = await self.need.attempt(question=question)
        least = self.knobs.selfrag_threshold
        wanted = said is None or exceeds("selfrag_threshold", said.need.percent / 100, least)
        record(Note("search", "needed" if wanted else "not needed"))
        return wanted

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
        if not self.fitting(self.answer, (passage,), question=question):
            return None
        said, relevance = await together(
            self.answer.attempt(question=question, passages=[shown(passage)]),
            self._relevance(question, passage),
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
            score += knobs.w_seq * mean_probability(field_tokens(said.logprobs, "answer", said.answer))
        return Candidate(passage, answer, score)

    async def _relevance(self, question: str, passage: Passage) -> float:
        """1 when the passage is relevant, else 0."""
        if self.knobs.form == "scored" and not self.knobs.w_rel:
            return 0.0
        if not readable(self.relevance, (passage,), question):
            return 0.0
        said = await self.relevance.attempt(question=question, passage=shown(passage))
        return float(said is not None and said.relevant)

    async def _support(self, question: str, passages: tuple[Passage, ...], answer: str) -> float:
        """How far the passages back up the answer: 1, 0.5 or 0."""
        if self.knobs.form == "scored" and not self.knobs.w_sup:
            return 0.0
        fit = self.fitting(self.support, passages, question=question, answer=answer)
        if not fit:
            return 0.0
        said = await self.support.attempt(question=question, passages=[shown(p) for p in fit], answer=answer)
        return SUPPORT[said.support] if said is not None else 0.0

    async def _utility(self, question: str, answer: str) -> float:
        """A utility of 1 to 5 as -1 to 1; 0, the middle, when it cannot be told."""
        if self.knobs.form == "scored" and not self.knobs.w_use:
            return 0.0
        said = await self.utility.attempt(question=question, answer=answer)
        return (int(said.utility) - 3) / 2 if said is not None else 0.0

    async def _graph(self, question: str) -> dspy.Prediction:
        """Search, keep what is relevant, answer, check; reword the query and try again when a check fails."""
        query, rounds = question, self.knobs.rounds
        answer = ""
        passages: tuple[Passage, ...] = ()
        for turn in range(1, rounds + 1):
            said, kept = await self._round(question, query)
            if said:
                answer, passages = said, kept
            if turn == rounds or (said and await self._good(question, kept, said)):
                break
            query = await self._reworded(question, query)
        if not answer:
            return await self._known(question, rounds=turn)
        return dspy.Prediction(
            answer=answer, passages=passages, tallies=self._tallies(rounds=turn, candidates=1)
        )

    async def _round(self, question: str, query: str) -> tuple[str, tuple[Passage, ...]]:
        """The answer from the relevant passages that `query` finds, empty when there is none, and those."""
        found = await self._found(query)
        grades = await together(*(self._relevance(question, p) for p in found))
        kept = [p for p, grade in zip(found, grades, strict=True) if grade]
        record(Note("relevant", f"{len(kept)} of {len(found)}"))
        passages = self.fitting(self.answer, kept, question=question)
        if not passages:
            return "", ()
        said = await self.answer.attempt(question=question, passages=[shown(p) for p in passages])
        return (said.answer.strip() if said is not None else ""), passages

    async def _good(self, question: str, passages: tuple[Passage, ...], answer: str) -> bool:
        """Whether the passages support the answer, at least in part, and it is useful."""
        support, utility = await together(
            self._support(question, passages, answer), self._utility(question, answer)
        )
        record(Note("check", f"support {support:g}, utility {utility:g}"))
        return support > 0 and reaches("useful_from", 2 * utility + 3, self.knobs.useful_from)

    async def _reworded(self, question: str, query: str) -> str:
        """Another query; the old one when none was given."""
        said = await self.query.attempt(question=question, query=query)
        better = said.better_query.strip() if said is not None else ""
        if said is not None and not better:
            counters.count(dropped=1)
        return better or query
