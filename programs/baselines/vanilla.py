"""Vanilla RAG: retrieves once and answers once, from the local source, the web or both.

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
"""

from __future__ import annotations

from typing import Any

import dspy

from ragc.corpora.sources.base import with_titles
from ragc.errors import UsageError
from ragc.programs.base import RagProgram, mix_noise
from ragc.programs.baselines.knobs import SourcesKnobs, VanillaKnobs
from ragc.programs.runtime import Runtime
from ragc.programs.trace import together
from ragc.records import Passage
from ragc.signatures.answer import ShortAnswer

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
