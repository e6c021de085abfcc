"""FLARE: write the answer a sentence at a time, and look up what the model is unsure of.

Paper: Active Retrieval Augmented Generation, sections 3.1 and 3.2, FLARE direct with implicit queries
(METHODS section 6): search with the question; draft the next sentence; when a token is less likely
than theta, search with the sentence without its tokens below beta and write it again from what is
found, which takes the place of the earlier passages.
Differs: a last call takes the short answer from the draft (`finish` = short); at most `sentences`
sentences and `rounds` lookups; a sentence that only repeats an earlier one ends the draft and is
dropped; a query left empty by beta becomes the whole sentence; a sentence whose probabilities cannot
be told (its reply was mended) is looked up whole. With `uncertainty` = spans the model names the
doubtful words itself and how sure it is of each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import dspy

from ragc import counters
from ragc.errors import CapabilityMissing
from ragc.programs.base import RagProgram, shown
from ragc.programs.corrective_knobs import FlareKnobs
from ragc.programs.crag_judging import attempt
from ragc.programs.flare_tokens import pieces
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Note, record
from ragc.records import Passage
from ragc.signatures.uncertainty import Conclude, NextSentence, UncertainSpans

Part = tuple[str, float]
"""Words of a sentence and their probability."""


class Flare(RagProgram):
    """One call a sentence, one more for each lookup, and one for the short answer."""

    def __init__(self, runtime: Runtime, knobs: FlareKnobs) -> None:
        super().__init__(runtime, knobs)
        measured = knobs.uncertainty == "logprobs"
        target = runtime.target("main")
        if measured and "logprobs" not in target.capabilities:
            raise CapabilityMissing(
                f"FLARE needs log probabilities and {target.name} gives none; "
                'set the knob uncertainty = "spans".'
            )
        if knobs.finish == "short":
            self.answer = self.answering(Conclude)
        self.draft = self.predictor(NextSentence, max_tokens=80, logprobs=measured)
        if not measured:
            self.doubts = self.predictor(UncertainSpans, max_tokens=160)

    def most_calls(self) -> int:
        """Every sentence drafted and doubted, `rounds` of them drafted again, and the short answer."""
        knobs, n = self.knobs, self.knobs.sentences
        doubts, again = n * (knobs.uncertainty == "spans"), min(n, knobs.rounds)
        looking = doubts + again if knobs.flare_theta > 0 else 0
        return int(n + looking + (knobs.finish == "short"))

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Draft sentence by sentence, look up the unsure ones, then conclude."""
        passages = await self._found(question) if self.knobs.first else ()
        said: list[str] = []
        lookups = 0
        for _ in range(self.knobs.sentences):
            draft, passages = await self._drafted(question, passages, said)
            sentence = draft.sentence.strip() if draft is not None else ""
            if sentence and lookups < self.knobs.rounds and self.knobs.flare_theta > 0:
                query = await self._query(question, draft)
                found = await self._found(query) if query else ()
                lookups += bool(query)
                if found:
                    again, passages = await self._drafted(question, found, said)
                    sentence = (again.sentence.strip() if again is not None else "") or sentence
            if sentence in said:
                counters.count(dropped=1)
                record(Note("draft", "a sentence said before"))
                break
            if not sentence:
                break
            said.append(sentence)
        answer = await self._concluded(question, " ".join(said))
        tallies = {"flare_sentences": len(said), "flare_lookups": lookups}
        return dspy.Prediction(answer=answer, passages=passages, tallies=tallies)

    async def _found(self, query: str) -> tuple[Passage, ...]:
        return tuple(hit.passage for hit in await self.search("local", query, self.knobs.flare_k))

    async def _drafted(
        self, question: str, passages: Sequence[Passage], said: Sequence[str]
    ) -> tuple[Any, tuple[Passage, ...]]:
        """The next sentence's prediction, None when it cannot be read, and the passages it was shown."""
        known = {"question": question, "so_far": " ".join(said)}
        fit = self.fitting(self.draft, passages, **known)
        return await attempt(self.draft, passages=[shown(p) for p in fit], **known), fit

    async def _query(self, question: str, draft: Any) -> str:
        """What to look up about the drafted sentence: its surer parts; empty when it is sure enough."""
        sentence = draft.sentence.strip()
        if self.knobs.uncertainty == "spans":
            parts = await self._named(question, sentence)
        else:
            parts = self._measured(draft)
        if all(probability >= self.knobs.flare_theta for _, probability in parts):
            return ""
        kept = "".join(words for words, probability in parts if probability >= self.knobs.flare_beta)
        query = " ".join(kept.replace("\ufffd", " ").split()) or " ".join(sentence.split())
        record(Note("unsure", query))
        return query

    @staticmethod
    def _measured(draft: Any) -> list[Part]:
        """The tokens of the sentence and their probabilities; the whole at 0 when they cannot be told."""
        tokens = pieces(draft.logprobs, "sentence", draft.sentence)
        if not tokens:
            record(Note("unsure", "no probabilities for this sentence"))
            return [(draft.sentence, 0.0)]
        return [(token.token, math.exp(token.logprob)) for token in tokens]

    async def _named(self, question: str, sentence: str) -> list[Part]:
        """The sentence cut at the spans that the model doubts; spans that are not in it are dropped."""
        said = await attempt(self.doubts, question=question, sentence=sentence)
        spans = said.doubts.spans if said is not None else []
        sure = [1.0] * len(sentence)
        for doubt in spans:
            at = sentence.find(doubt.span) if doubt.span else -1
            if at < 0:
                counters.count(dropped=1)
                continue
            for i in range(at, at + len(doubt.span)):
                sure[i] = min(sure[i], doubt.confidence / 100)
        return list(zip(sentence, sure, strict=True))

    async def _concluded(self, question: str, draft: str) -> str:
        if self.knobs.finish == "text":
            return draft
        said = await self.answer.acall(question=question, draft=draft)
        return str(said.answer)
