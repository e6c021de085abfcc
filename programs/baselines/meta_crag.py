"""MetaCrag: the straightforward RAG baseline that came with the CRAG challenge of the KDD Cup 2024.

Paper: the rows CRAG of RAG-X's Table 1, by the code of the challenge: the pages of a question are cut into
sentences, and those nearest to the question are the passages; for the API one call names the domain and the
names in the question, and what the API says of each stands beside them; one answer from these references
alone, which may say that it does not know or that the question is invalid. RAG-X's copy shows 3 sentences of
200 characters; the challenge's own code allows 1000.
Calls: one answer, and one for the names where `kg` is asked.
Differs: sentences are ranked by the embedder of a source that has one, else by BM25, where the code takes
all-MiniLM-L6-v2 (`encoder`); sentences end by rules, not by a tokenizer; a name is typed, and one that the
question does not hold is dropped; facts of `kg` are passages, 10,000 characters at most, before the
sentences; an answer that cannot be read is a wrong one, as in every program, where the code refuses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import dspy

from ragc.errors import UsageError
from ragc.programs.base import RagProgram
from ragc.programs.baselines.knobs import MetaCragKnobs
from ragc.programs.knobs import WORDED
from ragc.programs.likeness import Likeness
from ragc.programs.ragx.program import DomainQuestion, names_in_question, search_domain
from ragc.programs.runtime import Runtime
from ragc.programs.sentences import first_sentence, unwrap
from ragc.programs.trace import Note, record, together
from ragc.records import Passage
from ragc.signatures.answer import (
    INVALID,
    UNSURE,
    OpenAnswer,
    ReferenceAnswer,
    normalize_refusal,
    with_question,
)
from ragc.signatures.route import KINDS, ExtractKgLookup

_SOURCES = {"web": ("web",), "kg": ("kg",), "both": ("kg", "web")}


class MetaCrag(RagProgram):
    """Sentences of `web` and facts of `kg`, then one answer."""

    def __init__(self, runtime: Runtime, knobs: MetaCragKnobs) -> None:
        super().__init__(runtime, knobs)
        self.sources = _SOURCES[knobs.sources_used]
        for name in self.sources:
            if name not in runtime.sources:
                raise UsageError(
                    f"Knob sources_used = {knobs.sources_used!r} asks a source named {name!r}, found "
                    f"{', '.join(runtime.sources) or 'none'}; add [sources.{name}] or change sources_used."
                )
        if "web" in self.sources:
            self.web = self.cut_source("web")
            self.likeness = Likeness(runtime, knobs.encoder)
        if "kg" in self.sources:
            self.lookup = self.predictor(ExtractKgLookup, max_tokens=230)
        own = knobs.own_knowledge and knobs.answer_format in WORDED
        signature = OpenAnswer if own else ReferenceAnswer
        self.answer = self.answer_call(with_question(signature, knobs.query_pos), also=(INVALID, UNSURE))

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Answers `question` from references; `context` may hold `query_time`."""
        time = str(context.get("query_time") or "").strip() or "unknown"
        parts = {"web": self._sentences, "kg": self._facts}
        references = await together(*(parts[name](question) for name in self.sources))
        passages = [passage for part in references for passage in part]
        prediction = await self.answer_from(self.answer, question, passages, query_time=time)
        answer = normalize_refusal(prediction.answer)
        return dspy.Prediction(answer=answer, passages=prediction.passages)

    async def _sentences(self, question: str) -> tuple[Passage, ...]:
        """Returns the sentences of the pages that are most similar to `question`, best first."""
        hits = await self.search("web", question, self.knobs.pool, source=self.web)
        sentences = tuple(sentences_of((hit.passage for hit in hits), self.knobs.sentence_chars))
        scores = await self.likeness.scores(question, sentences) if sentences else ()
        order = sorted(range(len(sentences)), key=lambda at: -scores[at])
        return tuple(sentences[at] for at in order[: self.knobs.top_k])

    async def _facts(self, question: str) -> tuple[Passage, ...]:
        """Returns the facts of `kg` on the names in `question`, as far as they fit `kg_chars`."""
        reply = await self.lookup.try_call(question=question)
        if reply is None or reply.domain not in KINDS:
            record(Note("kg", f"domain {reply.domain if reply else 'unread'}, not searched"))
            return ()
        request = DomainQuestion(question, "", reply.domain)
        facts = await search_domain(self, request, names_in_question(reply.entities, request))
        return cut_to(facts, self.knobs.kg_chars)


def sentences_of(passages: Iterable[Passage], chars: int) -> Iterator[Passage]:
    """Returns the sentences of `passages`, each cut to `chars` characters, as passages without a title.

    A repeated sentence is left out.
    """
    seen = set[str]()
    for passage in passages:
        rest, start = unwrap(passage.text), passage.start
        while rest.strip():
            whole, _ = first_sentence(rest)
            skipped = len(rest) - len(rest.lstrip())
            text = whole[:chars].rstrip()
            if text not in seen:
                seen.add(text)
                yield Passage(f"{passage.parent}#{start + skipped}", "", text, start + skipped)
            rest, start = rest[skipped + len(whole) :], start + skipped + len(whole)


def cut_to(passages: Sequence[Passage], chars: int) -> tuple[Passage, ...]:
    """Returns the first of `passages`, `chars` characters in all; the last one is cut."""
    shown = []
    for passage in passages:
        if chars <= 0:
            break
        shown.append(passage if len(passage.text) <= chars else replace(passage, text=passage.text[:chars]))
        chars -= len(passage.text)
    return tuple(shown)
