"""RAG-X: answer from own knowledge, web pages and an API under a policy, and refuse when it is due.

Paper: RAG-X on CRAG; "Explanation of Knowledge Source Selection" and "Automatic Selection of External
Knowledge Sources" in its Appendix B, prompts in Appendix D. LM calls: 1 for a manual policy; 1, or 2 when
the model alone is unsure, for a predefined one; 1, or 3, for `agent`, which always reasons. Where `kg` is
asked, 1 more names the domain and 1 more the entities, beside the search of `web`; `rerank` and `dynamism`
are 1 more each. `icl_domain` needs the domain too; it is named once, and not where `gold_domain` takes that
of the data set.
Differs (see also `web.py` and `demos.py`): `kg` is any source, searched with each entity, or with the
question where there is none; the authors' rules that pick API calls and resolve dates are in the source
`api`. Facts of `kg` come before the web passages in one list, `top_k` for each entity. The tuned domain
classifier is a prompt. `dense_share` is 0 by default, because the source `web` may be of any kind, and
above 0 needs a source `dense` over the same pages. Reasoning has 412 tokens more than the 100 of the
authors' code, so that it is not cut and counted as unsure. The source router names sources instead of
letters. Where the answer is known beforehand, to make an example of it, the stage without sources is left
out, so that the stage that reads is taught.
"""

from __future__ import annotations

from typing import Any

import dspy

from ragc.errors import UsageError
from ragc.programs.base import format_passage
from ragc.programs.calls.demos import forced_values
from ragc.programs.calls.predict import RagPredict
from ragc.programs.ragx import STAGED, RagXKnobs
from ragc.programs.ragx.api import LABEL, DomainQuestion, KgStage
from ragc.programs.ragx.demos import DOMAIN, ChoosingPredict
from ragc.programs.ragx.web import WebStages
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Note, record, together
from ragc.records import Passage
from ragc.signatures.answer import (
    INVALID,
    UNSURE,
    KnownAnswer,
    OpenAnswer,
    ReferenceAnswer,
    normalize_refusal,
    with_question,
)
from ragc.signatures.route import DynamismRouter, RouteSources
from ragc.signatures.wording import input_field

_SOURCES = {"web": ("web",), "kg": ("kg",), "api": ("kg",), "llm": ()}
_BOTH = ("web", "kg")
_NONE: tuple[Passage, ...] = ()


class RagX(WebStages, KgStage):
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
            self.prepare_web()
        if "kg" in self.sources or self.by_domain:
            self.prepare_domain()
        if "kg" in self.sources:
            self.prepare_kg()
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
            self.dynamism = self.predictor(DynamismRouter, role=self.knobs.router_role, max_tokens=LABEL)
            about = input_field(
                "how fast the answer changes: static, slow-changing, fast-changing or real-time; those that "
                "change fast are better looked up in the API",
                brief="how fast the answer changes",
            )
            signature = RouteSources.append("pace", about, str)
        self.route = self.predictor(signature, max_tokens=LABEL)

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Answers `question` under the policy.

        `context` may hold `query_time`, and `domain`, which is used with `gold_domain` only.
        """
        time, domain = (str(context.get(name) or "").strip() for name in ("query_time", DOMAIN))
        domain = domain if self.knobs.gold_domain else ""
        request = DomainQuestion(question, time or "unknown", domain.casefold())
        answer, passages = UNSURE, _NONE
        if self.staged:
            answer = await self._answer_without_sources(request)
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

    async def _answer_without_sources(self, request: DomainQuestion) -> str:
        """Returns the model's answer without sources."""
        if forced_values(self.answer.signature.output_fields) is not None:
            record(Note("closed", "left out, the answer is known"))
            return UNSURE
        if self.by_domain:
            await self.name_domain(request)
        return (await self._ask(self.closed, request, _NONE))[0]

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
            work.append(self.from_kg(request))
        elif self.by_domain:
            work.append(self._only_name_domain(request))
        if "web" in sources:
            work.append(self.from_web(request.question))
        return tuple(passage for part in await together(*work) for passage in part)

    async def _only_name_domain(self, request: DomainQuestion) -> tuple[Passage, ...]:
        await self.name_domain(request)
        return _NONE
