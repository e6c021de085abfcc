"""Open domain: an entity of an encyclopedia by name."""

from __future__ import annotations

from collections.abc import Mapping

from ragc.corpora import api_names
from ragc.corpora.api_facts import Ask, Fact, slug, texts
from ragc.corpora.api_rules import Asked
from ragc.corpora.api_text import clipped, listed

LONGEST_SUMMARY = 2000
"""Characters of an entity's summary."""

MOST_FIELDS = 30
"""Fields of an entity's box of facts, the first that it lists."""


async def look(ask: Ask, name: str, asked: Asked) -> list[Fact]:
    """The summary and the box of facts of the entity `name`; raises SourceError."""
    known = texts(await ask("/open/search_entity_by_name", query=name))
    fit = api_names.match(name, known, "entity")
    found = await ask("/open/get_entity", query=fit.name) if fit else None
    if fit is None or not isinstance(found, Mapping):
        return []
    summary, box = found.get("summary_text"), found.get("summary_structured")
    parts = [clipped(summary.strip(), LONGEST_SUMMARY)] if isinstance(summary, str) else []
    if isinstance(box, Mapping):
        parts.append(listed(dict(list(box.items())[:MOST_FIELDS])))
    text = "\n\n".join(part for part in parts if part)
    return [Fact(f"open/{slug(fit.name)}", fit.name, text, fit.score)] if text else []
