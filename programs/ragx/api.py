"""RAG-X's API: the domain of a question, the names in it, and a search of `kg` for each name.

RAG-X, "Guidelines for Extracting Information from the Mock API Responses"; the entity types and what is
done with an open domain are from the authors' code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ragc.core import counters
from ragc.programs.base import RagProgram
from ragc.programs.trace import Note, record, together
from ragc.records import Passage
from ragc.signatures.route import KINDS, DomainRouter, Entities, EntityExtract

LABEL = 30
"""Tokens of a reply that is one label."""


@dataclass(slots=True)
class Asked:
    """A question, when it was asked, and its domain: empty until it is named."""

    question: str
    query_time: str
    domain: str = ""


class KgStage(RagProgram):
    """The part of RAG-X that names a question's domain and searches `kg`."""

    domain: Any
    entities: Any

    def prepare_domain(self) -> None:
        """Make the call that names the domain."""
        self.domain = self.predictor(DomainRouter, role=self.knobs.router_role, max_tokens=LABEL)

    def prepare_kg(self) -> None:
        """Make the call that lists the names in the question."""
        self.entities = self.predictor(EntityExtract, max_tokens=200)

    async def name_domain(self, asked: Asked) -> None:
        """Give `asked` its domain where it has none; one that cannot be read is open."""
        if not asked.domain:
            said = await self.domain.attempt(question=asked.question)
            asked.domain = said.domain if said else "open"

    async def from_kg(self, asked: Asked) -> tuple[Passage, ...]:
        """What `kg` holds on the names in the question; nothing for an open domain."""
        await self.name_domain(asked)
        if asked.domain not in KINDS:
            record(Note("kg", f"domain {asked.domain}, not searched"))
            return ()
        said = await self.entities.attempt(question=asked.question, domain=asked.domain)
        names = named(said.entities, asked) if said else []
        if not names:
            record(Note("kg", "no entity, not searched"))
        found = await together(*(self.search("kg", name, self.knobs.top_k) for name in names))
        return tuple({hit.passage.id: hit.passage for hits in found for hit in hits}.values())


def named(listed: Entities, asked: Asked) -> list[str]:
    """Each name once; those that the question does not hold, or of another domain, are dropped."""
    held = _plain(asked.question)
    names: dict[str, str] = {}
    for entity in listed.items:
        name = _plain(entity.text)
        if name and name != "none" and name in held and entity.kind in KINDS[asked.domain]:
            names.setdefault(name, entity.text)
        else:
            counters.count(dropped=1)
    return list(names.values())


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
