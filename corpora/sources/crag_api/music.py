"""Music: an artist, band or song by name, Grammys by year, and the charts of a day."""

from __future__ import annotations

from typing import Any

from ragc.corpora.sources.crag_api import names
from ragc.corpora.sources.crag_api.facts import ASKED, Ask, Fact, gathered, listed, slug, table, texts, value
from ragc.corpora.sources.crag_api.names import Match
from ragc.corpora.sources.crag_api.question import GRAMMY_YEARS, Asked

MOST_DATED = 20
"""Works whose release date is looked up, the first that the API lists."""

MOST_YEARS = 5
"""Years whose Grammys are looked up, the first that the question names."""

CHART = ("rank", "weeks_in_chart", "top_position", "rank_last_week")
"""What the API knows of a song in the chart of a day."""

GRAMMYS = {
    "best new artist": "/music/grammy_get_best_artist_by_year",
    "song of the year": "/music/grammy_get_best_song_by_year",
    "album of the year": "/music/grammy_get_best_album_by_year",
}


async def look(ask: Ask, name: str, asked: Asked) -> list[Fact]:
    """What the API says of the artist, band or song `name`, and of Grammys asked for; raises SourceError.

    A name that is both an artist's and a song's gives both.
    """
    found = await gathered(
        (
            ask("/music/search_artist_entity_by_name", query=name),
            ask("/music/search_song_entity_by_name", query=name),
        )
    )
    calls = []
    if artist := names.match(name, texts(found[0]), "artist"):
        calls.append(_life(ask, artist, asked))
        if asked.wants("grammy"):
            calls.append(_awards(ask, artist))
        if asked.wants("works"):
            calls.append(_works(ask, artist, asked))
    if song := names.match(name, texts(found[1]), "song"):
        calls.append(_song(ask, song, asked))
        if asked.wants("chart"):
            calls.append(_chart(ask, song, asked))
    if asked.wants("grammy"):
        calls += [_grammys(ask, year) for year in asked.years(GRAMMY_YEARS)[:MOST_YEARS]]
    return [fact for fact in await gathered(calls) if fact]


async def _life(ask: Ask, artist: Match, asked: Asked) -> Fact | None:
    place, life, members = await gathered(
        ask(f"/music/{path}", query=artist.name)
        for path in ("get_artist_birth_place", "get_lifespan", "get_members")
    )
    begin, end = life if isinstance(life, list) and len(life) == 2 else (None, None)
    if not (place or begin or end or members):
        return None
    shown: dict[str, object] = {"country": place, "born or founded": begin, "died or dissolved": end}
    if texts(members):
        shown["members"] = sorted(texts(members))
    key = f"music/artist/{slug(artist.name)}"
    return Fact(key, f"{artist.name}: biography", listed(shown), artist.score)


async def _awards(ask: Ask, artist: Match) -> Fact | None:
    count, years = await gathered(
        ask(f"/music/grammy_get_award_{what}_by_artist", query=artist.name) for what in ("count", "date")
    )
    if not isinstance(count, int):
        return None
    known = years if isinstance(years, list) else []
    won = [str(year) for year in sorted(year for year in known if isinstance(year, int))]
    shown = {"Grammy awards, 1958 to 2019": count, "years": won}
    key = f"music/artist/{slug(artist.name)}/grammys"
    return Fact(key, f"{artist.name}: Grammy awards", listed(shown), artist.score + ASKED)


async def _works(ask: Ask, artist: Match, asked: Asked) -> Fact | None:
    """All works; with release dates, in their order, when the question speaks of order or of a date."""
    works = texts(await ask("/music/get_artist_all_works", query=artist.name))
    if not works:
        return None
    key, title = f"music/artist/{slug(artist.name)}/works", f"{artist.name}: works"
    if not (asked.spans or asked.wants("order")):
        return Fact(key, title, listed({"works": works}), artist.score + ASKED)
    first = works[:MOST_DATED]
    dates = await gathered(ask("/music/get_song_release_date", query=work) for work in first)
    dated = [(date if isinstance(date, str) else "", work) for date, work in zip(dates, first, strict=True)]
    named = [(date, work) for date, work in dated if asked.within(date)]
    rows = sorted(named or dated, key=lambda row: (not row[0], row))
    text = table(("released", "work"), rows)
    if len(works) > MOST_DATED:
        text += f"\n\nOnly the first {MOST_DATED} of {len(works)} works were looked up."
    days = ",".join(map(str, asked.spans)).replace(" ", "-") if named else "all"
    return Fact(f"{key}/dated/{days}", f"{title} by release date", text, artist.score + ASKED)


async def _song(ask: Ask, song: Match, asked: Asked) -> Fact | None:
    author, country, date, count = await gathered(
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
    return Fact(f"music/song/{slug(song.name)}", f"{song.name}: song", listed(shown), song.score)


async def _chart(ask: Ask, song: Match, asked: Asked) -> Fact | None:
    """The song in the Billboard Hot 100 of the first single day that the question names."""
    day = next((span.start.isoformat() for span in asked.spans if span.start == span.end), "")
    if not day:
        return None
    found = await gathered(
        ask("/music/get_billboard_attributes", date=day, attribute=name, song_name=song.name)
        for name in CHART
    )
    if all(item is None for item in found):
        return None
    shown: dict[str, Any] = {name.replace("_", " "): item for name, item in zip(CHART, found, strict=True)}
    key = f"music/song/{slug(song.name)}/chart/{day}"
    return Fact(key, f"{song.name}: Billboard Hot 100 of {day}", listed(shown), song.score + ASKED)


async def _grammys(ask: Ask, year: int) -> Fact | None:
    found = await gathered(ask(path, query=year) for path in GRAMMYS.values())
    shown = {prize: value(texts(won)) for prize, won in zip(GRAMMYS, found, strict=True) if texts(won)}
    return Fact(f"music/grammys/{year}", f"Grammy awards of {year}", listed(shown), ASKED) if shown else None
