"""Where to look: sources, field and pace of a question, and the entities to look up.

RAG-X, "Automatic Selection of External Knowledge Sources"; `KINDS`, from the authors' code, lists what an
entity may be in each field that the API knows.
"""

from __future__ import annotations

from typing import Literal

import dspy
from pydantic import BaseModel, Field

from ragc.signatures.wording import brief

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


@brief(
    "Choose where to look up the answer: web pages, an API of structured facts, or both.\n\n"
    "Web pages cover more but may be out of date; the API is current and reliable but covers less. "
    "Choose both when each may hold a part of the answer.",
    choice="web, api or both",
)
class RouteSources(dspy.Signature):
    """Choose where to look up the answer: web pages, an API of structured facts, or both.

    Web pages cover more but may be out of date. The API is current and reliable but covers less: stock
    prices and figures of companies, films with their casts, crews and awards, songs, artists and charts, and
    games of the NBA and of soccer clubs. Choose it for what changes fast and for exact figures of these
    kinds, web for explanations and for everything else, both when each may hold a part of the answer.
    """

    question: str = dspy.InputField(desc="what is to be answered")
    choice: Literal["web", "api", "both"] = dspy.OutputField(desc="where to look it up")


@brief(
    "Name the field that the question belongs to.",
    domain="open when none of the others fits",
)
class DomainRouter(dspy.Signature):
    """Name the field that the question belongs to.

    Go by what a database would have to know to answer it: the pay of an actor for a film belongs to movie,
    the shares of a film studio to finance.
    """

    question: str = dspy.InputField(desc="what is to be answered")
    domain: Literal["finance", "music", "movie", "sports", "open"] = dspy.OutputField(
        desc="finance: companies, shares, markets; music: songs, artists, awards; movie: films and those who "
        "make them; sports: teams, players, games; open: none of these"
    )


@brief(
    "Say how fast the answer to the question changes.",
    pace="static: never; slow: over years; fast: over days; real-time: within a day",
)
class DynamismRouter(dspy.Signature):
    """Say how fast the answer to the question changes.

    Think of the true answer today, next week and in some years. Questions about a date or an event in the
    past are static, even when their subject changes all the time.
    """

    question: str = dspy.InputField(desc="what is to be answered")
    pace: Literal["static", "slow-changing", "fast-changing", "real-time"] = dspy.OutputField(
        desc="static: never, as a birthday; slow-changing: over years, as a population; fast-changing: over "
        "days or weeks, as a chart; real-time: within a day, as the price of a share"
    )


class Entity(BaseModel):
    """A name as it stands in the question, and what it names."""

    text: str = Field(max_length=80)
    kind: Kind


class Entities(BaseModel):
    """The names that a question holds; none when it holds none."""

    items: list[Entity] = Field(max_length=6)


_KINDS_BY_DOMAIN = "; ".join(f"{domain}: {', '.join(kinds)}" for domain, kinds in KINDS.items())


@brief(
    "List the names in the question that could be looked up in a database of its domain.\n\n"
    "Copy each name as it stands in the question.",
    domain="what the database is about",
    entities=f"each name with its kind; {_KINDS_BY_DOMAIN}",
)
class EntityExtract(dspy.Signature):
    """List the names in the question that could be looked up in a database of its domain.

    Copy each name as it stands in the question, whole and without words around it, and say what it names with
    one of the kinds of the domain. Take proper names only: no dates, no roles such as "the director", nothing
    that the question does not say. A question without such a name has none.

    Example: "How many goals did Messi score for Barcelona in 2012?", sports: "Messi" is a soccer player,
    "Barcelona" a soccer team. "What does a share of Apple cost?", finance: "Apple" is a company.
    """

    question: str = dspy.InputField(desc="the question with the names")
    domain: str = dspy.InputField(desc="what the database is about")
    entities: Entities = dspy.OutputField(
        desc=f"the names, at most 6, each with its kind, which the domain limits: {_KINDS_BY_DOMAIN}"
    )


@brief(
    "Say what the question needs from a database: its domain, and the names to look up.\n\n"
    "Copy each name as it stands in the question.",
    domain="open when none of the others fits",
    entities=f"each name with its kind; {_KINDS_BY_DOMAIN}",
)
class ExtractKgLookup(DomainRouter):
    """Say what the question needs from a database: its domain, and the names to look up there.

    Go by what a database would have to hold to answer. Copy each name as it stands in the question, whole and
    without words around it, and say what it names with one of the kinds of the domain. Take proper names
    only; a question without such a name has none, and one that no database of these domains answers is open.
    """

    entities: Entities = dspy.OutputField(
        desc=f"the names, at most 6, each with its kind, which the domain limits: {_KINDS_BY_DOMAIN}"
    )
