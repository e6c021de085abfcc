"""Sports: the games of an NBA or soccer team on the dates that a question names.

The API takes the exact name of a team (`names`). It cannot find a player by name, so players are not looked
up. A question without a date is about the year it was asked in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragc.core.event_loop import gather_or_cancel
from ragc.corpora.sources.crag_api import names as api_names
from ragc.corpora.sources.crag_api import names as api_teams
from ragc.corpora.sources.crag_api.facts import ASKED, Ask, Fact, format_list, rows, slug, table
from ragc.corpora.sources.crag_api.question import DayRange, ParsedQuestion

MAX_TEAMS = 2
"""Teams that are looked up for a question without a name: a game has two."""

MAX_DATES = 14
"""Dates (days, months or years) that are asked for, the first that the question names."""

NBA, SOCCER = "/sports/nba/get_games_on_date", "/sports/soccer/get_games_on_date"

Game = dict[str, Any]


async def look_up(ask: Ask, name: str, question: ParsedQuestion) -> list[Fact]:
    """Returns the games of the team `name`; () for no known team and for a question without any date.

    The name of an NBA team is looked up there, any other among soccer teams, and every name when the question
    has a word of soccer. A question without a name gets the games of the first teams in it. Raises
    SourceError.
    """
    spans = question.spans or _this_year(question)
    keys = list(dict.fromkeys(key for span in spans for key in span.stamps()))[:MAX_DATES]
    if not keys:
        return []
    score = ASKED if question.spans else 0.0
    names = _teams_named(question) if question.nameless else (name,)
    facts = await gather_or_cancel(_games_of(ask, team, question, keys, spans, score) for team in names)
    return [fact for team_facts in facts for fact in team_facts]


def _teams_named(question: ParsedQuestion) -> tuple[str, ...]:
    """Returns the first teams named in the text of `question`, all of one league."""
    nba = () if question.wants("soccer") else api_teams.teams_in(question.text, api_teams.NBA)
    return (nba or api_teams.teams_in(question.text, api_teams.SOCCER))[:MAX_TEAMS]


async def _games_of(
    ask: Ask, name: str, question: ParsedQuestion, keys: list[str], spans: tuple[DayRange, ...], score: float
) -> list[Fact]:
    """Returns the games of the team `name` at the dates `keys`, those within `spans`."""
    team = () if question.wants("soccer") else api_teams.nba(name)
    if team:
        calls = (ask(NBA, date=key, team_name=known) for key in keys for known in team)
        games = _games_within(await gather_or_cancel(calls), "game_date", spans)
        return (
            [_fact("nba", team[0], games, [_nba(game, team) for game in games], score + 100)] if games else []
        )
    return await _soccer_games(ask, api_teams.soccer(name), keys, spans, score)


async def _soccer_games(
    ask: Ask, name: str, keys: list[str], spans: tuple[DayRange, ...], score: float
) -> list[Fact]:
    """Returns the games under the exact name; if single days have none, those of the team that fits best."""
    replies = await gather_or_cancel(ask(SOCCER, date=key, team_name=name) for key in keys)
    games, fits = _games_within(replies, "date", spans), 100.0
    days = [key for key in keys if len(key) == len("2024-03-04")]
    if not games and days:
        every = _games_within(await gather_or_cancel(ask(SOCCER, date=key) for key in days), "date", spans)
        teams = list(dict.fromkeys(_team(game) for game in every))
        fit = api_names.match(name, teams, "team")
        if fit:
            games, name, fits = [game for game in every if _team(game) == fit.name], fit.name, fit.score
    if not games:
        return []
    return [_fact("soccer", name, games, [_soccer(game) for game in games], score + fits)]


def _this_year(question: ParsedQuestion) -> tuple[DayRange, ...]:
    if question.day is None:
        return ()
    return (DayRange(question.day.replace(month=1, day=1), question.day.replace(month=12, day=31)),)


def _games_within(replies: list[Any], field: str, spans: tuple[DayRange, ...]) -> list[Game]:
    """Returns the games of all replies that lie in `spans`, the latest first, each once."""
    games = [game for reply in replies for game in rows(reply) if isinstance(game.get(field), str)]
    games = [game for game in games if any(span.holds(game[field]) for span in spans)]
    unique = {(game[field], str(game.get("game_id") or game["index"])): game for game in games}
    return [unique[key] for key in sorted(unique, key=str, reverse=True)]


def _team(game: Game) -> str:
    """Returns the team in the index of a soccer game, "('ENG-Premier League', '2324', 'Everton', 'game')"."""
    if isinstance(game.get("team"), str):
        return str(game["team"])
    parts = str(game["index"]).strip("()").split("', ")
    return parts[2].strip("'\" ") if len(parts) > 2 else ""


def _nba(game: Game, team: tuple[str, ...]) -> dict[str, object]:
    home = game.get("team_name_home") in team
    own, other = ("home", "away") if home else ("away", "home")
    return {
        "date": game["game_date"][:10],
        "place": own,
        "opponent": game.get(f"team_name_{other}"),
        "result": game.get(f"wl_{own}"),
        "points": game.get(f"pts_{own}"),
        "opponent points": game.get(f"pts_{other}"),
        "rebounds": game.get(f"reb_{own}"),
        "assists": game.get(f"ast_{own}"),
        "season type": game.get("season_type"),
    }


def _soccer(game: Game) -> dict[str, object]:
    return {
        "date": game["date"][:10],
        "time": game.get("time"),
        "place": game.get("venue"),
        "opponent": game.get("opponent"),
        "result": game.get("result"),
        "points": game.get("GF"),
        "opponent points": game.get("GA"),
        "round": game.get("round"),
        "captain": game.get("Captain"),
    }


def _fact(league: str, team: str, games: list[Game], lines: list[dict[str, object]], score: float) -> Fact:
    """Returns a summary of all the games and a table of the latest."""
    results = [str(line["result"] or "")[:1].upper() for line in lines]
    summary: Mapping[str, object] = {
        "games": len(games),
        "won": results.count("W"),
        "lost": results.count("L"),
        **({"drawn": results.count("D")} if league == "soccer" else {}),
        "total goals" if league == "soccer" else "total points": sum(map(_number, lines)),
    }
    names = list(lines[0])
    shown = table(
        [_goals(name, league) for name in names], [[line[name] for name in names] for line in lines]
    )
    days = f"{lines[-1]['date']} to {lines[0]['date']}" if len(lines) > 1 else str(lines[0]["date"])
    key = f"sports/{league}/{slug(team)}/{days.replace(' ', '-')}-{len(games)}"
    return Fact(key, f"{team}: games, {days}", f"{format_list(summary)}\n\n{shown}", score)


def _number(line: dict[str, object]) -> int:
    """Returns the points of a game as a whole number; 0 when they are not known."""
    points = line["points"]
    text = str(points).removesuffix(".0")
    return int(text) if len(text) < 10 and text.isascii() and text.isdecimal() else 0


def _goals(name: str, league: str) -> str:
    return name.replace("points", "goals") if league == "soccer" else name
