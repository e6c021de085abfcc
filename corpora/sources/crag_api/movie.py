"""Movies: a movie or person by name, and the Oscars of a year."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragc.core.event_loop import gather_or_cancel
from ragc.corpora.sources.crag_api import names
from ragc.corpora.sources.crag_api.facts import (
    ASKED,
    MAX_LIST_ITEMS,
    Ask,
    Fact,
    awards,
    format_list,
    format_value,
    objects,
    slug,
)
from ragc.corpora.sources.crag_api.question import OSCAR_YEARS, ParsedQuestion

MAX_CAST = 10
"""Members of a cast that are shown, main roles first."""

MAX_TITLES = 20
"""Movies of a person that are looked up in each role, the first that the API lists."""

MAX_YEARS = 5
"""Years whose Oscars are looked up, the first that the question names."""


async def look_up(ask: Ask, name: str, question: ParsedQuestion) -> list[Fact]:
    """Returns the API's facts on the movie or person `name`, and on Oscars asked for; raises SourceError.

    A name that is both a movie's and a person's gives both.
    """
    persons, movies = await gather_or_cancel(
        (ask("/movie/get_person_info", query=name), ask("/movie/get_movie_info", query=name))
    )
    facts = []
    if match := _fit(name, movies, "title", "movie"):
        facts.append(_movie(*match))
    if match := _fit(name, persons, "name", "person"):
        facts.append(await _person(ask, *match, question))
    if question.wants("oscar"):
        years = question.years(OSCAR_YEARS)[:MAX_YEARS]
        facts += [fact for fact in await gather_or_cancel(_oscars(ask, year) for year in years) if fact]
    return facts


def _fit(name: str, reply: object, field: str, kind: str) -> tuple[dict[str, Any], float] | None:
    """Returns the entity of a reply whose `field` fits `name`, with its score."""
    named = [entity for entity in objects(reply) if isinstance(entity.get(field), str)]
    fit = names.match(name, [entity[field] for entity in named], kind)
    return (named[fit.at], fit.score) if fit else None


def _movie(movie: dict[str, Any], score: float) -> Fact:
    crew, cast = objects(movie.get("crew")), objects(movie.get("cast"))
    main = sorted(cast, key=lambda one: one["order"] if isinstance(one.get("order"), int) else len(cast))
    shown: dict[str, object] = {
        "original title": movie.get("original_title"),
        "release date": movie.get("release_date"),
        "directors": [one.get("name") for one in crew if one.get("job") == "Director"],
        "genres": [one.get("name") for one in objects(movie.get("genres"))],
        "original language": movie.get("original_language"),
        "length in minutes": movie.get("length") or movie.get("runtime"),
        "budget in USD": movie.get("budget") or None,
        "revenue in USD": movie.get("revenue") or None,
        "rating out of 10": movie.get("rating"),
        "cast": [
            f"{format_value(one.get('name'))} as {format_value(one.get('character'))}"
            for one in main[:MAX_CAST]
        ],
        "Oscars": awards(objects(movie.get("oscar_awards"))),
    }
    title = str(movie["title"])
    return Fact(_key("movie", movie, title), f"{title}: movie", format_list(shown), score)


async def _person(ask: Ask, person: dict[str, Any], score: float, question: ParsedQuestion) -> Fact:
    """Returns a person, with titles of movies if the question is about roles, else with their numbers."""
    acted, directed = _ids(person.get("acted_movies")), _ids(person.get("directed_movies"))
    oscars = objects(person.get("oscar_awards"))
    years = question.years(OSCAR_YEARS) if question.wants("oscar") else ()
    of_years = [entry for entry in oscars if entry.get("year_ceremony") in years]
    shown: dict[str, object] = {
        "birthday": person.get("birthday"),
        "Oscars": awards(of_years or oscars),
        "movies acted in": len(acted),
        "movies directed": len(directed),
    }
    titled = question.wants("roles")
    if titled:
        shown["acted in"] = await _titles(ask, acted)
        shown["directed"] = await _titles(ask, directed)
    name = str(person["name"])
    about = ("/movies" if titled else "") + (f"/oscars-{'-'.join(map(str, years))}" if of_years else "")
    text = format_list(shown)
    if titled and max(len(acted), len(directed)) > MAX_TITLES:
        text += f"\n\nOnly the first {MAX_TITLES} movies in each role were looked up."
    return Fact(_key("person", person, name) + about, f"{name}: person", text, score + ASKED * titled)


async def _titles(ask: Ask, ids: list[int]) -> list[str]:
    """Returns the titles of the first MAX_TITLES movies, with years, those without a title left out."""
    replies = await gather_or_cancel(
        ask("/movie/get_movie_info_by_id", query=one) for one in ids[:MAX_TITLES]
    )
    movies = [movie for movie in replies if isinstance(movie, Mapping) and movie.get("title")]
    return [f"{movie['title']} ({str(movie.get('release_date') or 'Unknown')[:4]})" for movie in movies]


async def _oscars(ask: Ask, year: int) -> Fact | None:
    reply = await ask("/movie/get_year_info", query=str(year))
    entries = objects(reply.get("oscar_awards")) if isinstance(reply, Mapping) else []
    won = awards(entry for entry in entries if entry.get("winner") is True)
    if not won:
        return None
    text = "\n".join(f"- {line}" for line in won[:MAX_LIST_ITEMS])
    return Fact(f"movie/oscars/{year}", f"Oscar winners of {year}", text, ASKED)


def _ids(items: object) -> list[int]:
    return [one for one in items if type(one) is int] if isinstance(items, list) else []


def _key(kind: str, entity: dict[str, Any], name: str) -> str:
    return f"movie/{kind}/{slug(name)}/{format_value(entity.get('id')).replace(',', '')}"
