"""LLatrieval: the model condenses, chooses and verifies documents, and asks again until they suffice.

Paper: LLatrieval (Li et al. 2024) as GGatrieval builds on it, its section 3.4, and the authors' code. Each
round searches, condenses every new document by itself, and carries the documents chosen before through a
sliding window together with the new ones; then the choice is verified, and if it does not suffice a new query
is written. With d new documents of which r matter and c chosen before, a round takes d condensing calls at
once, about (c + r - k) / (W - k) selecting calls one after the other, and, but for the last round, one to
verify and one to ask anew.
Differs: documents of earlier rounds are not looked at again; a round that finds nothing new, or after which
nothing new has to do with the question though documents are chosen, is the last; documents called irrelevant
are left out; the answer is written from the chosen documents in full; `top_up` is on, `asqa_sub_questions`
off, and with it sub-questions are searched with the question in one query. What does not fit a selecting call
waits for the next. A call that cannot be read changes nothing: the document stays as it is, the first of the
window are chosen, the choice does not suffice; without a new query the round is the last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import dspy

from ragc.core import counters
from ragc.programs.base import RagProgram, format_passage
from ragc.programs.baselines.knobs import LLatrievalKnobs
from ragc.programs.calls.predict import RagPredict
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Note, record, together
from ragc.records import Passage
from ragc.signatures.answer import ShortAnswer
from ragc.signatures.select import (
    SelectDocuments,
    VerifyDocuments,
    condensing,
    irrelevant,
    pick_positions,
    updating,
    with_sub_questions,
)

Texts = Mapping[str, str]
"""What the model sees of a document until the answer is written, by passage id."""


class LLatrieval(RagProgram):
    """Rounds of search, condensing, choosing and verifying; then one answer with citations."""

    call_knobs = ("k_support", "candidates", "rounds", "doc_condense", "verify")

    def __init__(self, runtime: Runtime, knobs: LLatrievalKnobs) -> None:
        super().__init__(runtime, knobs)
        self.local = self.cut_source("local")
        self.condense = self.predictor(condensing(knobs.condense_to), max_tokens=150)
        self.select = self.predictor(SelectDocuments, max_tokens=100)
        self.verify = self.predictor(VerifyDocuments, max_tokens=30)
        self.verify.max_demos = min(knobs.verify_demo, knobs.icl_n)
        self.update = self.predictor(updating(knobs.update), max_tokens=150)
        self.answer = self.answer_call(self.reading(ShortAnswer))
        self.answer.max_demos = min(knobs.shots_answer, knobs.icl_n)

    def most_calls(self) -> int:
        """The answer, and every round's calls; each selecting call may have room for one more only."""
        knobs, calls = self.knobs, 1
        for done in range(knobs.rounds):
            chosen = min(knobs.k_support, done * knobs.candidates)
            calls += knobs.candidates * knobs.doc_condense + (chosen + knobs.candidates)
            if done:
                calls += knobs.verify + 1
        return int(calls)

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Choose documents in at most `rounds` rounds and answer from them, citing.

        `context` may hold `sub_questions`, which `asqa_sub_questions` wants.
        """
        knobs, query = self.knobs, question
        if knobs.asqa_sub_questions:
            parts = [str(part) for part in context.get("sub_questions") or ()]
            record(Note("sub-questions", f"{len(parts)} came with the question"))
            query, question = " ".join((question, *parts)), with_sub_questions(question, parts)
        chosen: tuple[Passage, ...] = ()
        seen, texts = set[str](), dict[str, str]()
        done = 0
        for number in range(1, knobs.rounds + 1):
            hits = await self.search("local", query, knobs.candidates, source=self.local)
            fresh = [hit.passage for hit in hits if hit.passage.id not in seen]
            if not fresh:
                record(Note(f"round {number}", "nothing new was found"))
                break
            done = number
            seen.update(passage.id for passage in fresh)
            texts |= await self._condense_all(question, fresh)
            relevant = [passage for passage in fresh if passage.id in texts]
            if chosen and not relevant:
                record(Note(f"round {number}", "nothing new has to do with the question"))
                break
            chosen = await self._select_support(question, [*chosen, *relevant], texts)
            if number == knobs.rounds or await self._is_sufficient(question, chosen, texts):
                break
            query = await self._next_query(question, chosen, texts)
            if not query:
                record(Note(f"round {number}", "nothing further was asked"))
                break
        prediction = await self.answer_from(self.answer, question, chosen)
        tallies = {"rounds": done, "documents": len(seen), "irrelevant": len(seen) - len(texts)}
        return dspy.Prediction(answer=prediction.answer, passages=prediction.passages, tallies=tallies)

    async def _condense_all(self, question: str, documents: Sequence[Passage]) -> dict[str, str]:
        """The text to show of each document that has to do with the question."""
        if not self.knobs.doc_condense:
            return {document.id: format_passage(document) for document in documents}
        summaries = await together(*(self._condense(question, document) for document in documents))
        return {document.id: text for document, text in zip(documents, summaries, strict=True) if text}

    async def _condense(self, question: str, document: Passage) -> str:
        """`document` in a few words; empty when it is irrelevant."""
        whole = format_passage(document)
        reply = await self.condense.try_call(question=question, document=whole)
        summary = "" if reply is None else reply.summary.strip()
        if irrelevant(summary):
            return ""
        return format_passage(replace(document, text=summary)) if summary else whole

    async def _select_support(
        self, question: str, browse: list[Passage], texts: Texts
    ) -> tuple[Passage, ...]:
        """At most `k_support` of `browse`, carried through windows of `window` documents."""
        knobs, waiting = self.knobs, list(browse)
        chosen: list[Passage] = []
        while waiting:
            window = [*chosen, *waiting[: max(1, knobs.window - len(chosen))]]
            while len(window) > len(chosen) and not self.select.fits(
                **self._select_inputs(question, window, texts)
            ):
                window.pop()
            taken = len(window) - len(chosen)
            if not taken:  # the next document fits no call beside those chosen
                waiting.pop(0)
                counters.count(trimmed=1)
                continue
            waiting = waiting[taken:]
            chosen = await self._pick(question, window, texts)
        if knobs.top_up:
            others = [document for document in browse if document not in chosen]
            chosen += others[: knobs.k_support - len(chosen)]
        return tuple(chosen)

    async def _pick(self, question: str, window: list[Passage], texts: Texts) -> list[Passage]:
        k = self.knobs.k_support
        reply = await self.select.try_call(**self._select_inputs(question, window, texts))
        if reply is None:
            return window[:k]
        places, wrong = pick_positions(reply.ids, len(window), k)
        counters.count(dropped=wrong)
        return [window[at] for at in places]

    def _select_inputs(self, question: str, window: Sequence[Passage], texts: Texts) -> dict[str, Any]:
        """The inputs of the selecting call."""
        return {
            "question": question,
            "k": self.knobs.k_support,
            "documents": [texts[document.id] for document in window],
        }

    async def _is_sufficient(self, question: str, chosen: tuple[Passage, ...], texts: Texts) -> bool:
        if not self.knobs.verify or not chosen:
            return False
        reply = await self.verify.try_call(**self._fit_inputs(self.verify, question, chosen, texts))
        return reply is not None and bool(reply.sufficient == "YES")

    async def _next_query(self, question: str, chosen: tuple[Passage, ...], texts: Texts) -> str:
        """What to search for next; nothing when the model writes nothing."""
        reply = await self.update.try_call(**self._fit_inputs(self.update, question, chosen, texts))
        if reply is None:
            return ""
        text: str = reply.new_question if self.knobs.update == "question" else reply.missing
        return text.strip()

    def _fit_inputs(
        self, call: RagPredict, question: str, chosen: tuple[Passage, ...], texts: Texts
    ) -> dict[str, Any]:
        """The inputs of a `call` about as many of the `chosen` documents as fit it."""

        def inputs(subset: tuple[Passage, ...]) -> dict[str, Any]:
            return {"question": question, "documents": [texts[document.id] for document in subset]}

        return inputs(self.shrink_to_fit(call, chosen, inputs, budgeted=False))
