"""LLatrieval: the model condenses, chooses and verifies documents, and asks again until they suffice.

Paper: LLatrieval as GGatrieval builds on it (METHODS sections 3.1 and 3.2). Each round searches, condenses
every new document by itself, and carries the chosen ones through a sliding window together with the new
ones; then the choice is verified, and if it does not suffice a new query is written. With d new documents
of which r matter and c chosen before, a round takes d condensing calls at once, about (r - k) / (W - k)
selecting calls one after the other, and, but for the last round, one to verify and one to ask anew.
Differs: documents of earlier rounds are not looked at again; a round that finds nothing new is the last;
documents called irrelevant are left out; the answer is written from the chosen documents in full; `top_up`
is on; there are no gold sub-questions; the question stays the same in every call but the search. What does
not fit a selecting call waits for the next. A call that cannot be read changes nothing: the document stays
as it is, the first of the window are chosen, the choice does not suffice, nothing new is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import dspy

from ragc import counters
from ragc.errors import ParseFailure
from ragc.programs.base import RagProgram, shown
from ragc.programs.llatrieval_knobs import LLatrievalKnobs
from ragc.programs.predict import RagPredict
from ragc.programs.rankgpt import first_words
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Note, record, together
from ragc.records import Passage
from ragc.signatures.answers import ShortAnswer
from ragc.signatures.ranking import CondenseDocument, MissingPassage, UpdateQuestion
from ragc.signatures.selection import SelectDocuments, VerifyDocuments, picked

Texts = Mapping[str, str]
"""What the model sees of a document until the answer is written, by passage id."""


class LLatrieval(RagProgram):
    """Rounds of search, condensing, choosing and verifying; then one answer with citations."""

    def __init__(self, runtime: Runtime, knobs: LLatrievalKnobs) -> None:
        super().__init__(runtime, knobs)
        self.local = runtime.source("local").rechunked(knobs.chunk_size, knobs.overlap)
        self.condense = self.predictor(CondenseDocument, max_tokens=150)
        self.select = self.predictor(SelectDocuments, max_tokens=100)
        self.verify = self.predictor(VerifyDocuments, max_tokens=30)
        self.verify.max_demos = min(knobs.verify_demo, knobs.icl_n)
        self.update = self.predictor(_updater(knobs.update), max_tokens=150)
        self.answer = self.answering(ShortAnswer)

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
        """Choose documents in at most `rounds` rounds and answer from them, citing."""
        knobs, query = self.knobs, question
        chosen: tuple[Passage, ...] = ()
        seen: set[str] = set()
        texts: dict[str, str] = {}
        done = 0
        for number in range(1, knobs.rounds + 1):
            hits = await self.search("local", query, knobs.candidates, source=self.local)
            fresh = [hit.passage for hit in hits if hit.passage.id not in seen]
            if not fresh:
                record(Note(f"round {number}", "nothing new was found"))
                break
            done = number
            seen.update(passage.id for passage in fresh)
            texts |= await self._condensed(question, fresh)
            chosen = await self._chosen(question, [*chosen, *(p for p in fresh if p.id in texts)], texts)
            if number == knobs.rounds or await self._suffice(question, chosen, texts):
                break
            query = await self._next_query(question, chosen, texts)
        tallies = {"rounds": done, "documents": len(seen), "irrelevant": len(seen) - len(texts)}
        return await self._answered(question, chosen, tallies)

    async def _condensed(self, question: str, documents: Sequence[Passage]) -> dict[str, str]:
        """The text to show of each document that has to do with the question."""
        if not self.knobs.doc_condense:
            return {document.id: shown(document) for document in documents}
        made = await together(*(self._short(question, document) for document in documents))
        return {document.id: text for document, text in zip(documents, made, strict=True) if text}

    async def _short(self, question: str, document: Passage) -> str:
        """`document` in a few words; empty when it is irrelevant."""
        whole = text = shown(document)
        words = len(whole.split())
        while words > 1 and not self._fits(self.condense, question=question, document=text):
            words //= 2
            text = first_words(whole, words)
        try:
            said = await self.condense.acall(question=question, document=text)
        except ParseFailure:
            record(Note(f"document {document.id}", "could not be condensed, kept as it is"))
            return text
        summary = said.summary.strip()
        if summary.strip("[]\"'. ").lower() == "irrelevant":
            return ""
        return shown(replace(document, text=summary)) if summary else text

    async def _chosen(self, question: str, browse: list[Passage], texts: Texts) -> tuple[Passage, ...]:
        """At most `k_support` of `browse`, carried through windows of `window` documents."""
        knobs, waiting = self.knobs, list(browse)
        chosen: list[Passage] = []
        while waiting:
            window = [*chosen, *waiting[: max(1, knobs.window - len(chosen))]]
            fitting = self._how_many(self.select, window, texts, question=question, k=knobs.k_support)
            taken = fitting - len(chosen)
            if taken < 1:  # the next document fits no call beside those chosen
                waiting.pop(0)
                counters.count(trimmed=1)
                continue
            waiting = waiting[taken:]
            chosen = await self._picked(question, window[:fitting], texts)
        if knobs.top_up:
            chosen += [document for document in browse if document not in chosen][
                : knobs.k_support - len(chosen)
            ]
        return tuple(chosen)

    async def _picked(self, question: str, window: list[Passage], texts: Texts) -> list[Passage]:
        k = self.knobs.k_support
        try:
            said = await self.select.acall(question=question, k=k, documents=[texts[p.id] for p in window])
        except ParseFailure:
            record(Note("choice", "could not be read, so the first documents are kept"))
            return window[:k]
        places, wrong = picked(said.ids, len(window), k)
        counters.count(dropped=wrong)
        return [window[place] for place in places]

    async def _suffice(self, question: str, chosen: tuple[Passage, ...], texts: Texts) -> bool:
        if not self.knobs.verify or not chosen:
            return False
        documents = self._trimmed(self.verify, chosen, texts, question=question)
        try:
            said = await self.verify.acall(question=question, documents=documents)
        except ParseFailure:
            record(Note("verification", "could not be read, counts as NO"))
            return False
        return bool(said.sufficient == "YES")

    async def _next_query(self, question: str, chosen: tuple[Passage, ...], texts: Texts) -> str:
        """What to search for next; the question itself when the model writes nothing."""
        documents = self._trimmed(self.update, chosen, texts, question=question)
        try:
            said = await self.update.acall(question=question, documents=documents)
        except ParseFailure:
            record(Note("next query", "could not be read, the question is searched again"))
            return question
        text: str = said.new_question if self.knobs.update == "question" else said.missing
        return text.strip() or question

    async def _answered(
        self, question: str, chosen: tuple[Passage, ...], tallies: Mapping[str, int]
    ) -> dspy.Prediction:
        said = await self.answered(self.answer, question, chosen)
        return dspy.Prediction(answer=said.answer, passages=said.passages, tallies=tallies)

    def _fits(self, call: RagPredict, **inputs: Any) -> bool:
        return call.size(**inputs) <= self.runtime.target(call.role).context_tokens

    def _how_many(self, call: RagPredict, documents: Sequence[Passage], texts: Texts, **inputs: Any) -> int:
        """How many of the first `documents` fit the context of `call`."""
        shown_texts = [texts[document.id] for document in documents]
        n = len(shown_texts)
        while n and not self._fits(call, documents=shown_texts[:n], **inputs):
            n -= 1
        return n

    def _trimmed(
        self, call: RagPredict, documents: Sequence[Passage], texts: Texts, **inputs: Any
    ) -> list[str]:
        """The texts of as many documents as fit; the rest are counted."""
        n = self._how_many(call, documents, texts, **inputs)
        counters.count(trimmed=len(documents) - n)
        return [texts[document.id] for document in documents[:n]]


def _updater(update: str) -> Any:
    return UpdateQuestion if update == "question" else MissingPassage
