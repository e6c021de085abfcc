"""Where to look: sources, field and pace of a question, and the entities to look up.

RAG-X, "Automatic Selection of External Knowledge Sources"; `KINDS`, from the authors' code, lists what an
entity may be in each field that the API knows.
"""

from __future__ import annotations

from typing import Literal

import dspy
from pydantic import BaseModel, Field

KINDS: dict[str, tuple[str, ...]] = {
    "finance": ("company", "symbol"),
    "music": ("person", "song", "band"),
    "movie": ("person", "movie"),
    "sports": ("nba team", "soccer team", "nba player", "soccer player"),
}

Kind = Literal[
    "company", "symbol", "person", "song", "band", "movie",
    "nba team", "soccer team", "nba player", "soccer player",
]  # fmt: skip


class RouteSources(dspy.Signature):
    """Choose where to look up the answer: web pages, an API of structured facts, or both.

    Web pages cover more but may be out of date; the API is current and reliable but covers less.
    Choose both when each may hold a part of the answer.
    """

    question: str = dspy.InputField()
    choice: Literal["web", "api", "both"] = dspy.OutputField()


class DomainRouter(dspy.Signature):
    """Name the field that the question belongs to."""

    question: str = dspy.InputField()
    domain: Literal["finance", "music", "movie", "sports", "open"] = dspy.OutputField(
        desc="open when none of the others fits"
    )


class DynamismRouter(dspy.Signature):
    """Say how fast the answer to the question changes."""

    question: str = dspy.InputField()
    pace: Literal["static", "slow-changing", "fast-changing", "real-time"] = dspy.OutputField(
        desc="static: never; slow: over years; fast: over days; real-time: within a day"
    )


class Entity(BaseModel):
    """A name as it stands in the question, and what it names."""

    text: str = Field(max_length=80)
    kind: Kind


class Entities(BaseModel):
    """The names that a question holds; none when it holds none."""

    items: list[Entity] = Field(max_length=6)


class EntityExtract(dspy.Signature):
    """List the names in the question that could be looked up in a database of its domain.

    Copy each name as it stands in the question.
    """

    question: str = dspy.InputField()
    domain: str = dspy.InputField()
    entities: Entities = dspy.OutputField()
