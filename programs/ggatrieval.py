"""GGatrieval: documents are chosen by how many grammatical parts of the question they align with.

Paper: GGatrieval, Algorithm 1, eq. 2 and section 3.3 (METHODS 3.1 to 3.4); progressive selection and
verification as in LLatrieval's code. A round searches, aligns every new document with the question in
one call each, chooses documents and verifies them; the next round's queries come from those chosen.

Differs: a component that is not in the question and a segment that is not in the document are dropped.
Ties of r keep the order of retrieval, with the hits of several queries taken in turn, because scores of
different queries do not compare. An unaligned component is reworded by the alignment call and put into
the query by us. At most 800 characters of a document are made part of a query, behind the question, and
queries start from the question unless `scqu_base` says prevQ. With `scqu` off a round reads on in the hits
of the question. A document is a candidate once. Rounds end when nothing new is found. Demonstrations of the
verifying call are those of the compiled program. Gold sub-questions (ASQA) are not used.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import dspy

from ragc import counters
from ragc.errors import ParseFailure
from ragc.programs.base import RagProgram, shown
from ragc.programs.ggatrieval_alignment import (
    LABELS,
    Candidate,
    components_of,
    judged,
    reworded,
    tally,
)
from ragc.programs.ggatrieval_knobs import GGatrievalKnobs
from ragc.programs.predict import RagPredict
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Note, record, together
from ragc.records import Hit
from ragc.signatures.alignment import PseudoDocument, alignment
from ragc.signatures.answers import ShortAnswer
from ragc.signatures.selection import SelectDocuments, VerifyDocuments, picked
from ragc.signatures.syntax import SyntacticParse

_QUERY_TEXT = 800
"""Characters of a document that become part of a query."""


class GGatrieval(RagProgram):
    """Parse, then up to `rounds` times: search, align, select, verify; then one cited answer."""

    def __init__(self, runtime: Runtime, knobs: GGatrievalKnobs) -> None:
        super().__init__(runtime, knobs)
        self.local = runtime.source("local").rechunked(knobs.chunk_size, knobs.overlap)
        aligning = alignment(reflect=knobs.fga_reflect, reword=knobs.scqu)
        self.parse = self.predictor(SyntacticParse, max_tokens=200)
        self.align = self.predictor(aligning, max_tokens=512)
        self.imagine = self.predictor(PseudoDocument, max_tokens=150)
        self.select = self.predictor(SelectDocuments, max_tokens=60)
        self.verify = self.predictor(VerifyDocuments, max_tokens=20)
        self.answer = self.answering(ShortAnswer)

    def most_calls(self) -> int:
        """Parse and answer, and every round's calls; each selecting call may have room for one more only."""
        knobs, calls = self.knobs, 2
        imagines = knobs.scqu and knobs.tau > 0
        for done in range(knobs.rounds):
            chosen = min(knobs.k_support, done * knobs.candidates)
            calls += knobs.candidates + (chosen + knobs.candidates)
            if done:
                calls += knobs.verify + imagines * (1 if knobs.scqu_scope == "best" else chosen)
        return int(calls)

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Answer `question` from the documents that are chosen in the end."""
        parts, new = await together(self._parsed(question), self._candidates([question], {}))
        chosen: list[Candidate] = []
        seen: dict[str, Candidate] = {}
        rounds = 0
        while new:
            rounds += 1
            new = await together(*(self._aligned(question, parts, candidate) for candidate in new))
            seen |= {candidate.passage.id: candidate for candidate in new}
            note = tally(new, ())
            record(Note(f"labels, round {rounds}", ", ".join(f"{note[x.lower()]} {x}" for x in LABELS)))
            chosen = await self._selected(question, [*chosen, *self._ranked(new)])
            if rounds == self.knobs.rounds or await self._sufficient(question, chosen):
                break
            new = await self._candidates(await self._queries(question, chosen), seen)
        final = self._without_label(chosen, list(seen.values()))
        said = await self.answered(self.answer, question, [c.passage for c in final])
        tallies = {**tally(list(seen.values()), final[: len(said.passages)]), "rounds": rounds}
        return dspy.Prediction(answer=said.answer, passages=said.passages, tallies=tallies)

    async def _parsed(self, question: str) -> Any:
        """The components of `question`, itself when no part of it can be told."""
        said = await self._tried(self.parse, question=question)
        return components_of(said, question)

    async def _candidates(self, queries: Sequence[str], seen: dict[str, Candidate]) -> Any:
        """At most `candidates` documents that are not in `seen`, taken from the queries' hits in turn."""
        wanted = self.knobs.candidates
        found: list[tuple[Hit, ...]] = await together(
            *(self.search("local", query, wanted + len(seen), source=self.local) for query in queries)
        )
        new: dict[str, Candidate] = {}
        for row in zip_longest(*found):
            for query, hit in zip(queries, row, strict=True):
                if hit is not None and hit.passage.id not in seen:
                    new.setdefault(hit.passage.id, Candidate(hit.passage, query))
        return list(new.values())[:wanted]

    async def _aligned(self, question: str, parts: tuple[str, ...], candidate: Candidate) -> Candidate:
        """`candidate` with its share; it stays NONE when it is too long or the reply cannot be read."""
        text = shown(candidate.passage)
        inputs = {"question": question, "components": list(parts), "passage": text}
        if self._too_long(self.align, **inputs):
            counters.count(trimmed=1)
            record(Note(f"align {candidate.passage.id}", "longer than the context"))
            return candidate
        said = await self._tried(self.align, **inputs)
        return candidate if said is None else judged(said, parts, candidate.passage, candidate.query)

    def _ranked(self, new: Sequence[Candidate]) -> list[Candidate]:
        """Best aligned first, ties as retrieved; as retrieved with `fga_rerank` off."""
        return sorted(new, key=lambda c: -c.share) if self.knobs.fga_rerank else list(new)

    async def _selected(self, question: str, browse: list[Candidate]) -> list[Candidate]:
        """At most `k_support` of `browse`, chosen window by window; each window starts with those chosen."""
        k = self.knobs.k_support
        chosen: list[Candidate] = []
        rest = browse
        while rest:
            window = self._window(question, chosen, rest[: max(1, self.knobs.window - len(chosen))])
            if len(window) == len(chosen):
                counters.count(trimmed=1)
                rest = rest[1:]
                continue
            rest = rest[len(window) - len(chosen) :]
            said = await self._tried(
                self.select, question=question, k=k, documents=[shown(c.passage) for c in window]
            )
            places, wrong = picked(said.ids if said is not None else (), len(window), k)
            counters.count(dropped=wrong)
            chosen = [window[i] for i in places]
        if self.knobs.top_up:
            chosen += [c for c in browse if c not in chosen][: k - len(chosen)]
        return chosen

    def _window(self, question: str, chosen: list[Candidate], more: Sequence[Candidate]) -> list[Candidate]:
        """`chosen`, and of `more` as many as fit the selecting call; those left out come again later."""
        window = [*chosen, *more]
        while len(window) > len(chosen) and self._too_long(
            self.select,
            question=question,
            k=self.knobs.k_support,
            documents=[shown(c.passage) for c in window],
        ):
            window = window[:-1]
        return window

    async def _sufficient(self, question: str, chosen: Sequence[Candidate]) -> bool:
        """Whether the model finds `chosen` sufficient; no document never is, nor any with `verify` off."""
        documents = [shown(c.passage) for c in chosen if self.knobs.verify]
        while documents and self._too_long(self.verify, question=question, documents=documents):
            documents = documents[:-1]
            counters.count(trimmed=1)
        if not documents:
            return False
        said = await self._tried(self.verify, question=question, documents=documents)
        return said is not None and said.sufficient == "YES"

    async def _queries(self, question: str, chosen: Sequence[Candidate]) -> list[str]:
        """The next round's queries, one a chosen document (SCQU); the question where none is chosen."""
        if not self.knobs.scqu or not chosen:
            return [question]
        used = [max(chosen, key=lambda c: c.share)] if self.knobs.scqu_scope == "best" else chosen
        queries = await together(*(self._query(question, candidate) for candidate in used))
        return list(dict.fromkeys(queries))

    async def _query(self, question: str, candidate: Candidate) -> str:
        """The question with the document when that aligns well, else reworded, with an imagined document."""
        query = candidate.query if self.knobs.scqu_base == "prevQ" else question
        if candidate.share >= self.knobs.tau:
            text = shown(candidate.passage)
        else:
            query = reworded(query, candidate.wordings)
            said = await self._tried(self.imagine, query=query)
            text = "" if said is None else said.passage
        return f"{query}\n{text[:_QUERY_TEXT]}".strip()

    def _without_label(self, chosen: list[Candidate], seen: list[Candidate]) -> list[Candidate]:
        """`chosen` with documents of `drop_label` replaced by the best aligned others."""
        label = self.knobs.drop_label
        kept = [c for c in chosen if c.label != label]
        others = [c for c in sorted(seen, key=lambda c: -c.share) if c.label != label and c not in kept]
        return kept + others[: len(chosen) - len(kept)]

    def _too_long(self, call: RagPredict, **inputs: Any) -> bool:
        return call.size(**inputs) > self.runtime.target(call.role).context_tokens

    async def _tried(self, call: RagPredict, **inputs: Any) -> Any:
        """What `call` says; None, with a note, when its reply cannot be read."""
        try:
            return await call.acall(**inputs)
        except ParseFailure as error:
            record(Note(call.name, f"unreadable: {error}"))
            return None
