"""RAG-X: answer from own knowledge, web pages and an API under a policy, and refuse when it is due.

Paper: RAG-X on CRAG; "Explanation of Knowledge Source Selection", "Automatic Selection of External
Knowledge Sources" and "Guidelines for Extracting Information from the Mock API Responses" in its Appendix
B, prompts in Appendix D; "Enhancing Retrieval for Knowledge Extraction" and "Noise Chunk Selection
Strategy". The entity types, what is done with an open domain, and that dense and sparse passages are put
one after the other, repeats included, are from the authors' code.
Calls: 1 for a manual policy; 1, or 2 when the model alone is unsure, for a predefined one; 1, or 3, for
`agent`, which always reasons. Where `kg` is asked, 1 more names the domain and 1 more the entities, beside
the search of `web`; `rerank` and `dynamism` are 1 more each. `icl_domain` needs the domain too; it is named
once, and not where `gold_domain` takes that of the data set.
Differs (see also `demos.py`): the tuned domain classifier is a prompt. Reasoning has 412 tokens more than
the 100 of the authors' code, so that it is not cut and counted as unsure. The source router names sources
instead of letters. Where the answer is known beforehand, to make an example of it, the stage without
sources is left out, so that the stage that reads is taught. The source `kg` is any source, searched within
the domain that was named with each entity, or with the question where there is none, as its words and dates
alone may ask for facts; the authors' rules that pick API calls and resolve dates are in the source `api`. A
listed name that the question does not hold in any form (`crag_api.is_named_in`), or of another
domain, is dropped and counted. Facts of `kg` come before the web passages in one list, `top_k` for each
entity. `dense_share` is 0 by default, because the source `web` may be of any kind, and above 0 needs a
source `dense` over the same pages. Blocks are searched with `web` itself, whatever its kind. Chunks are
sought as deep as the blocks have chunks, then those that start in a block are kept; with blocks as long as
chunks this matters to `dense` alone. `rerank` is listwise by the main model, which is asked for the best
`top_n` of as much of the pool as fits its context, or by the cross-encoder that the source `web` names.
Noise is drawn from the question's own pages by question and `noise_seed`, without chunks that are shown,
which the paper may draw once more; for a question that comes without pages it is drawn from the pages of
`web` that gave no passage.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import dspy

from ragc.core import counters
from ragc.corpora import embed
from ragc.corpora.rerank import RerankedSource, rerank
from ragc.corpora.sources.base import Source, current_question, parts_of
from ragc.corpora.sources.crag_api import is_named_in, plain
from ragc.corpora.storage.corpus import sample
from ragc.errors import SourceError, UsageError
from ragc.programs.base import RagProgram, format_passage, mix_noise
from ragc.programs.calls.demos import forced_values
from ragc.programs.calls.predict import RagPredict
from ragc.programs.ragx import ALL, EMBEDDERS, STAGED, RagXKnobs
from ragc.programs.ragx.demos import DOMAIN, ChoosingPredict
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Note, record, together
from ragc.records import Passage, Question
from ragc.signatures.answer import (
    INVALID,
    UNSURE,
    KnownAnswer,
    OpenAnswer,
    ReferenceAnswer,
    normalize_refusal,
    with_question,
)
from ragc.signatures.route import KINDS, DomainRouter, DynamismRouter, Entities, EntityExtract, RouteSources
from ragc.signatures.select import pick_positions, ranking
from ragc.signatures.wording import input_field

_SOURCES = {"web": ("web",), "kg": ("kg",), "api": ("kg",), "llm": ()}
_BOTH = ("web", "kg")
_NONE: tuple[Passage, ...] = ()

_LABEL = 30  # tokens of a reply that is one label

MAX_POOL_CHUNKS = 10_000
"""Chunks that a pool of all of them holds at most."""


@dataclass(slots=True)
class DomainQuestion:
    """A question, when it was asked, and its domain: empty until it is named."""

    question: str
    query_time: str
    domain: str = ""


async def search_domain(
    program: RagProgram, request: DomainQuestion, queries: Sequence[str]
) -> tuple[Passage, ...]:
    """Searches `kg` for each of `queries` within the domain of `request`; a passage comes once."""
    question = current_question.get() or Question("", request.question, ())
    token = current_question.set(replace(question, extra={**question.extra, "domain": request.domain}))
    try:
        hit_lists = await together(*(program.search("kg", query, program.knobs.top_k) for query in queries))
    finally:
        current_question.reset(token)
    return tuple({hit.passage.id: hit.passage for hits in hit_lists for hit in hits}.values())


def names_in_question(listed: Entities, request: DomainQuestion) -> list[str]:
    """Returns each name once, without names of another domain or that the question does not contain."""
    names: dict[str, str] = {}
    for entity in listed.items:
        name, fits = plain(entity.text, entity.kind), entity.kind in KINDS[request.domain]
        if fits and name != "none" and is_named_in(entity.text, request.question, entity.kind):
            names.setdefault(name, entity.text)
        else:
            counters.count(dropped=1)
    return list(names.values())


def chunks_in_blocks(blocks: Sequence[Passage], passages: Sequence[Passage]) -> tuple[Passage, ...]:
    """Returns the `passages` that start in one of `blocks`."""
    spans: dict[str, list[tuple[int, int]]] = {}
    for block in blocks:
        spans.setdefault(block.parent, []).append((block.start, block.start + max(1, len(block.text))))
    return tuple(p for p in passages if any(a <= p.start < b for a, b in spans.get(p.parent, ())))


class RagX(RagProgram):
    """One policy over the model's own knowledge, the source `web` and the source `kg`."""

    def __init__(self, runtime: Runtime, knobs: RagXKnobs) -> None:
        super().__init__(runtime, knobs)
        policy = knobs.source_policy
        self.sources: tuple[str, ...] = _SOURCES.get(policy.rpartition("_")[2], _BOTH)
        self.staged, self.routed = policy in STAGED, policy == "agent"
        self.by_domain = knobs.icl_n > 0 and knobs.icl_domain != "any"
        own = knobs.own_knowledge or (
            knobs.second_stage_internal if self.staged else policy.startswith("llm")
        )
        self._check()
        if self.staged:
            self.closed = self._answerer(KnownAnswer)
        if self.routed:
            self._make_router()
        if "web" in self.sources:
            self._prepare_web()
        if "kg" in self.sources or self.by_domain:
            self.domain = self.predictor(DomainRouter, role=knobs.router_role, max_tokens=_LABEL)  # type: ignore[arg-type]
        if "kg" in self.sources:
            self.entities = self.predictor(EntityExtract, max_tokens=200)
        answer = OpenAnswer if own else ReferenceAnswer
        self.answer = self._answerer(with_question(answer, knobs.query_pos) if self.sources else KnownAnswer)

    def _check(self) -> None:
        knobs, known = self.knobs, self.runtime.sources
        for name in self.sources:
            if name not in known:
                raise UsageError(
                    f"Knob source_policy = {knobs.source_policy!r} asks a source named {name!r}, found "
                    f"{', '.join(known) or 'none'}; add [sources.{name}] or choose another source_policy."
                )
        if knobs.dense_share and "web" in self.sources and "dense" not in known:
            raise UsageError(
                f"Knob dense_share = {knobs.dense_share:g} takes passages from a source named 'dense', which "
                "is not there; add [sources.dense] over the pages of `web`, or set dense_share = 0."
            )
        named = "kg" in self.sources or self.by_domain
        if named and knobs.router_role not in self.runtime.targets:
            raise UsageError(
                f"Knob router_role = {knobs.router_role!r} asks a target that is not there; "
                f"add [targets.{knobs.router_role}] or set router_role = 'main'."
            )

    @property
    def chooses_demos(self) -> bool:
        """Whether the question decides which demonstrations are shown."""
        return self.by_domain or bool(self.knobs.icl_n and self.knobs.icl_invalid)

    def _answerer(self, signature: Any) -> RagPredict:
        knobs = self.knobs
        limit = knobs.max_answer_tokens if knobs.answer_format == "short" else None
        call = self.answer_call(signature, cot=knobs.cot or self.routed, also=(INVALID, UNSURE), limit=limit)
        if self.chooses_demos:
            return ChoosingPredict(call, where=knobs.icl_domain, invalid=knobs.icl_invalid)
        return call

    def _make_router(self) -> None:
        signature = RouteSources
        if self.knobs.dynamism:
            self.dynamism = self.predictor(DynamismRouter, role=self.knobs.router_role, max_tokens=_LABEL)
            about = input_field(
                "how fast the answer changes: static, slow-changing, fast-changing or real-time; those that "
                "change fast are better looked up in the API",
                brief="how fast the answer changes",
            )
            signature = RouteSources.append("pace", about, str)
        self.route = self.predictor(signature, max_tokens=_LABEL)

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Answers `question` under the policy.

        `context` may hold `query_time`, and `domain`, which is used with `gold_domain` only.
        """
        time, domain = (str(context.get(name) or "").strip() for name in ("query_time", DOMAIN))
        domain = domain if self.knobs.gold_domain else ""
        request = DomainQuestion(question, time or "unknown", domain.casefold())
        answer, passages = UNSURE, _NONE
        if self.staged and forced_values(self.answer.signature.output_fields) is not None:
            record(Note("closed", "left out, the answer is known"))
        elif self.staged:
            if self.by_domain:
                await self._name_domain(request)
            answer, _ = await self._ask(self.closed, request, _NONE)
        if answer == UNSURE:
            sources = await self._choose_sources(question) if self.routed else self.sources
            if sources or not self.staged:
                answer, passages = await self._ask(
                    self.answer, request, await self._retrieve(request, sources)
                )
        if answer in (INVALID, UNSURE):
            record(Note("answer", answer))
        tallies = {"invalid": int(answer == INVALID), "missing": int(answer == UNSURE)}
        return dspy.Prediction(answer=answer, passages=passages, tallies=tallies)

    async def _ask(
        self, call: RagPredict, request: DomainQuestion, passages: tuple[Passage, ...]
    ) -> tuple[str, tuple[Passage, ...]]:
        """Returns the answer of `call`, unsure if unreadable, and the passages shown to it."""
        inputs: dict[str, Any] = {"question": request.question, "query_time": request.query_time}
        if self.by_domain:
            inputs[DOMAIN] = request.domain
        shown_passages = _NONE
        if "passages" in call.signature.input_fields:
            shown_passages = self.passages_that_fit(call, passages, **inputs)
            inputs["passages"] = [format_passage(p) for p in shown_passages]
        reply = await call.try_call(**inputs)
        answer = normalize_refusal(reply.answer if reply else "")
        return self.hold_to_passages(answer, len(shown_passages)), shown_passages

    async def _choose_sources(self, question: str) -> tuple[str, ...]:
        """Returns the sources that the model picks; none if its choice is unreadable."""
        inputs = {"question": question}
        if self.knobs.dynamism:
            paced = await self.dynamism.try_call(question=question)
            inputs["pace"] = paced.pace if paced else "unknown"
        reply = await self.route.try_call(**inputs)
        sources = _SOURCES.get(reply.choice, _BOTH) if reply else ()
        record(Note("sources", " and ".join(sources) or "none"))
        return sources

    async def _retrieve(self, request: DomainQuestion, sources: tuple[str, ...]) -> tuple[Passage, ...]:
        """Returns facts of `kg`, then passages of `web`, searched at once; meanwhile names the domain."""
        work = []
        if "kg" in sources:
            work.append(self._from_kg(request))
        elif self.by_domain:
            work.append(self._name_domain(request))
        if "web" in sources:
            work.append(self._from_web(request.question))
        return tuple(passage for part in await together(*work) for passage in part)

    async def _name_domain(self, request: DomainQuestion) -> tuple[Passage, ...]:
        """Asks for the domain of `request` if it has none, "open" if unreadable; returns no passages."""
        if not request.domain:
            reply = await self.domain.try_call(question=request.question)
            request.domain = reply.domain if reply else "open"
        return _NONE

    async def _from_kg(self, request: DomainQuestion) -> tuple[Passage, ...]:
        """Returns passages of `kg` on the names in the question; none for an open domain."""
        await self._name_domain(request)
        if request.domain not in KINDS:
            record(Note("kg", f"domain {request.domain}, not searched"))
            return ()
        reply = await self.entities.try_call(question=request.question, domain=request.domain)
        names = names_in_question(reply.entities, request) if reply else []
        if not names:
            record(Note("kg", "no entity, searched with the question"))
        return await search_domain(self, request, names or [request.question])

    def _prepare_web(self) -> None:
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

    async def _from_web(self, question: str) -> tuple[Passage, ...]:
        """Returns passages of the web, reordered and with noise if the knobs ask for it."""
        knobs = self.knobs
        depth = knobs.top_k
        if knobs.rerank:
            depth = MAX_POOL_CHUNKS if knobs.pool == ALL else int(knobs.pool)
        sparse = round(depth * (1 - knobs.dense_share))
        blocks, dense, web = await together(
            self._blocks(question),
            self._view("dense", question, depth - sparse),
            self._view("web", question, sparse),
        )
        if knobs.broad:
            dense, web = chunks_in_blocks(blocks, dense), chunks_in_blocks(blocks, web)
        passages = [*dense[: depth - sparse], *web[:sparse]]
        if knobs.rerank and knobs.rerank_by == "source":
            passages = await self._score(question, passages)
        elif knobs.rerank:
            passages = await self._rank(question, passages)
        return self._with_noise(question, passages)

    async def _blocks(self, question: str) -> tuple[Passage, ...]:
        if not self.knobs.broad:
            return ()
        return await self.find("web", question, self.knobs.broad_k, source=self.blocks)

    async def _view(self, name: str, question: str, n: int) -> tuple[Passage, ...]:
        """Returns the best `n` chunks, or as many as the blocks have, if these select among them."""
        knobs, depth = self.knobs, n
        if not n:
            return ()
        if knobs.broad:
            chunks = math.ceil(knobs.broad_chunk / (knobs.chunk_size * (1 - knobs.overlap)))
            depth = max(n, knobs.broad_k * chunks)
        source = self.dense if name == "dense" else self.web
        return await self.find(name, question, depth, source=source)

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
        knobs = self.knobs
        if not knobs.noise_n:
            return tuple(passages)
        seed = f"{question} {knobs.noise_seed}"
        noise = self._draw_noise(seed, passages)
        record(Note("noise", ", ".join(p.id for p in noise) or "none"))
        return mix_noise(passages, noise, knobs.noise_pos, seed)

    def _draw_noise(self, seed: str, shown: Sequence[Passage]) -> tuple[Passage, ...]:
        """Returns chunks of the question's own pages, without those `shown`; else of other pages."""
        question = current_question.get()
        own = parts_of(self.web, question.context_ids if question else ())
        if own:
            return sample(own, self.knobs.noise_n, seed, frozenset(p.id for p in shown))
        taken = frozenset(p.parent for p in shown)
        return self.web.sample(self.knobs.noise_n, seed=seed, exclude=taken)
