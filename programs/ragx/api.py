"""RAG-X's API: the domain of a question, the names in it, and a search of `kg` for each name.

RAG-X, "Guidelines for Extracting Information from the Mock API Responses"; the entity types and what is
done with an open domain are from the authors' code. `kg` is searched within the domain that was named. A
question without a name is searched as it is: its words and dates alone may ask for facts.
Differs: a listed name that the question does not hold in any form, or of another domain, is dropped and
counted; the authors' code asks for whatever is listed. Names that differ in spelling count as held by the
rule of `crag_api.names.is_named_in`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ragc.core import counters
from ragc.corpora.sources.base import current_question
from ragc.corpora.sources.crag_api.names import is_named_in, plain
from ragc.programs.base import RagProgram
from ragc.programs.trace import Note, record, together
from ragc.records import Passage, Question
from ragc.signatures.route import KINDS, DomainRouter, Entities, EntityExtract

LABEL = 30
"""Tokens of a reply that is one label."""


@dataclass(slots=True)
class DomainQuestion:
    """A question, when it was asked, and its domain: empty until it is named."""

    question: str
    query_time: str
    domain: str = ""


class KgStage(RagProgram):
    """The part of RAG-X that names a question's domain and searches `kg`."""

    domain: Any
    entities: Any

    def prepare_domain(self) -> None:
        """Builds the call that names the domain."""
        self.domain = self.predictor(DomainRouter, role=self.knobs.router_role, max_tokens=LABEL)

    def prepare_kg(self) -> None:
        """Builds the call that lists the names in the question."""
        self.entities = self.predictor(EntityExtract, max_tokens=200)

    async def name_domain(self, request: DomainQuestion) -> None:
        """Asks for the domain of `request` if it has none; "open" if the reply is unreadable."""
        if not request.domain:
            reply = await self.domain.try_call(question=request.question)
            request.domain = reply.domain if reply else "open"

    async def from_kg(self, request: DomainQuestion) -> tuple[Passage, ...]:
        """Returns passages of `kg` on the names in the question; none for an open domain."""
        await self.name_domain(request)
        if request.domain not in KINDS:
            record(Note("kg", f"domain {request.domain}, not searched"))
            return ()
        reply = await self.entities.try_call(question=request.question, domain=request.domain)
        names = names_in_question(reply.entities, request) if reply else []
        if not names:
            record(Note("kg", "no entity, searched with the question"))
        return await search_domain(self, request, names or [request.question])


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
    """Returns each name once, without names of another domain or that the question does not contain.

    A name may be in the question in another form, by the rule of `crag_api.names.is_named_in`.
    """
    names: dict[str, str] = {}
    for entity in listed.items:
        name, fits = plain(entity.text, entity.kind), entity.kind in KINDS[request.domain]
        if fits and name != "none" and is_named_in(entity.text, request.question, entity.kind):
            names.setdefault(name, entity.text)
        else:
            counters.count(dropped=1)
    return list(names.values())
