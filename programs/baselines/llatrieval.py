"""LLatrieval: the model condenses, chooses and verifies documents, and asks again until they suffice.

Paper: LLatrieval (Li et al. 2024) as GGatrieval builds on it, its section 3.4, and the authors' code. Each
round searches, condenses every new document by itself, and carries the documents chosen before through a
sliding window together with the new ones; then the choice is verified, and if it does not suffice a new query
is written. Condensing, choosing and verifying are those of `ragc.programs.selection`. With d new documents of
which r matter and c chosen before, a round takes d condensing calls at once, about (c + r - k) / (W - k)
selecting calls one after the other, and, but for the last round, one to verify and one to ask anew.
Differs: documents of earlier rounds are not looked at again; a round that finds nothing new, or after which
nothing new has to do with the question though documents are chosen, is the last; documents called irrelevant
are left out; the answer is written from the chosen documents in full; `top_up` is on, `asqa_sub_questions`
off, and with it sub-questions are searched with the question in one query. A call that cannot be read changes
nothing: the document stays as it is, the first of the window are chosen, the choice does not suffice; without
a new query the round is the last. Where nothing is found at all, a format that cites is answered from memory,
without marks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dspy

from ragc.programs.baselines.knobs import LLatrievalKnobs
from ragc.programs.runtime import Runtime
from ragc.programs.selection import SelectingProgram
from ragc.programs.trace import Note, record, together
from ragc.records import Passage
from ragc.signatures.answer import ShortAnswer
from ragc.signatures.select import SelectDocuments, condensing, updating, with_sub_questions


class LLatrieval(SelectingProgram):
    """Rounds of search, condensing, choosing and verifying; then one answer with citations."""

    def __init__(self, runtime: Runtime, knobs: LLatrievalKnobs) -> None:
        super().__init__(runtime, knobs)
        self.local = self.cut_source("local")
        self.condense = self.predictor(condensing(knobs.condense_to), max_tokens=150)
        self.select = self.predictor(SelectDocuments, max_tokens=100)
        self.verify = self.verifying_call()
        self.update = self.predictor(updating(knobs.update), max_tokens=150)
        self.answer = self.answer_call(self.reading(ShortAnswer))
        self.answer.max_demos = min(knobs.shots_answer, knobs.icl_n)

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Chooses documents in at most `rounds` rounds and answers from them, with citations.

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
            summaries = await together(*(self.condensed(question, document) for document in fresh))
            texts.update({p.id: text for p, text in zip(fresh, summaries, strict=True) if text})
            relevant = [passage for passage in fresh if passage.id in texts]
            if chosen and not relevant:
                record(Note(f"round {number}", "nothing new has to do with the question"))
                break
            browse = [*chosen, *relevant]
            chosen = tuple(await self.choose(question, browse, lambda one: texts[one.id], browse))
            if number == knobs.rounds or await self.is_sufficient(question, [texts[p.id] for p in chosen]):
                break
            query = await self._next_query(question, chosen, texts)
            if not query:
                record(Note(f"round {number}", "nothing further was asked"))
                break
        prediction = await self.answer_chosen(question, chosen)
        tallies = {"rounds": done, "documents": len(seen), "irrelevant": len(seen) - len(texts)}
        return dspy.Prediction(answer=prediction.answer, passages=prediction.passages, tallies=tallies)

    async def _next_query(self, question: str, chosen: tuple[Passage, ...], texts: Mapping[str, str]) -> str:
        """Returns the next search query, from as many of the `chosen` documents as fit; "" for none."""

        def inputs(subset: tuple[Passage, ...]) -> dict[str, Any]:
            return {"question": question, "documents": [texts[document.id] for document in subset]}

        shown = self.shrink_to_fit(self.update, chosen, inputs, budgeted=False)
        reply = await self.update.try_call(**inputs(shown))
        text = "" if reply is None else reply[next(iter(self.update.signature.output_fields))]
        return str(text).strip()
