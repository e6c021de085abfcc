"""The api source turns a name, the question around it and its time into the calls that answer it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from typing import Any
from unittest.mock import AsyncMock, Mock

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragc.corpora.sources.base import current_question
from ragc.corpora.sources.crag_api import (
    NBA,
    SOCCER,
    ApiSource,
    match,
    read_question,
    teams_in,
)
from ragc.errors import SourceError, UsageError
from ragc.records import Hit, Question
from tests.support.server import Answer, Visit, serving

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

BEST_PICTURE = {
    "year_ceremony": 1998,
    "category": "BEST PICTURE",
    "name": "Cameron",
    "film": "Titanic",
    "winner": True,
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
            "oscar_awards": [BEST_PICTURE],
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
            BEST_PICTURE,
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
        body, names = json.loads(request.content), ("team_name", "song_name", "query", "date", "attribute")
        key = request.url.path, " ".join(str(body[name]) for name in names if name in body)
        self.calls.append(key[0])
        return httpx.Response(200, json={"result": self.replies.get(key)})


def search(
    name: str, text: str, *, api: Any = None, k: int = 10, time: str = TIME, domain: str = "", **options: Any
) -> tuple[Hit, ...]:
    source = ApiSource(
        "http://api.test", transport=httpx.MockTransport(api or Api()), **{"tries": 1, **options}
    )
    question = Question("q", text, (), query_time=time, extra={"domain": domain} if domain else {})
    token = current_question.set(question if text else None)
    try:
        return asyncio.run(source.search(name, k))
    finally:
        current_question.reset(token)


BIOGRAPHY = '- country: GB\n- born or founded, died or dissolved: ["1988-05-05", null]'
FOUND: list[tuple[str, str, dict[str, str]]] = [
    (
        "apple",
        "what was apple's closing price yesterday?",
        {
            "AAPL: stock prices by day": '- 2024-03-04 00:00:00 EST: {"Open": 1.0, "High": 2.0, "Low": 0.5, '
            '"Close": 104, "Volume": 1000}',
            "AAPL: company": "- longName: Apple Inc.\n- sector: Technology",
        },
    ),
    (
        "apple",
        "apple share price at 3:30 pm yesterday",
        {
            "AAPL: stock prices by day": "- 2024-03-04",
            "AAPL: stock prices by minute": "- 2024-03-04 15:30",
            "AAPL: company": "",
        },
    ),
    (
        "apple",
        "apple's eps, market cap and dividends in 2023",
        {
            "AAPL: dividends": "- 2023-11-10 00:00:00 EST: 0.24",
            "AAPL: key figures": "- market capitalization: 2600000000000.0\n- earnings per share: 7.12",
            "AAPL: company": "",
        },
    ),
    *(
        (name, "which company have larger market cap, plya or seatw?", {"PLYA: key figures": ": 1234.5"})
        for name in ("plya", "PLYA", "$plya")
    ),
    (
        "adele",
        "which songs of the singer adele won a grammy?",
        {
            "Adele: Grammy awards": "- Grammy awards, 1958 to 2019: 15\n- years: [2012, 2009]",
            "Adele: works": '["Hello (2015-10-23)", "Chasing Pavements (2008-01-13)", "Skyfall (undated)"]',
            "Adele: biography": BIOGRAPHY,
        },
    ),
    (
        "hello",
        "where was the song hello on the billboard chart of 2015-11-14?",
        {
            "Hello: Billboard Hot 100": "- rank 2015-11-14: 1",
            "Hello: song": "- author: Adele\n- release date: 2015-10-23",
        },
    ),
    (
        "titanic",
        "who directed the movie titanic?",
        {"Titanic: movie": '- directors: ["James Cameron"]\n'},
    ),
    (
        "james cameron",
        "which films has james cameron directed?",
        {"James Cameron: movies": '"title": "Titanic"', "James Cameron: person": "- birthday: 1954-08-16"},
    ),
    (
        "titanic",
        "which movies won oscars in 1998, titanic?",
        {"Oscars of years": "- Oscars 1998 BEST PICTURE: Cameron", "Titanic: movie": ""},
    ),
    (
        "lakers",
        "did the lakers win their nba game yesterday?",
        {
            "Los Angeles Lakers: games": '- 2024-03-04T00:00:00.000: {"team_name_home": '
            '"Los Angeles Lakers", "pts_home": 110.0, "wl_home": "W", "team_name_away": "Utah Jazz", '
            '"pts_away": 99.0}'
        },
    ),
    (
        "everton",
        "how is everton doing in the premier league?",  # no date: the games of the year
        {"Everton: games": '- 2024-03-02T00:00:00.000: {"venue": "Home", "opponent": "West Ham"'},
    ),
    ("florida", "tell me about florida", {"Florida": "- summary_text: A state."}),
    (
        "Which artist won best new artist at the Grammys in 2009?",
        "Which artist won best new artist at the Grammys in 2009?",
        {"Grammy awards of years": '- best new artist 2009: ["Adele"]'},
    ),
    ("adele", "", {"Adele: biography": BIOGRAPHY}),
]
"""A name, the question around it, and the passages that it leads to, in order, with a part of each text."""


@pytest.mark.parametrize(("name", "question", "expected"), FOUND)
def test_api_finds_the_facts_that_a_question_asks_for(
    name: str, question: str, expected: dict[str, str]
) -> None:
    found = {hit.passage.title: hit.passage.text for hit in search(name, question)}
    assert list(found) == list(expected)
    assert [title for title, part in expected.items() if part not in found[title]] == []


@pytest.mark.parametrize(
    ("question", "days"),
    [
        (
            "apple's stock price on sunday",
            ["2024-02-28", "2024-02-29", "2024-03-01", "2024-03-04", "2024-03-05"],
        ),
        (
            "how did apple stock trade over the past 5 days?",
            ["2024-02-29", "2024-03-01", "2024-03-04", "2024-03-05"],
        ),
    ],
)
def test_api_shows_the_days_of_a_range_and_the_latest_prices_where_a_day_had_none(
    question: str, days: list[str]
) -> None:
    (price, _) = search("apple", question)
    assert [line[2:12] for line in price.passage.text.splitlines()] == days


def test_api_searches_other_domains_only_where_those_with_words_gave_nothing() -> None:
    api = Api()
    assert search("florida", "which company is from florida?", api=api)[0].passage.title == "Florida"
    assert api.calls[0] == "/finance/get_company_name"
    assert search("florida", "which company is from florida?", domain="music") == ()  # named, so only there
    api = Api()
    search("apple", "what was apple's closing price yesterday?", api=api)
    assert {path.split("/")[1] for path in api.calls} == {"finance"}


def test_api_returns_at_most_k_best_first_and_the_same_again() -> None:
    text = "which songs of the singer adele won a grammy in 2009?"
    hits = search("adele", text)
    assert list(hits) == sorted(hits, key=lambda hit: (-hit.score, hit.passage.id))
    assert search("adele", text, k=2) == hits[:2]
    assert search("adele", text, k=0) == search("  ", text) == ()
    assert search("nobody at all", "who is nobody at all?") == search("\ud800 ?!", "who is \ud800?") == ()


DEEP: list[Any] = []
for _ in range(900):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    "junk", [None, 5, "text", [], {}, [None, 5, {}], {"a": None, "b": {"c": 1}}, [[], []], True, DEEP]
)
@pytest.mark.parametrize("domain", ["finance", "music", "movie", "sports", "open"])
def test_api_takes_results_of_another_shape_for_nothing(junk: Any, domain: str) -> None:
    replies = {
        key: reply if "search" in key[0] or "name" in key[0] else junk for key, reply in REPLIES.items()
    }
    text = "price eps dividend songs first grammy oscar acted game chart in 2009 on 2024-03-04 at 9:30"
    for table in (replies, dict.fromkeys(REPLIES, junk)):
        for name in ("apple", "adele", "hello", "titanic", "james cameron", "lakers", "everton", "florida"):
            for hit in search(name, text, api=Api(table), domain=domain):
                assert hit.passage.text


def failure(*replies: httpx.Response | Exception, **options: Any) -> tuple[str, list[float]]:
    """The error of a search whose calls get these replies in order, and the waits between its calls."""
    sleep = AsyncMock()
    api = Mock(side_effect=[*replies, *[httpx.Response(200, json={"result": None})] * 9])
    message = ""
    try:
        search("florida", "florida?", api=api, domain="open", sleep=sleep, **options)
    except SourceError as error:
        message = str(error)
    assert api.call_count == sleep.await_count + 1
    return message, [call.args[0] for call in sleep.await_args_list]


@pytest.mark.parametrize(
    "reply",
    [httpx.Response(500), httpx.Response(429), httpx.ConnectError("refused"), httpx.ReadTimeout("slow")],
    ids=str,
)
def test_api_tries_again_what_may_pass_and_says_when_it_gives_up(
    reply: httpx.Response | Exception,
) -> None:
    message, waits = failure(reply, reply, tries=3)
    assert (message, len(waits)) == ("", 2)
    message, _ = failure(reply, reply, tries=2)
    assert message.startswith("http://api.test/open/search_entity_by_name ")
    assert message.endswith(" (tried 2 times); see that the API is up.")


def test_api_waits_as_the_server_asks_and_not_for_ever() -> None:
    assert 3 <= failure(httpx.Response(429, headers={"retry-after": "3"}), tries=2)[1][0] <= 3.5
    message, waits = failure(httpx.Response(429, headers={"retry-after": "9999"}), tries=9)
    assert ("status 429" in message, waits) == (True, [])


@pytest.mark.parametrize(
    "reply",
    [
        httpx.Response(404),
        httpx.Response(302, headers={"location": "http://elsewhere.test/"}),
        httpx.Response(200, text="<html>"),
        httpx.Response(200, content=b"\xff\xfe"),
        httpx.Response(200, text="[" * 100_000),
        httpx.Response(200, text='{"result": ' + "1" * 5000 + "}"),
        httpx.Response(200, json=[1]),
        httpx.Response(200, json={"error": "x"}),
    ],
    ids=str,
)
def test_api_fails_at_once_for_what_is_no_reply_of_the_api(reply: httpx.Response) -> None:
    message, waits = failure(reply)
    assert "no JSON with `result`; see that base_url is that of a CRAG mock API." in message
    assert waits == []


def test_api_reads_nan_as_unknown() -> None:
    assert failure(httpx.Response(200, text='{"result": ["Florida", NaN]}'))[0] == ""


def test_api_sends_credentials_and_never_shows_them() -> None:
    api = Mock(return_value=httpx.Response(404))
    source = ApiSource("http://me:hunter2@api.test/?key=hunter3", transport=httpx.MockTransport(api))
    with pytest.raises(SourceError) as caught:
        asyncio.run(source.search("florida", 3))
    assert "hunter" not in str(caught.value) + repr(source)
    (sent,) = api.call_args.args
    assert sent.headers["authorization"].startswith("Basic ")
    assert sent.url.params["key"] == "hunter3"
    assert source.fingerprint == ApiSource("http://api.test").fingerprint
    assert source.fingerprint != ApiSource("http://api.test/v2").fingerprint


def test_api_source_is_shared_and_serves_several_event_loops_at_once() -> None:
    def page(visit: Visit) -> Answer:
        found = {"/open/search_entity_by_name": ["Florida"], "/open/get_entity": {"summary_text": "A state."}}
        return Answer(json.dumps({"result": found.get(visit.path)}).encode())

    async def search(_: int) -> list[tuple[Hit, ...]]:
        return await asyncio.gather(*(source.search("florida", 3) for _ in range(4)))

    with serving() as server, ThreadPoolExecutor(3) as threads:
        server.pages[""] = page
        source = ApiSource(server.base, concurrency=2)
        found = [
            hits for several in threads.map(lambda n: asyncio.run(search(n)), range(3)) for hits in several
        ]
    assert [hit.passage.text for hits in found for hit in hits] == ["- summary_text: A state."] * 12


@pytest.mark.parametrize(
    "url", ["", "api.test", "ftp://api.test", "http://", "http://\x00", "file:///etc/passwd"]
)
def test_api_refuses_what_is_no_address(url: str) -> None:
    with pytest.raises(UsageError, match="base_url"):
        ApiSource(url)


def test_api_names_its_extra_before_the_first_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dateparser", None)
    with pytest.raises(UsageError, match=r"pip install .ragc\[api\]."):
        ApiSource("http://api.test")


@pytest.mark.parametrize(
    ("name", "candidates", "kind", "expected"),
    [
        ("apple", ["Apple Hospitality REIT, Inc.", "Apple Inc. Common Stock", "Maple Corp"], "company", 1),
        ("ford", ["Forward Industries, Inc.", "Ford Motor Company Common Stock"], "company", 1),
        ("motor", ["Ford Motor Company"], "company", None),
        ("microsft", ["Microsoft Corporation", "MicroStrategy"], "company", 0),
        ("beyonce", ["Fiancé", "Beyoncé"], "artist", 1),
        ("The Beatles", ["Beetles", "Beatles"], "artist", 1),
        ("lord of the rings", ["Ring", "The Lord of the Rings: The Two Towers"], "movie", 1),
        ("gaga lady", ["Lady Gaga"], "artist", 0),
        ("thriller", ["Thriller", "Thriller"], "song", 0),
        ("jackson", ["Michael Jackson", "Jackson Browne"], "artist", None),
        ("apple", [], "company", None),
        ("?!", ["Apple", "!?"], "company", None),
    ],
)
def test_match_returns_the_best_of_the_candidates(
    name: str, candidates: list[str], kind: str, expected: int | None
) -> None:
    best = match(name, candidates, kind)
    assert (best and best[0]) == expected


@pytest.mark.parametrize(
    ("text", "teams", "named"),
    [
        ("did the lakers beat the celtics?", NBA, ("Los Angeles Lakers", "Boston Celtics")),
        ("okc and the Golden State Warrior", NBA, ("Oklahoma City Thunder", "Golden State Warriors")),
        ("who was last in los angeles", NBA, ()),
        ("man utd and Manchester United FC", SOCCER, ("Manchester Utd",)),
        ("PSG", SOCCER, ("Paris S-G",)),
    ],
)
def test_teams_are_named_by_their_short_forms(
    text: str, teams: dict[str, str], named: tuple[str, ...]
) -> None:
    assert teams_in(text, teams) == named


RELATIVE: list[tuple[str, list[tuple[str, ...]]]] = [
    ("the closing price yesterday", [("2024-03-04",) * 2]),
    ("last friday", [("2024-03-01",) * 2]),
    ("on wednesday", [("2024-02-28",) * 2]),
    ("next tuesday", [("2024-03-12",) * 2]),
    ("last week", [("2024-02-26", "2024-03-03")]),
    ("last month", [("2024-02",) * 2]),
    ("last year's best picture", [("2023",) * 2]),
    ("3 months ago", [("2023-12",) * 2]),
    ("over the past 3 days", [("2024-03-02", "2024-03-05")]),
    ("in december", [("2023-12",) * 2]),
    ("feb 29", [("2024-02-29",) * 2]),
    ("at 3:30 p.m. on monday", [("2024-03-04 15:30",) * 2]),
]
DATED: list[tuple[str, list[tuple[str, ...]]]] = [
    ("on 2019-02-03", [("2019-02-03",) * 2]),
    ("on 2/3/2019", [("2019-02-03",) * 2]),
    ("on March 3rd, 2019", [("2019-03-03",) * 2]),
    ("in nov. 2019", [("2019-11",) * 2]),
    ("the 2019 season", [("2019",) * 2]),
    ("between 2010 and 2012", [("2010", "2012")]),
    ("who may be the second president of sun studios", []),
    ("9999 years ago", []),
    ("", []),
]


@pytest.mark.parametrize(
    ("text", "times", "spans"),
    [
        *((text, (TIME, "2024-03-05T23:18:31Z"), spans) for text, spans in RELATIVE),
        *((text, ("",), []) for text, _ in RELATIVE),  # nothing to count from
        *((text, (TIME, "", "yesterday", "13/45/2024"), spans) for text, spans in DATED),
    ],
)
def test_dates_are_relative_to_the_time_of_the_question_unless_they_have_a_year(
    text: str, times: tuple[str, ...], spans: list[tuple[str, ...]]
) -> None:
    assert [list(read_question("", text, time).spans) for time in times] == [spans] * len(times)


JUMBLE = "last next this 2 31 feb may monday year weeks ago 1999 0000-00-00 2/30/2024 in past days 9:30 pm"


@given(st.lists(st.sampled_from(JUMBLE.split(" ")), max_size=6), st.dates(date(1900, 1, 1), date(2100, 1, 1)))
def test_any_jumble_of_date_words_is_read(words: list[str], today: date) -> None:
    assert all(a <= b for a, b in read_question("", " ".join(words), today.isoformat()).spans)
