"""RAG-X's web pages: broad retrieval, focused retrieval, rank refinement, and noise.

RAG-X, "Enhancing Retrieval for Knowledge Extraction" and "Noise Chunk Selection Strategy"; that dense and
sparse passages are put one after the other, repeats included, is from the authors' code.
Differs: blocks are searched with `web` itself, whatever its kind. Chunks are sought as deep as the blocks
have chunks, then those that start in a block are kept; with blocks as long as chunks this matters to `dense`
alone. `rerank` is listwise by the main model, which is asked for the best `top_n` of as much of the pool as
fits its context, or by the cross-encoder that the source `web` names. Noise is drawn from the question's own
pages by question and `noise_seed`, without chunks that are shown, which the paper may draw once more; for a
question that comes without pages it is drawn from the pages of `web` that gave no passage.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

from ragc.core import counters
from ragc.corpora import embed
from ragc.corpora.rerank.base import RerankedSource, Reranker, rerank
from ragc.corpora.sources.base import Source, current_question, parts_of
from ragc.corpora.storage.corpus import sample
from ragc.errors import SourceError, UsageError
from ragc.programs.base import RagProgram, format_passage
from ragc.programs.ragx import ALL, EMBEDDERS
from ragc.programs.trace import Note, record, together
from ragc.records import Passage
from ragc.signatures.select import pick_positions, ranking

MAX_POOL_CHUNKS = 10_000
"""Chunks that a pool of all of them holds at most."""


class WebStages(RagProgram):
    """The part of RAG-X that finds passages of `web`."""

    web: Source
    dense: Source
    blocks: Source
    rank: Any
    reranker: Reranker

    def prepare_web(self) -> None:
        """Chunks the sources as the knobs say, and builds the ranking call if it is needed."""
        knobs, web = self.knobs, self.runtime.sources["web"]
        dense = self.runtime.sources["dense"] if knobs.dense_share else None
        if knobs.embedder != "own":
            web, dense = self._embedded(web, dense)
        if knobs.rerank and knobs.rerank_by == "source":
            if not isinstance(web, RerankedSource):
                raise UsageError(
                    "Knob rerank_by = 'source' takes the reranker of the source 'web', which names none; add "
                    '`rerank = "cross:MODEL"` to [sources.web.options], or set rerank_by = "model".'
                )
            self.reranker, web = web.reranker, web.inner
        elif knobs.rerank:
            self.rank = self.predictor(ranking(knobs.top_n), max_tokens=120)
        self.web = self.cut_source(web)
        if dense is not None:
            self.dense = self.cut_source(dense)
        if knobs.broad:
            self.blocks = web.rechunk(knobs.broad_chunk, 0.0)

    def _embedded(self, web: Source, dense: Source | None) -> tuple[Source, Source | None]:
        """Returns both sources; the dense one with the model of the knob `embedder`."""
        name = self.knobs.embedder
        chosen: Any = web if dense is None else dense
        if not hasattr(chosen, "with_embedder"):
            raise UsageError(
                f"Knob embedder = {name!r} needs a source of kind 'dense', and "
                f"{'web' if dense is None else 'dense'!r} is of kind {chosen.kind!r}; "
                'name a dense one, or set embedder = "own".'
            )
        other = chosen.with_embedder(embed.make(EMBEDDERS[name]))
        return (other, None) if dense is None else (web, other)

    async def from_web(self, question: str) -> tuple[Passage, ...]:
        """Returns passages of the web, reordered and with noise if the knobs ask for it."""
        knobs = self.knobs
        depth = knobs.top_k
        if knobs.rerank:
            depth = MAX_POOL_CHUNKS if knobs.pool == ALL else int(knobs.pool)
        sparse = round(depth * (1 - knobs.dense_share))
        blocks, dense, plain = await together(
            self._blocks(question),
            self._view("dense", question, depth - sparse),
            self._view("web", question, sparse),
        )
        if knobs.broad:
            dense, plain = chunks_in_blocks(blocks, dense), chunks_in_blocks(blocks, plain)
        passages = [*dense[: depth - sparse], *plain[:sparse]]
        if knobs.rerank and knobs.rerank_by == "source":
            passages = await self._score(question, passages)
        elif knobs.rerank:
            passages = await self._rank(question, passages)
        return self._with_noise(question, passages)

    async def _blocks(self, question: str) -> tuple[Passage, ...]:
        if not self.knobs.broad:
            return ()
        hits = await self.search("web", question, self.knobs.broad_k, source=self.blocks)
        return tuple(hit.passage for hit in hits)

    async def _view(self, name: str, question: str, n: int) -> tuple[Passage, ...]:
        """Returns the best `n` chunks, or as many as the blocks have, if these select among them."""
        if not n:
            return ()
        source = self.dense if name == "dense" else self.web
        hits = await self.search(name, question, max(n, self._depth()), source=source)
        return tuple(hit.passage for hit in hits)

    def _depth(self) -> int:
        """Estimates the number of chunks in all blocks; 0 without blocks."""
        knobs = self.knobs
        if not knobs.broad:
            return 0
        return int(knobs.broad_k * math.ceil(knobs.broad_chunk / (knobs.chunk_size * (1 - knobs.overlap))))

    async def _score(self, question: str, pool: Sequence[Passage]) -> list[Passage]:
        """Returns the best `top_n` of `pool` by the reranker of `web`; in the old order when it fails."""
        try:
            scores = await rerank(self.reranker, question, pool) if pool else ()
        except SourceError as error:
            record(Note("rerank", f"failed: {error}"))
            scores = [0.0] * len(pool)
        order = sorted(range(len(pool)), key=lambda at: -scores[at])
        return [pool[at] for at in order[: self.knobs.top_n]]

    async def _rank(self, question: str, pool: Sequence[Passage]) -> list[Passage]:
        """Returns the best `top_n` of `pool`; what the model does not rank follows in its old order."""
        top = self.knobs.top_n
        seen = self.passages_that_fit(self.rank, pool, budgeted=False, question=question)
        if len(seen) < 2:
            return list(pool[:top])
        reply = await self.rank.try_call(question=question, passages=[format_passage(p) for p in seen])
        places, wrong = pick_positions(reply.order if reply else [], len(seen), len(seen))
        counters.count(dropped=wrong)
        return [pool[i] for i in [*places, *(i for i in range(len(pool)) if i not in places)]][:top]

    def _with_noise(self, question: str, passages: Sequence[Passage]) -> tuple[Passage, ...]:
        """Returns `passages` with random chunks among or after them; the same ones for the same seed."""
        mixed, knobs = list(passages), self.knobs
        if not knobs.noise_n:
            return tuple(mixed)
        seed = f"{question} {knobs.noise_seed}"
        noise = self._draw_noise(seed, passages)
        record(Note("noise", ", ".join(p.id for p in noise) or "none"))
        order = random.Random(f"noise {seed}")
        for passage in noise:
            end = knobs.noise_pos == "end"
            mixed.insert(len(mixed) if end else order.randrange(len(mixed) + 1), passage)
        return tuple(mixed)

    def _draw_noise(self, seed: str, shown: Sequence[Passage]) -> tuple[Passage, ...]:
        """Returns chunks of the question's own pages, without those `shown`; else of other pages."""
        question = current_question.get()
        own = parts_of(self.web, question.context_ids if question else ())
        if own:
            return sample(own, self.knobs.noise_n, seed, frozenset(p.id for p in shown))
        taken = frozenset(p.parent for p in shown)
        return self.web.sample(self.knobs.noise_n, seed=seed, exclude=taken)


def chunks_in_blocks(blocks: Sequence[Passage], passages: Sequence[Passage]) -> tuple[Passage, ...]:
    """Returns the `passages` that start in one of `blocks`."""
    spans: dict[str, list[tuple[int, int]]] = {}
    for block in blocks:
        end = block.start + max(1, len(block.text))
        spans.setdefault(block.parent, []).append((block.start, end))
    return tuple(p for p in passages if any(a <= p.start < b for a, b in spans.get(p.parent, ())))
