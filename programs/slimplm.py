"""SlimPLM: a small proxy model decides when to search and what for; the main model is asked once.

Paper: SlimPLM, METHODS sections 5.1 to 5.3 and the ablations of 5.5. The proxy answers, its answer is
judged, and if the question passes for known the main model answers without passages. Else the proxy's
answer is taken apart into claims, those that pass for known are left out, and the rest are searched.
Differs: the fine-tuned judge and rewriter are prompts, and each of their uses is a call of its own that
can be tuned alone: the question and the proxy's answer are taken apart at once by two calls, question
and claims are judged by two. A score is a stated confidence, as targets give the probability of the
chosen tokens only. A proxy that says nothing knows nothing, without asking. The main model answers as
briefly as in the other methods unless `answer_format` says otherwise. top_k 1 and a repetition penalty
are not sent. Whatever the proxy says that cannot be read counts as no claims, or as not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import dspy

from ragc import counters
from ragc.corpora.bm25 import analyze, query_terms
from ragc.counters import Counters
from ragc.errors import ParseFailure
from ragc.programs import slimplm_references as references
from ragc.programs.base import RagProgram, shown
from ragc.programs.predict import RagPredict
from ragc.programs.runtime import Runtime
from ragc.programs.slimplm_knobs import SlimPLMKnobs
from ragc.programs.trace import Note, record, together
from ragc.records import Passage
from ragc.signatures.claims import MOST, ClaimKnown, ClaimSplit, QuestionSplit
from ragc.signatures.proxy import JudgeKnown, ProxyAnswer, judged, reader

PROXY_WEIGHT = 0.1
"""What a proxy call or token costs next to one of the main model (METHODS section 5.5)."""


@dataclass(slots=True)
class _Spent:
    """What one question has cost so far, by role."""

    main: Counters = field(default_factory=Counters)
    proxy: Counters = field(default_factory=Counters)

    async def ask(self, call: RagPredict, **inputs: Any) -> Any:
        """A typed call, charged to its role."""
        with counters.counting(self.proxy if call.role == "proxy" else self.main):
            return await call.acall(**inputs)

    async def try_ask(self, call: RagPredict, **inputs: Any) -> Any:
        """The same; None when no reply could be read, which is noted and counted as dropped."""
        try:
            return await self.ask(call, **inputs)
        except ParseFailure:
            counters.count(dropped=1)
            record(Note(call.name, "could not be read"))
            return None

    def tallies(self) -> dict[str, float]:
        """Calls and generated tokens of both roles, and their sum in what the main model's cost."""
        main, proxy = self.main, self.proxy
        return {
            "main_calls": main.lm_calls,
            "proxy_calls": proxy.lm_calls,
            "weighted_calls": main.lm_calls + PROXY_WEIGHT * proxy.lm_calls,
            "main_generated": main.completion_tokens,
            "proxy_generated": proxy.completion_tokens,
            "weighted_generated": main.completion_tokens + PROXY_WEIGHT * proxy.completion_tokens,
        }


class SlimPLM(RagProgram):
    """Proxy calls for all decisions, one call of the main model, one search of `local` for each query.

    With q and c queries from question and claims: 2 proxy calls when known; else 4 + c, or fewer as knobs
    leave out, and at most 1 + q + c searches.
    """

    def __init__(self, runtime: Runtime, knobs: SlimPLMKnobs) -> None:
        super().__init__(runtime, knobs)
        most = knobs.proxy_tokens
        self.draft = self.predictor(ProxyAnswer, role="proxy", max_tokens=most)
        self.judge = self.predictor(judged(JudgeKnown, knobs.judge_by), role="proxy", max_tokens=64)
        self.parts = self.predictor(QuestionSplit, role="proxy", max_tokens=most)
        self.claims = self.predictor(ClaimSplit, role="proxy", max_tokens=most)
        self.claim_judge = self.predictor(judged(ClaimKnown, knobs.judge_by), role="proxy", max_tokens=64)
        plain, from_passages = reader(knobs.answer_format)
        self.chat = self.answering(plain, cot=knobs.known_cot)
        self.answer = self.answering(from_passages)

    def most_calls(self) -> int:
        """Those of a question that is not known: the proxy's draft, judgements and splits, and the answer."""
        knobs = self.knobs
        split = knobs.include_question_queries + 1 + (MOST if knobs.use_qf else 0)
        return int((knobs.use_qj or knobs.use_qr) + knobs.use_qj + (split if knobs.use_qr else 0) + 1)

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Answer `question` from what the main model knows, or from what is found for its queries."""
        spent = _Spent()
        passages = await self._needed(spent, question)
        with counters.counting(spent.main):
            if passages:
                said = await self.answered(self.answer, question, passages)
            else:
                said = await self.chat.acall(question=question)
        return dspy.Prediction(answer=said.answer, passages=passages, tallies=spent.tallies())

    async def _needed(self, spent: _Spent, question: str) -> tuple[Passage, ...]:
        """The passages to answer from; none when the question is known or nothing is found."""
        draft = ""
        if self.knobs.use_qj or self.knobs.use_qr:
            said = await spent.try_ask(self.draft, question=question)
            draft = said.heuristic_answer.strip() if said else ""
        if self.knobs.use_qj:
            known = bool(draft) and await self._known(
                spent, self.judge, question=question, heuristic_answer=draft
            )
            record(Note("question", "known" if known else "not known"))
            if known:
                return ()
        queries = await self._queries(spent, question, draft)
        found = await together(*(self.search("local", q, self.knobs.pages_per_query) for q in queries))
        return self._shown(question, references.pages(found))

    async def _known(self, spent: _Spent, call: RagPredict, **inputs: str) -> bool:
        """One judgement; what cannot be read is not known."""
        said = await spent.try_ask(call, **inputs)
        if said is None:
            return False
        if self.knobs.judge_by == "confidence":
            return bool(said.confidence > round(100 * self.knobs.judge_threshold))
        return bool(said.known == "yes")

    async def _queries(self, spent: _Spent, question: str, draft: str) -> list[str]:
        """What to search for, without repeats: the question, then its parts, then claims."""
        if not self.knobs.use_qr:
            return [question]
        made = await together(self._of_question(spent, question), self._of_claims(spent, question, draft))
        first = [question] if self.knobs.include_original_query else []
        return list(dict.fromkeys([*first, *made[0], *made[1]]))

    async def _of_question(self, spent: _Spent, question: str) -> list[str]:
        if not self.knobs.include_question_queries:
            return []
        said = await spent.try_ask(self.parts, question=question)
        kept = _about(question, said.questions, "question") if said else []
        return [part.query.strip() for part in kept if part.need_search == "yes"]

    async def _of_claims(self, spent: _Spent, question: str, draft: str) -> list[str]:
        if not draft:
            return []
        said = await spent.try_ask(self.claims, question=question, heuristic_answer=draft)
        listed = said.claims if said else []
        counters.count(dropped=len(listed[MOST:]))  # only JSON layouts hold a reply to its bounds
        claims = _about(f"{question} {draft}", listed[:MOST], "claim")
        if not self.knobs.use_qf:
            return [claim.query.strip() for claim in claims if claim.need_search == "yes"]
        known = await together(
            *(self._known(spent, self.claim_judge, query=c.query.strip(), claim=c.claim) for c in claims)
        )
        record(Note("claims", f"{sum(known)} of {len(claims)} known"))
        return [claim.query.strip() for claim, out in zip(claims, known, strict=True) if not out]

    def _shown(self, question: str, found: Sequence[references.Page]) -> tuple[Passage, ...]:
        """The references that are dealt, at most `refs_max`, and fit under the cap and in the context."""
        deal = references.dealt if self.knobs.round_robin == "true" else references.zipped
        chosen = deal(references.ranked(question, found))[: self.knobs.refs_max]

        def tokens(passages: references.Page) -> int:
            texts = [shown(p) for p in passages]
            call = self.answer
            return call.size(question=question, passages=texts) - call.sampling.max_tokens

        kept = references.capped(chosen, tokens, self.knobs.prompt_token_cap)
        if len(kept) < len(chosen):
            counters.count(trimmed=len(chosen) - len(kept))
        return self.fitting(self.answer, kept, question=question)


def _about(text: str, items: Iterable[Any], name: str) -> list[Any]:
    """The items with a query whose field `name` shares a word with `text`; others are counted as dropped."""
    words = set(analyze(text))
    listed = list(items)
    kept = [i for i in listed if i.query.strip() and not words.isdisjoint(query_terms(getattr(i, name)))]
    counters.count(dropped=len(listed) - len(kept))
    return kept
