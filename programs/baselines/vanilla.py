"""What retrieves at most once a round and answers: Vanilla, and the baselines that differ from it.

Vanilla: one source.
Paper: the direct-RAG row of every paper; knobs and defaults are RAG-X's base setting (appendix B, Table 9:
k 3, chunks of 200 tokens, no noise, no reasoning, temperature 0; 100 answer tokens in the authors' code,
here 512 with reasoning).
Differs: noise chunks are never among the retrieved ones, and their draw is seeded by the question.

VanillaSources: the local source, the web or both.
Paper: the Vanilla RAG rows of PrefRAG (sections 4.1 to 4.3, appendices A.3 and A.5): k 5 for each source,
temperature 0.1, top_p 0.9 (authors' code). With both, the passages of the local source stand before those
of the web.
Differs: a passage that both sources return is shown once; what does not fit the context is left out from
the end, the web's passages first; chunks are cut at 500 tokens, the nearest value of our grid to 512.

NoRetrieval.
Paper: the no-retrieval rows of RAG-X (Table 1), PrefRAG (section 4.2), RQ-RAG (section 3.2) and SlimPLM
(Vanilla Chat, section 4.3).
Differs: one short-answer prompt for all data sets; `cot` turns it into the CoT baseline.

Cot.
Paper: the CoT rows of SlimPLM (section 4.3, Table 1) and RQ-RAG (section 3.2, Table 2): one call that
reasons, then answers.
Differs: one prompt for all data sets, with as many demonstrations as the compiler gives it, where SlimPLM
asks without demonstrations on some sets and with fixed ones on others (authors' code). The scored text is
the answer; `whole` puts the reasoning in front of it, as containment metrics of that code saw it.

Chain-of-Note: one call that writes a reading note for each passage and then answers.
Paper: Chain-of-Note, section 3: top 5 passages; three kinds of note (it answers, it only gives context,
it is irrelevant); "unknown" when nothing supports an answer. The model is asked and not trained, as where
RQ-RAG (section 3.2) compares with it.
Differs: notes are a typed list, no longer than the passages; a note on a passage that was not shown, or a
second note on the same one, is dropped and counted. Noise, chunks and the question's place are vanilla's.

IterRetGen: retrieve and answer in turns, each search helped by the answer before.
Paper: ITER-RETGEN as SlimPLM runs it (SlimPLM, appendix B and Table 1): an answer from what the question
finds, then two iterations that search with question and last answer together and answer anew. `rounds`
counts the answering calls, as that table does, so its default 3 is two iterations, and each run makes
exactly `rounds` calls and searches. Passages of earlier rounds are discarded, and those found are ordered
by the question (authors' code).
Differs: the order is by the embedder of a source that has one, else by BM25 score among the passages found,
not by a cross-encoder or E5 (`encoder`); ties keep the order of the search, so does the first round, which
searched with the question; knobs that Vanilla has keep its defaults, SlimPLM shows up to 20 paragraphs; with
`cot` the reasoning is part of the answer that is searched with, as in ITER-RETGEN itself, and marks of
citations are not; a round whose reply cannot be read ends the run with the answer of the round before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dspy

from ragc.core import counters
from ragc.corpora.sources.base import with_titles
from ragc.errors import ParseFailure, UsageError
from ragc.programs.base import RagProgram, mix_noise
from ragc.programs.baselines.knobs import (
    ChainOfNoteKnobs,
    CotKnobs,
    IterRetGenKnobs,
    SourcesKnobs,
    VanillaKnobs,
)
from ragc.programs.knobs import AnswerKnobs
from ragc.programs.likeness import Likeness
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Note, record, together
from ragc.records import Passage
from ragc.signatures.answer import (
    UNCITED,
    UNKNOWN,
    ClosedBookAnswer,
    ReadingNotes,
    ShortAnswer,
    abstaining,
    drop_wrong_marks,
    limited_to,
)

_TITLED = {"source": None, "titled": True, "untitled": False}


class Vanilla(RagProgram):
    """One search of the source `local`, one typed call."""

    def __init__(self, runtime: Runtime, knobs: VanillaKnobs) -> None:
        super().__init__(runtime, knobs)
        sections, tables = (_TITLED[choice] for choice in (knobs.sections, knobs.tables))
        self.local = self.cut_source(with_titles(runtime.source("local"), sections, tables))
        self.answer = self.answer_call(self.reading(ShortAnswer))

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Searches with `question` as it is and answers from the hits."""
        passages = await self.find("local", question, self.knobs.top_k, source=self.local)
        return await self.answer_from(self.answer, question, self._with_noise(question, passages))

    def _with_noise(self, question: str, passages: tuple[Passage, ...]) -> tuple[Passage, ...]:
        if not self.knobs.noise_n:
            return passages
        taken = frozenset(passage.parent for passage in passages)
        noise = self.local.sample(self.knobs.noise_n, seed=question, exclude=taken)
        return mix_noise(passages, noise, self.knobs.noise_pos, question)


class VanillaSources(RagProgram):
    """One search of each source used, all at once, and one typed call."""

    def __init__(self, runtime: Runtime, knobs: SourcesKnobs) -> None:
        super().__init__(runtime, knobs)
        used = knobs.sources_used
        names = ("local", "web") if used == "both" else (used,)
        for name in names:
            if name not in runtime.sources:
                raise UsageError(
                    f"sources_used = {used!r} searches a source named {name!r} and none is configured: "
                    f"add [sources.{name}], or set sources_used to a source that is."
                )
        self.used = {name: self.cut_source(name) for name in names}
        self.answer = self.answer_call(self.reading(ShortAnswer))

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Searches with `question` as it is and answers from the hits of all sources."""
        depths = {"local": self.knobs.k_local, "web": self.knobs.k_web}
        lists = await together(
            *(self.find(name, question, depths[name], source=source) for name, source in self.used.items())
        )
        passages = dict.fromkeys(passage for passages in lists for passage in passages)
        return await self.answer_from(self.answer, question, tuple(passages))


class NoRetrieval(RagProgram):
    """One typed call, no search."""

    reasons: bool | None = None
    """Whether the call reasons first; None leaves it to the knob `cot`."""

    def __init__(self, runtime: Runtime, knobs: AnswerKnobs | CotKnobs) -> None:
        super().__init__(runtime, knobs)
        self.answer = self.answer_call(ClosedBookAnswer, cot=self.reasons)

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Answers `question` in one call."""
        reply = await self.answer.acall(question=question)
        whole = getattr(self.knobs, "whole", False)
        answer = f"{reply.reasoning}\n{reply.answer}" if whole else reply.answer
        return dspy.Prediction(answer=answer, passages=())


class Cot(NoRetrieval):
    """One typed call with a reasoning field, no search."""

    reasons = True


_NOTE_TOKENS = 64


class ChainOfNote(Vanilla):
    """One search of the source `local`, one typed call."""

    def __init__(self, runtime: Runtime, knobs: ChainOfNoteKnobs) -> None:
        super().__init__(runtime, knobs)
        most = knobs.top_k + knobs.noise_n
        signature: Any = limited_to(ReadingNotes, most) if knobs.notes else ShortAnswer
        signature = self.reading(signature)
        if knobs.abstain:
            signature = abstaining(signature, own=self.may_know)
        note_tokens = _NOTE_TOKENS * most if knobs.notes else 0
        unknown = (UNKNOWN,) if knobs.abstain else ()
        self.answer = self.answer_call(signature, also=unknown, extra_tokens=note_tokens)

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Searches, then writes notes and the answer in one call."""
        prediction = await super().aforward(question, **context)
        kinds = self._kinds(prediction.reading.notes, len(prediction.passages)) if self.knobs.notes else []
        tallies = {f"notes_{kind}": kinds.count(kind) for kind in ("answers", "context", "irrelevant")}
        return dspy.Prediction(answer=prediction.answer, passages=prediction.passages, tallies=tallies)

    @staticmethod
    def _kinds(notes: Sequence[Any], shown_n: int) -> list[str]:
        """Returns the kinds of the notes on shown passages, one a passage; the rest are dropped."""
        kinds: dict[int, str] = {}
        for note in notes:
            if note.passage <= shown_n:
                kinds.setdefault(note.passage, note.kind)
        if len(kinds) < len(notes):
            counters.count(dropped=len(notes) - len(kinds))
            record(Note("notes", f"{len(notes) - len(kinds)} on no passage, or on one noted before"))
        return list(kinds.values())


class IterRetGen(Vanilla):
    """Vanilla's search and call, `rounds` times."""

    def __init__(self, runtime: Runtime, knobs: IterRetGenKnobs) -> None:
        super().__init__(runtime, knobs)
        self.likeness = Likeness(runtime, knobs.encoder)

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Answers `question`, then searches with each answer and answers again."""
        last = await self._round(question, question)
        for turn in range(2, self.knobs.rounds + 1):
            try:
                last = await self._round(question, self._query(question, last))
            except ParseFailure:
                counters.count(dropped=1)
                record(Note(f"round {turn}", "its reply could not be read; the answer before it stands"))
                break
        return dspy.Prediction(answer=last.answer, passages=last.passages)

    def _query(self, question: str, last: dspy.Prediction) -> str:
        """Returns `question` with the whole answer of the previous round."""
        text = " ".join(part for part in (last.get("reasoning"), last.answer) if part)
        if self.knobs.answer_format in UNCITED:
            text, _ = drop_wrong_marks(text, 0)
        return f"{question} {text}" if text else question

    async def _round(self, question: str, query: str) -> dspy.Prediction:
        """Returns one search with `query` and one answer to `question`, with the passages it was shown.

        Passages are ordered by `question` when that differs from the query; ties in the order found.
        """
        k, knobs = self.knobs.top_k, self.knobs
        ordered = knobs.rerank and query != question
        depth = max(k, knobs.pool) if ordered else k
        passages = await self.find("local", query, depth, source=self.local)
        if ordered:
            scores = await self.likeness.scores(question, passages)
            ranked = sorted(zip(scores, passages, strict=True), key=lambda pair: -pair[0])
            passages = tuple(passage for _, passage in ranked[:k])
        return await self.answer_from(self.answer, question, self._with_noise(question, passages))
