"""The api source turns a name, the question around it and its time into the calls that answer it."""

from __future__ import annotations

import asyncio
import copy
import json
import sys
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from ragc.corpora.sources.base import current_question
from ragc.corpora.sources.crag_api.facts import ASKED, MAX_TABLE_ROWS
from ragc.corpora.sources.crag_api.source import ApiSource
from ragc.errors import SourceError, UsageError
from ragc.records import Hit, Question

pytest.importorskip("rapidfuzz")

TIME = "03/05/2024, 23:18:31 PT"  # a Tuesday


def bar(close: float) -> dict[str, float]:
    return {"Open": 1.0, "High": 2.0, "Low": 0.5, "Close": close, "Volume": 1000}


def columns(*rows: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Rows as pandas writes them to JSON: by column, then by row."""
    return {name: {str(n): row.get(name) for n, row in enumerate(rows)} for name in rows[0]}


LAKERS = columns(
    {
        "game_id": "1",
        "game_date": "2024-03-04T00:00:00.000",
        "team_name_home": "Los Angeles Lakers",
        "team_name_away": "Utah Jazz",
        "wl_home": "W",
        "wl_away": "L",
        "pts_home": 110.0,
        "pts_away": 99.0,
    },
    {
        "game_id": "2",
        "game_date": "2024-02-27T00:00:00.000",
        "team_name_home": "Miami Heat",
        "team_name_away": "Los Angeles Lakers",
        "wl_home": "W",
        "wl_away": "L",
        "pts_home": 101.0,
        "pts_away": 100.0,
    },
)
EVERTON = {
    name: {"('ENG-Premier League', '2324', 'Everton', 'x')": value}
    for name, value in {
        "date": "2024-03-02T00:00:00.000",
        "opponent": "West Ham",
        "result": "L 1-3",
        "GF": "1",
        "GA": "3",
        "venue": "Home",
    }.items()
}

REPLIES: dict[tuple[str, str], Any] = {
    ("/finance/get_company_name", "apple"): ["Apple Hospitality REIT, Inc.", "Apple Inc. Common Stock"],
    ("/finance/get_ticker_by_name", "Apple Inc. Common Stock"): "AAPL",
    ("/finance/get_info", "AAPL"): {"longName": "Apple Inc.", "sector": "Technology", "maxAge": 1},
    ("/finance/get_price_history", "AAPL"): {
        f"2024-03-{day:02} 00:00:00 EST": bar(100 + day) for day in (6, 5, 4, 1)
    }
    | {f"2024-02-{day:02} 00:00:00 EST": bar(day) for day in range(1, 30)},
    ("/finance/get_detailed_price_history", "AAPL"): {
        "2024-03-04 09:30:00 EST": bar(7),
        "2024-03-04 15:30:00 EST": bar(8),
    },
    ("/finance/get_dividends_history", "AAPL"): {
        "2023-11-10 00:00:00 EST": 0.24,
        "2024-02-09 00:00:00 EST": 0.25,
    },
    ("/finance/get_market_capitalization", "AAPL"): 2.6e12,
    ("/finance/get_eps", "AAPL"): 7.12,
    ("/finance/get_market_capitalization", "PLYA"): 1234.5,
    ("/music/search_artist_entity_by_name", "adele"): ["Adele", "Adelitas Way"],
    ("/music/get_artist_birth_place", "Adele"): "GB",
    ("/music/get_lifespan", "Adele"): ["1988-05-05", None],
    ("/music/get_members", "Adele"): [],
    ("/music/grammy_get_award_count_by_artist", "Adele"): 15,
    ("/music/grammy_get_award_date_by_artist", "Adele"): [2012, 2009],
    ("/music/get_artist_all_works", "Adele"): ["Hello", "Chasing Pavements", "Skyfall"],
    ("/music/get_song_release_date", "Hello"): "2015-10-23",
    ("/music/get_song_release_date", "Chasing Pavements"): "2008-01-13",
    ("/music/search_song_entity_by_name", "hello"): ["Hello", "Hello, Goodbye"],
    ("/music/get_song_author", "Hello"): "Adele",
    ("/music/get_billboard_attributes", "Hello 2015-11-14 rank"): "1",
    ("/music/grammy_get_best_artist_by_year", "2009"): ["Adele"],
    ("/movie/get_movie_info", "titanic"): [
        {
            "title": "Titanic",
            "id": 597,
            "release_date": "1997-12-19",
            "budget": 200_000_000,
            "original_language": "en",
            "genres": [{"id": 1, "name": "Drama"}],
            "crew": [{"name": "James Cameron", "job": "Director"}, "?"],
            "cast": [
                {"name": "Kate Winslet", "character": "Rose", "order": 1},
                {"name": "Leonardo DiCaprio", "character": "Jack", "order": 0},
            ],
            "oscar_awards": [
                {
                    "year_ceremony": 1998,
                    "category": "BEST PICTURE",
                    "name": "Cameron",
                    "film": "Titanic",
                    "winner": True,
                }
            ],
        }
    ],
    ("/movie/get_person_info", "james cameron"): [
        {
            "name": "James Cameron",
            "id": 2710,
            "birthday": "1954-08-16",
            "acted_movies": [],
            "directed_movies": [597, 1],
        }
    ],
    ("/movie/get_movie_info_by_id", "597"): {"title": "Titanic", "release_date": "1997-12-19"},
    ("/movie/get_year_info", "1998"): {
        "movie_list": [597],
        "oscar_awards": [
            {
                "year_ceremony": 1998,
                "category": "BEST PICTURE",
                "name": "Cameron",
                "film": "Titanic",
                "winner": True,
            },
            {"category": "BEST ACTRESS", "name": "Kate Winslet", "winner": False},
        ],
    },
    ("/sports/nba/get_games_on_date", "Los Angeles Lakers 2024-03-04"): LAKERS,
    ("/sports/nba/get_games_on_date", "Los Angeles Lakers 2024"): LAKERS,
    ("/sports/soccer/get_games_on_date", "Everton 2024"): EVERTON,
    ("/sports/soccer/get_games_on_date", " 2024-03-02"): EVERTON,
    ("/open/search_entity_by_name", "florida"): ["Florida", "Florida City, Florida"],
    ("/open/get_entity", "Florida"): {
        "summary_text": "A state.",
        "summary_structured": {"Capital": "Tallahassee"},
    },
}


class Api:
    """Replies from `replies` by path and values of the body, null for what is not there; keeps the calls."""

    def __init__(self, replies: Mapping[tuple[str, str], Any] = REPLIES) -> None:
        self.replies, self.calls = replies, list[str]()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        if "date" in body and "attribute" not in body:
            body = {"team": body.get("team_name", ""), "date": body["date"]}
        elif "attribute" in body:
            body = {"song": body["song_name"], "date": body["date"], "attribute": body["attribute"]}
        key = request.url.path, " ".join(map(str, body.values()))
        self.calls.append(key[0])
        return httpx.Response(200, json={"result": self.replies.get(key)})


def search(
    name: str, text: str, *, api: Any = None, k: int = 10, time: str = TIME, domain: str = ""
) -> tuple[Hit, ...]:
    source = ApiSource("http://api.test", tries=1, transport=httpx.MockTransport(api or Api()))
    question = Question("q", text, (), query_time=time, extra={"domain": domain} if domain else {})
    token = current_question.set(question if text else None)
    try:
        return asyncio.run(source.search(name, k))
    finally:
        current_question.reset(token)


def texts(hits: tuple[Hit, ...]) -> dict[str, str]:
    return {hit.passage.title: hit.passage.text for hit in hits}


BIOGRAPHY = "- country: GB\n- born or founded: 1988-05-05\n- died or dissolved: Unknown"
FOUND: list[tuple[str, str, dict[str, str]]] = [
    (
        "apple",
        "what was apple's closing price yesterday?",
        {
            "AAPL: stock prices by day": "|---|\n| 2024-03-04 | 1 | 2 | 0.5 | 104 | 1,000 |",
            "AAPL: company": "- name: Apple Inc.\n- sector: Technology",
        },
    ),
    (
        "apple",
        "apple share price at 3:30 pm yesterday",
        {"AAPL: stock prices by minute": "|---|\n| 2024-03-04 15:30", "AAPL: company": ""},
    ),
    (
        "apple",
        "apple's eps, market cap and dividends of stock in 2023",
        {
            "AAPL: dividends": "|---|\n| 2023-11-10 | 0.24 |",
            "AAPL: key figures": "- market capitalization: 2,600,000,000,000\n- earnings per share: 7.12",
            "AAPL: stock prices by day": "",
            "AAPL: company": "",
        },
    ),
    *(
        (name, "which company have larger market cap, plya or seatw?", {"PLYA: key figures": "1,234.5"})
        for name in ("plya", "PLYA", "$plya")
    ),
    (
        "adele",
        "which songs of the singer adele won a grammy?",
        {
            "Adele: Grammy awards": "- Grammy awards, 1958 to 2019: 15\n- years: 2009, 2012",
            "Adele: works": "- works: Hello, Chasing Pavements, Skyfall",
            "Adele: biography": BIOGRAPHY,
        },
    ),
    (
        "adele",
        "what was the first song by adele?",
        {
            "Adele: works by release date": "| 2008-01-13 | Chasing Pavements |\n| 2015-10-23 | Hello |\n",
            "Adele: biography": "",
        },
    ),
    (
        "adele",
        "which songs did adele release in 2015?",
        {"Adele: works by release date": "|---|\n| 2015-10-23 | Hello |", "Adele: biography": ""},
    ),
    (
        "hello",
        "where was the song hello on the billboard chart of 2015-11-14?",
        {
            "Hello: Billboard Hot 100 of 2015-11-14": "- rank: 1\n- weeks in chart: Unknown",
            "Hello: song": "- author: Adele\n- release date: 2015-10-23\n- release country: Unknown",
        },
    ),
    (
        "adele",
        "did the singer adele win a grammy in 2009 or 2023?",
        {
            "Adele: Grammy awards": "",
            "Adele: biography": "",
            "Grammy awards of 2009": "- best new artist: Adele",
        },
    ),
    ("titanic", "who directed the movie titanic?", {"Titanic: movie": "- directors: James Cameron\n"}),
    (
        "titanic",
        "the movie titanic?",
        {"Titanic: movie": "- budget in USD: 200,000,000\n- revenue in USD: Unknown\n"},
    ),
    (
        "titanic",
        "the movie titanic?",
        {"Titanic: movie": "- cast: Leonardo DiCaprio as Jack, Kate Winslet as Rose\n"},
    ),
    (
        "titanic",
        "the movie titanic?",
        {"Titanic: movie": "- Oscars: 1998 BEST PICTURE: Cameron, Titanic, won"},
    ),
    (
        "james cameron",
        "which films has james cameron directed?",
        {"James Cameron: person": "- directed: Titanic (1997)"},  # movie 1 has no entry
    ),
    (
        "james cameron",
        "when was the movie director james cameron's birthday?",
        {"James Cameron: person": "- birthday: 1954-08-16\n"},
    ),
    (
        "titanic",
        "which movies won oscars in 1998, titanic?",
        {"Titanic: movie": "", "Oscar winners of 1998": "- 1998 BEST PICTURE: Cameron, Titanic, won"},
    ),
    (
        "lakers",
        "did the lakers win their nba game yesterday?",
        {"Los Angeles Lakers: games, 2024-03-04": "- games: 1\n- won: 1\n- lost: 0\n- total points: 110\n\n"},
    ),
    (
        "lakers",
        "did the lakers win their nba game yesterday?",
        {"Los Angeles Lakers: games, 2024-03-04": "| 2024-03-04 | home | Utah Jazz | W | 110 | 99 |"},
    ),
    (
        "lakers",
        "how many nba games have the lakers won?",
        {"Los Angeles Lakers: games, 2024-02-27 to 2024-03-04": "- games: 2\n- won: 1\n- lost: 1\n"},
    ),
    (
        "everton",
        "how is everton doing in the premier league?",
        {"Everton: games, 2024-03-02": "| 2024-03-02 | Unknown | Home | West Ham | L 1-3 | 1 | 3 |"},
    ),
    (
        "evertonn",
        "did evertonn win its soccer match on saturday?",
        {"Everton: games, 2024-03-02": ""},
    ),
    ("florida", "tell me about florida", {"Florida": "A state.\n\n- Capital: Tallahassee"}),
    (
        "Which artist won best new artist at the Grammys in 2009?",
        "Which artist won best new artist at the Grammys in 2009?",
        {"Grammy awards of 2009": ""},
    ),
    (
        "Which film won best picture at the Oscars in 1998?",
        "Which film won best picture at the Oscars in 1998?",
        {"Oscar winners of 1998": ""},
    ),
    ("adele", "", {"Adele: biography": BIOGRAPHY}),
]
"""A name, the question around it, and the passages that it leads to, in order, with a part of each text."""


@pytest.mark.parametrize(("name", "question", "expected"), FOUND)
def test_a_name_and_a_question_lead_to_facts(name: str, question: str, expected: dict[str, str]) -> None:
    found = texts(search(name, question))
    assert list(found) == list(expected)
    assert [title for title, part in expected.items() if part not in found[title]] == []


def test_what_was_asked_for_scores_more_and_other_domains_are_left_alone() -> None:
    api = Api()
    hits = search("apple", "what was apple's closing price yesterday?", api=api)
    assert [hit.score for hit in hits] == [100 + ASKED, 100]
    assert not any(path.startswith(("/music", "/movie", "/sports", "/open")) for path in api.calls)
    search("adele", "did the singer adele win a grammy in 2009 or 2023?", api=api)
    assert api.calls.count("/music/grammy_get_best_artist_by_year") == 1  # of the years that the API knows
    assert search("everton", "did everton win its soccer match?", time="") == ()  # no date to ask for
    assert search("florida", "florida?", domain="open")[0].passage.id == "api/open/florida"


def test_prices_of_a_day_without_trade_are_the_latest_before_the_question() -> None:
    (price, _) = search("apple", "apple's stock price on sunday")
    assert [line[2:12] for line in price.passage.text.splitlines()[2:]] == [
        "2024-02-27", "2024-02-28", "2024-02-29", "2024-03-01", "2024-03-04", "2024-03-05"
    ][-5:]  # fmt: skip


def test_many_days_are_cut_with_a_count() -> None:
    (price, _) = search("apple", "how did apple stock trade last month?")
    assert price.passage.text.count("| 2024-02-") == MAX_TABLE_ROWS
    assert price.passage.text.endswith(f"{29 - MAX_TABLE_ROWS} more rows are left out.")


def test_a_sports_question_without_a_name_has_the_games_of_the_teams_it_holds() -> None:
    team_names: list[Any] = []

    class Listening(Api):
        def __call__(self, request: httpx.Request) -> httpx.Response:
            team_names.append(json.loads(request.content).get("team_name"))
            return super().__call__(request)

    text = "did the lakers beat the celtics or the heat in their nba game yesterday?"
    (hit,) = search(text, text, api=Listening(), domain="sports")
    assert hit.passage.title == "Los Angeles Lakers: games, 2024-03-04"
    assert team_names == ["Los Angeles Lakers", "Boston Celtics"]
    team_names.clear()
    text = "did psg or anybody else win a soccer match yesterday?"
    assert search(text, text, api=Listening(), domain="sports") == ()
    assert set(team_names) == {"Paris S-G", None}  # by its name, then all games of the day
    team_names.clear()
    text = "who was the player with most goals in a soccer match yesterday?"
    assert search(text, text, api=Listening(), domain="sports") == ()
    assert team_names == []


def test_domains_without_words_are_tried_after_those_with_words() -> None:
    api = Api()
    assert search("florida", "which company is from florida?", api=api)[0].passage.title == "Florida"
    assert api.calls[0] == "/finance/get_company_name"
    assert search("florida", "which company is from florida?", domain="music") == ()  # said, so only there


def test_at_most_k_best_first_and_the_same_again() -> None:
    text = "which songs of the singer adele won a grammy in 2009?"
    hits = search("adele", text)
    assert list(hits) == sorted(hits, key=lambda hit: (-hit.score, hit.passage.id))
    assert search("adele", text, k=2) == hits[:2]
    assert search("adele", text, k=0) == search("  ", text) == ()


def test_unknown_names_give_nothing() -> None:
    assert search("nobody at all", "who is nobody at all?") == ()
    assert search("\ud800 ?!", "who is \ud800?") == ()


@pytest.mark.parametrize(
    "junk", [None, 5, "text", [], {}, [None, 5, {}], {"a": None, "b": {"c": 1}}, [[], []], True]
)
@pytest.mark.parametrize("domain", ["finance", "music", "movie", "sports", "open"])
def test_results_of_another_shape_are_nothing_found(junk: Any, domain: str) -> None:
    replies = {
        key: reply if "search" in key[0] or "name" in key[0] else junk for key, reply in REPLIES.items()
    }
    text = "price eps dividend songs first grammy oscar acted game chart in 2009 on 2024-03-04 at 9:30"
    for table in (replies, dict.fromkeys(REPLIES, junk)):
        for name in ("apple", "adele", "hello", "titanic", "james cameron", "lakers", "everton", "florida"):
            for hit in search(name, text, api=Api(table), domain=domain):
                assert hit.passage.text
                assert hit.passage.title


def test_a_failing_call_fails_the_search_with_one_sentence() -> None:
    def api(request: httpx.Request) -> httpx.Response:
        return httpx.Response(
            500 if request.url.path.endswith("price_history") else 200, json={"result": None}
        )

    with pytest.raises(
        SourceError, match=r"^http://api\.test/finance/get_price_history answers with status 500; .*\.$"
    ):
        search("AAPL", "price of AAPL stock", api=api)


def test_a_source_is_shared_and_its_fingerprint_says_what_answers() -> None:
    source = ApiSource("http://me:pw@api.test/")
    assert copy.deepcopy(source) is source.rechunk(100, 0.0) is source
    assert source.fingerprint == ApiSource("http://api.test").fingerprint
    assert source.fingerprint != ApiSource("http://api.test/v2").fingerprint
    assert "pw" not in repr(source)
    assert source.sample(3, seed="s") == ()
    with pytest.raises(UsageError, match="base_url"):
        ApiSource("api.test")


def test_what_is_not_installed_is_said_before_the_first_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rapidfuzz", None)
    with pytest.raises(UsageError, match=r"pip install .ragc\[api\]."):
        ApiSource("http://api.test")
