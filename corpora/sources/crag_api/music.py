"""Music: an artist, band or song by name, Grammys by year, and the charts of a day."""

from __future__ import annotations

from typing import Any

from ragc.core.event_loop import gather_or_cancel
from ragc.corpora.sources.crag_api import names
from ragc.corpora.sources.crag_api.facts import (
    ASKED,
    Ask,
    Fact,
    format_list,
    format_value,
    slug,
    table,
    texts,
)
from ragc.corpora.sources.crag_api.names import NameMatch
from ragc.corpora.sources.crag_api.question import GRAMMY_YEARS, ParsedQuestion

MAX_DATED_WORKS = 20
"""Works whose release date is looked up, the first that the API lists."""

MAX_YEARS = 5
"""Years whose Grammys are looked up, the first that the question names."""

CHART = ("rank", "weeks_in_chart", "top_position", "rank_last_week")
"""What the API knows of a song in the chart of a day."""

GRAMMYS = {
    "best new artist": "/music/grammy_get_best_artist_by_year",
    "song of the year": "/music/grammy_get_best_song_by_year",
    "album of the year": "/music/grammy_get_best_album_by_year",
}


async def look_up(ask: Ask, name: str, question: ParsedQuestion) -> list[Fact]:
    """Returns the API's facts on the artist, band or song `name`, and on Grammys asked for.

    A name that is both an artist's and a song's gives both. Raises SourceError.
    """
    replies = await gather_or_cancel(
        (
            ask("/music/search_artist_entity_by_name", query=name),
            ask("/music/search_song_entity_by_name", query=name),
        )
    )
    calls = []
    if artist := names.match(name, texts(replies[0]), "artist"):
        calls.append(_life(ask, artist, question))
        if question.wants("grammy"):
            calls.append(_awards(ask, artist))
        if question.wants("works"):
            calls.append(_works(ask, artist, question))
    if song := names.match(name, texts(replies[1]), "song"):
        calls.append(_song(ask, song, question))
        if question.wants("chart"):
            calls.append(_chart(ask, song, question))
    if question.wants("grammy"):
        calls += [_grammys(ask, year) for year in question.years(GRAMMY_YEARS)[:MAX_YEARS]]
    return [fact for fact in await gather_or_cancel(calls) if fact]


async def _life(ask: Ask, artist: NameMatch, question: ParsedQuestion) -> Fact | None:
    birth_place, life, members = await gather_or_cancel(
        ask(f"/music/{path}", query=artist.name)
        for path in ("get_artist_birth_place", "get_lifespan", "get_members")
    )
    begin, end = life if isinstance(life, list) and len(life) == 2 else (None, None)
    if not (birth_place or begin or end or members):
        return None
    shown: dict[str, object] = {"country": birth_place, "born or founded": begin, "died or dissolved": end}
    if texts(members):
        shown["members"] = sorted(texts(members))
    key = f"music/artist/{slug(artist.name)}"
    return Fact(key, f"{artist.name}: biography", format_list(shown), artist.score)


async def _awards(ask: Ask, artist: NameMatch) -> Fact | None:
    count, years = await gather_or_cancel(
        ask(f"/music/grammy_get_award_{what}_by_artist", query=artist.name) for what in ("count", "date")
    )
    if not isinstance(count, int):
        return None
    known = years if isinstance(years, list) else []
    won = [str(year) for year in sorted(year for year in known if isinstance(year, int))]
    shown = {"Grammy awards, 1958 to 2019": count, "years": won}
    key = f"music/artist/{slug(artist.name)}/grammys"
    return Fact(key, f"{artist.name}: Grammy awards", format_list(shown), artist.score + ASKED)


async def _works(ask: Ask, artist: NameMatch, question: ParsedQuestion) -> Fact | None:
    """Returns all works; with release dates, in their order, if the question is about order or a date."""
    works = texts(await ask("/music/get_artist_all_works", query=artist.name))
    if not works:
        return None
    key, title = f"music/artist/{slug(artist.name)}/works", f"{artist.name}: works"
    if not (question.spans or question.wants("order")):
        return Fact(key, title, format_list({"works": works}), artist.score + ASKED)
    first = works[:MAX_DATED_WORKS]
    dates = await gather_or_cancel(ask("/music/get_song_release_date", query=work) for work in first)
    dated = [(date if isinstance(date, str) else "", work) for date, work in zip(dates, first, strict=True)]
    named = [(date, work) for date, work in dated if question.within(date)]
    rows = sorted(named or dated, key=lambda row: (not row[0], row))
    text = table(("released", "work"), rows)
    if len(works) > MAX_DATED_WORKS:
        text += f"\n\nOnly the first {MAX_DATED_WORKS} of {len(works)} works were looked up."
    days = ",".join(map(str, question.spans)).replace(" ", "-") if named else "all"
    return Fact(f"{key}/dated/{days}", f"{title} by release date", text, artist.score + ASKED)


async def _song(ask: Ask, song: NameMatch, question: ParsedQuestion) -> Fact | None:
    author, country, date, count = await gather_or_cancel(
        ask(f"/music/{path}", query=song.name)
        for path in (
            "get_song_author",
            "get_song_release_country",
            "get_song_release_date",
            "grammy_get_award_count_by_song",
        )
    )
    if not (author or country or date or count):
        return None
    shown = {"author": author, "release date": date, "release country": country, "Grammy awards": count}
    return Fact(f"music/song/{slug(song.name)}", f"{song.name}: song", format_list(shown), song.score)


async def _chart(ask: Ask, song: NameMatch, question: ParsedQuestion) -> Fact | None:
    """Returns the song in the Billboard Hot 100 of the first single day that the question names."""
    day = next((span.start.isoformat() for span in question.spans if span.start == span.end), "")
    if not day:
        return None
    attributes = await gather_or_cancel(
        ask("/music/get_billboard_attributes", date=day, attribute=name, song_name=song.name)
        for name in CHART
    )
    if all(item is None for item in attributes):
        return None
    shown: dict[str, Any] = {
        name.replace("_", " "): item for name, item in zip(CHART, attributes, strict=True)
    }
    key = f"music/song/{slug(song.name)}/chart/{day}"
    return Fact(key, f"{song.name}: Billboard Hot 100 of {day}", format_list(shown), song.score + ASKED)


async def _grammys(ask: Ask, year: int) -> Fact | None:
    winners = await gather_or_cancel(ask(path, query=year) for path in GRAMMYS.values())
    shown = {
        prize: format_value(texts(won)) for prize, won in zip(GRAMMYS, winners, strict=True) if texts(won)
    }
    return (
        Fact(f"music/grammys/{year}", f"Grammy awards of {year}", format_list(shown), ASKED)
        if shown
        else None
    )
