"""RAG-X: answer from own knowledge, web pages and an API under a policy, and refuse when it is due.

Paper: RAG-X on CRAG (METHODS sections 2.1 to 2.3). LM calls: 1 for a manual policy; 1, or 2 when
the model alone is unsure, for a predefined one; 1, or 3, for `agent`. Where `kg` is asked, 1 more
names the domain and 1 more the entities, beside the search of `web`; `rerank` and `dynamism` are 1
more each.
Differs: `kg` is any source, searched with each entity; the authors' rules that pick API calls and
resolve dates are not here. Facts of `kg` stand before the web passages in one list, `top_k` for each
entity. The tuned domain classifier is a prompt. `dense_share` is 0 by default, because the source
`web` may be of any kind, and above 0 needs a source `dense` over the same pages. Broad retrieval
keeps the chunks that start in one of the `broad_k` best blocks; it looks for them as deep as the
blocks have chunks, and with blocks as long as chunks it matters to `dense` alone. `rerank` is
listwise by the main model, for want of a cross-encoder, so a pool of `all` is not offered. Reasoning
has 412 tokens more, so that it is not cut and counted as unsure. Few-shot examples are those
that an optimizer chose; `icl_domain` is not here. Noise chunks are never among the retrieved ones. The
source router names sources instead of letters.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import dspy

from ragc import counters
from ragc.errors import ParseFailure, UsageError
from ragc.programs.base import RagProgram, shown
from ragc.programs.predict import RagPredict
from ragc.programs.ragx_knobs import STAGED, RagXKnobs
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Note, record, together
from ragc.records import Passage
from ragc.signatures.answers import with_question
from ragc.signatures.invalid import INVALID, UNSURE, KnownAnswer, OpenAnswer, ReferenceAnswer, settled
from ragc.signatures.ranking import RankPassages
from ragc.signatures.routing import KINDS, DomainRouter, DynamismRouter, Entities, EntityExtract, RouteSources
from ragc.signatures.selection import picked

_REASONING = 412
_LABEL = 30
_SOURCES = {"web": ("web",), "kg": ("kg",), "api": ("kg",), "llm": ()}
_BOTH = ("web", "kg")
_NONE: tuple[Passage, ...] = ()


class RagX(RagProgram):
    """One policy over the model's own knowledge, the source `web` and the source `kg`."""

    def __init__(self, runtime: Runtime, knobs: RagXKnobs) -> None:
        super().__init__(runtime, knobs)
        policy = knobs.source_policy
        self.sources: tuple[str, ...] = _SOURCES.get(policy.rpartition("_")[2], _BOTH)
        self.staged, self.routed = policy in STAGED, policy == "agent"
        own = knobs.second_stage_internal if self.staged else policy.startswith("llm")
        self._check()
        if self.staged:
            self.closed = self._answerer(KnownAnswer)
        if self.routed:
            self._make_router()
        if "web" in self.sources:
            self._make_web()
        if "kg" in self.sources:
            self.domain = self.predictor(DomainRouter, role=self.knobs.router_role, max_tokens=_LABEL)
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
        if "kg" in self.sources and knobs.router_role not in self.runtime.targets:
            raise UsageError(
                f"Knob router_role = {knobs.router_role!r} asks a target that is not there; "
                f"add [targets.{knobs.router_role}] or set router_role = 'main'."
            )

    def _answerer(self, signature: Any) -> RagPredict:
        knobs = self.knobs
        limit = knobs.max_answer_tokens if knobs.answer_format == "short" else None
        return self.answering(signature, cot=knobs.cot or self.routed, also=(INVALID, UNSURE), limit=limit)

    def _make_router(self) -> None:
        signature = RouteSources
        if self.knobs.dynamism:
            self.dynamism = self.predictor(DynamismRouter, role=self.knobs.router_role, max_tokens=_LABEL)
            about = dspy.InputField(desc="how fast the answer changes")
            signature = RouteSources.append("pace", about, str)
        self.route = self.predictor(signature, max_tokens=_LABEL)

    def _make_web(self) -> None:
        knobs, known = self.knobs, self.runtime.sources
        self.web = known["web"].rechunked(knobs.chunk_size, knobs.overlap)
        if knobs.dense_share:
            self.dense = known["dense"].rechunked(knobs.chunk_size, knobs.overlap)
        if knobs.broad:
            self.blocks = known["web"].rechunked(knobs.broad_chunk, 0.0)
        if knobs.rerank:
            self.rank = self.predictor(RankPassages, max_tokens=120)

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Answer `question` under the policy; `query_time` in `context` is told to the answering call."""
        asked = {"question": question, "query_time": str(context.get("query_time") or "unknown")}
        answer, passages = UNSURE, _NONE
        if self.staged:
            answer = await self._answered(self.closed, asked)
        if answer == UNSURE:
            sources = await self._chosen(question) if self.routed else self.sources
            if sources or not self.staged:
                passages = self._fitted(await self._found(question, sources), asked)
                inputs = {**asked, "passages": [shown(p) for p in passages]} if self.sources else asked
                answer = await self._answered(self.answer, inputs)
        if answer in (INVALID, UNSURE):
            record(Note("answer", answer))
        tallies = {"invalid": int(answer == INVALID), "missing": int(answer == UNSURE)}
        return dspy.Prediction(answer=answer, passages=passages, tallies=tallies)

    async def _said(self, call: RagPredict, field: str, otherwise: Any, **inputs: Any) -> Any:
        """The output `field` of a call; `otherwise` when its reply cannot be read."""
        try:
            return (await call.acall(**inputs))[field]
        except ParseFailure as error:
            record(Note(call.name, f"not read: {error}"))
            return otherwise

    async def _answered(self, call: RagPredict, inputs: dict[str, Any]) -> str:
        return settled(await self._said(call, "answer", UNSURE, **inputs))

    async def _chosen(self, question: str) -> tuple[str, ...]:
        """The sources that the model picks; none when its choice cannot be read."""
        inputs = {"question": question}
        if self.knobs.dynamism:
            inputs["pace"] = await self._said(self.dynamism, "pace", "unknown", question=question)
        choice = await self._said(self.route, "choice", "", **inputs)
        sources = _SOURCES.get(choice, _BOTH) if choice else ()
        record(Note("sources", " and ".join(sources) or "none"))
        return sources

    async def _found(self, question: str, sources: tuple[str, ...]) -> tuple[Passage, ...]:
        """Facts of `kg`, then passages of `web`, found at the same time."""
        ways = {"kg": self._kg, "web": self._web}
        found = await together(*(ways[name](question) for name in ways if name in sources))
        return tuple(passage for part in found for passage in part)

    def _fitted(self, passages: tuple[Passage, ...], asked: dict[str, Any]) -> tuple[Passage, ...]:
        return self.fitting(self.answer, passages, **asked) if passages else ()

    async def _kg(self, question: str) -> tuple[Passage, ...]:
        """What `kg` holds on the entities of the question; nothing for an open domain."""
        domain = await self._said(self.domain, "domain", "open", question=question)
        if domain not in KINDS:
            record(Note("kg", "open domain, not searched"))
            return ()
        none = Entities(items=[])
        listed = await self._said(self.entities, "entities", none, question=question, domain=domain)
        names = _named(listed, question, domain)
        if not names:
            record(Note("kg", "no entity, not searched"))
        found = await together(*(self.search("kg", name, self.knobs.top_k) for name in names))
        return tuple({hit.passage.id: hit.passage for hits in found for hit in hits}.values())

    async def _web(self, question: str) -> tuple[Passage, ...]:
        """Passages of the web, reordered and with noise where that is asked for."""
        knobs = self.knobs
        wanted = knobs.pool if knobs.rerank else knobs.top_k
        sparse = round(wanted * (1 - knobs.dense_share))
        blocks, dense, plain = await together(
            self._blocks(question),
            self._view("dense", question, wanted - sparse),
            self._view("web", question, sparse),
        )
        if knobs.broad:
            dense, plain = _within(blocks, dense), _within(blocks, plain)
        passages = [*dense[: wanted - sparse], *plain[:sparse]]
        if knobs.rerank:
            passages = await self._ranked(question, passages)
        return self._with_noise(question, passages)

    async def _blocks(self, question: str) -> tuple[Passage, ...]:
        if not self.knobs.broad:
            return ()
        hits = await self.search("web", question, self.knobs.broad_k, source=self.blocks)
        return tuple(hit.passage for hit in hits)

    async def _view(self, name: str, question: str, n: int) -> tuple[Passage, ...]:
        """The best `n` chunks; as many as the blocks have when those decide which of them are kept."""
        if not n:
            return ()
        knobs = self.knobs
        depth = knobs.broad_k * -(-knobs.broad_chunk // knobs.chunk_size) if knobs.broad else n
        hits = await self.search(
            name, question, max(n, depth), source=self.dense if name == "dense" else self.web
        )
        return tuple(hit.passage for hit in hits)

    async def _ranked(self, question: str, pool: Sequence[Passage]) -> list[Passage]:
        """The best `top_n` of `pool`; what the model does not rank follows in its old order."""
        top = self.knobs.top_n
        seen = self.fitting(self.rank, pool, question=question)
        if len(seen) < 2:
            return list(pool[:top])
        inputs = {"question": question, "passages": [shown(p) for p in seen]}
        order = await self._said(self.rank, "order", [], **inputs)
        places, wrong = picked(order, len(seen), len(seen))
        counters.count(dropped=wrong)
        return [pool[i] for i in [*places, *(i for i in range(len(pool)) if i not in places)]][:top]

    def _with_noise(self, question: str, found: Sequence[Passage]) -> tuple[Passage, ...]:
        mixed, knobs = list(found), self.knobs
        if knobs.noise_n:
            taken = frozenset(p.parent for p in found)
            order = random.Random(f"noise {question}")
            for passage in self.web.sample(knobs.noise_n, seed=question, exclude=taken):
                end = knobs.noise_pos == "end"
                mixed.insert(len(mixed) if end else order.randrange(len(mixed) + 1), passage)
        return tuple(mixed)


def _named(listed: Entities, question: str, domain: str) -> list[str]:
    """Each name once; those that the question does not hold, or of another domain, are dropped."""
    held = " ".join(question.casefold().split())
    names: dict[str, str] = {}
    for entity in listed.items:
        plain = " ".join(entity.text.casefold().split())
        if plain and plain != "none" and plain in held and entity.kind in KINDS[domain]:
            names.setdefault(plain, entity.text)
        else:
            counters.count(dropped=1)
    return list(names.values())


def _within(blocks: Sequence[Passage], passages: Sequence[Passage]) -> tuple[Passage, ...]:
    """Those of `passages` that start in one of `blocks`."""
    spans: dict[str, list[tuple[int, int]]] = {}
    for block in blocks:
        end = block.start + max(1, len(block.text))
        spans.setdefault(block.parent, []).append((block.start, end))
    return tuple(p for p in passages if any(a <= p.start < b for a, b in spans.get(p.parent, ())))
