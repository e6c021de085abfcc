"""Vanilla RAG: retrieve once, answer once.

Paper: the direct-RAG row of every paper; knobs and defaults are RAG-X's base setting (appendix B, Table 9:
k 3, chunks of 200 tokens, no noise, no reasoning, temperature 0; 100 answer tokens in the authors' code,
here 512 with reasoning).
Differs: noise chunks are never among the retrieved ones, and their draw is seeded by the question.
"""

from __future__ import annotations

import random
from typing import Any

import dspy

from ragc.programs.base import RagProgram
from ragc.programs.runtime import Runtime
from ragc.programs.shared_knobs import PassageKnobs
from ragc.records import Hit, Passage
from ragc.signatures.answers import ShortAnswer, with_question


class Vanilla(RagProgram):
    """One search of the source `local`, one typed call."""

    def __init__(self, runtime: Runtime, knobs: PassageKnobs) -> None:
        super().__init__(runtime, knobs)
        self.local = runtime.source("local").rechunked(knobs.chunk_size, knobs.overlap)
        self.answer = self.answering(with_question(ShortAnswer, knobs.query_pos))

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Search with `question` as it is and answer from what is found."""
        hits = await self.search("local", question, self.knobs.top_k, source=self.local)
        said = await self.answered(self.answer, question, self._with_noise(question, hits))
        return dspy.Prediction(answer=said.answer, passages=said.passages)

    def _with_noise(self, question: str, hits: tuple[Hit, ...]) -> tuple[Passage, ...]:
        found = [hit.passage for hit in hits]
        if not self.knobs.noise_n:
            return tuple(found)
        taken = frozenset(p.parent for p in found)
        noise = self.local.sample(self.knobs.noise_n, seed=question, exclude=taken)
        if self.knobs.noise_pos == "end":
            return (*found, *noise)
        order = random.Random(f"noise {question}")
        mixed = list(found)
        for passage in noise:
            mixed.insert(order.randrange(len(mixed) + 1), passage)
        return tuple(mixed)
