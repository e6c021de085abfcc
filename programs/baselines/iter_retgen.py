"""IterRetGen: retrieve and answer in turns, each search helped by the answer before.

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

from typing import Any

import dspy

from ragc.core import counters
from ragc.errors import ParseFailure
from ragc.programs.baselines.knobs import IterRetGenKnobs
from ragc.programs.baselines.vanilla import Vanilla
from ragc.programs.likeness import Likeness
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Note, record
from ragc.signatures.answer import UNCITED, drop_wrong_marks


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
