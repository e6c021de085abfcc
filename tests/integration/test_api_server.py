"""The api source against a FastAPI server on loopback that takes requests as the CRAG mock API does.

The data are made up; paths, request bodies and the forms of replies are those of the public mock API.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

from ragc.corpora.sources.base import current_question
from ragc.corpora.sources.crag_api.source import ApiSource
from ragc.errors import SourceError
from ragc.records import Hit, Question

pytest.importorskip("rapidfuzz")
fastapi = pytest.importorskip("fastapi")
uvicorn = pytest.importorskip("uvicorn")
pydantic = pytest.importorskip("pydantic")
pytestmark = pytest.mark.integration

T = TypeVar("T")
TIME = "03/05/2024, 23:18:31 PT"

COMPANIES = {"Zephyr Kites, Inc. Common Stock": "ZKT", "Zephyr Kite Finance Corp": "ZKF"}
PRICES = {
    "ZKT": {
        f"2024-03-{day:02} 00:00:00 EST": {
            "Open": 10.0 + day, "High": 12.0 + day, "Low": 9.0 + day, "Close": 11.0 + day,
            "Volume": 1000 * day,
        }
        for day in (1, 4, 5)
    }
}  # fmt: skip
SONGS = {"Paper Moon Motel": {"author": "The Lanterns", "date": "2011-06-01", "country": "NZ"}}
GAME = {
    "game_id": "0001", "game_date": "2024-03-04T00:00:00.000", "team_name_home": "Chicago Bulls",
    "team_name_away": "Utah Jazz", "wl_home": "L", "wl_away": "W", "pts_home": 90.0, "pts_away": 95.0,
}  # fmt: skip
FILM = {
    "title": "The Glass Orchard", "id": 7, "release_date": "1999-09-09", "budget": 0, "revenue": 1_500_000,
    "crew": [{"name": "Ines Moreau", "job": "Director"}], "cast": [], "genres": [], "original_language": "fr",
}  # fmt: skip


def text(name: str) -> Any:
    """A body with one string, which FastAPI refuses with 422 when it is missing or of another type."""
    return pydantic.create_model(name, query=(str, ...))


Text = text("Text")
Number = pydantic.create_model("Number", query=(int, ...))
Team = pydantic.create_model("Team", date=(str, ...), team_name=(str | None, None))


class Troubles:
    """How many of the next calls of each path fail with which status; and every call made."""

    def __init__(self) -> None:
        self.fail: dict[str, list[int]] = {}
        self.calls: list[str] = []
        self.flying = self.peak = 0


def application(troubles: Troubles) -> Any:
    app = fastapi.FastAPI()

    async def trouble(request: Any, call_next: Any) -> Any:
        troubles.calls.append(request.url.path)
        troubles.flying += 1
        troubles.peak = max(troubles.peak, troubles.flying)
        try:
            await asyncio.sleep(0.01)
            if left := troubles.fail.get(request.url.path):
                return fastapi.Response("<h1>no</h1>", status_code=left.pop(0))
            return await call_next(request)
        finally:
            troubles.flying -= 1

    app.middleware("http")(trouble)

    def serve(path: str, model: Any, reply: Any) -> None:
        async def endpoint(body: Any) -> dict[str, Any]:
            return {"result": reply(body)}

        endpoint.__annotations__["body"] = model
        app.post(path)(endpoint)

    def words(query: str, names: Any) -> list[str]:
        return [name for name in names if set(query.lower().split()) & set(name.lower().split())]

    serve("/finance/get_company_name", Text, lambda body: words(body.query, COMPANIES))
    serve("/finance/get_ticker_by_name", Text, lambda body: COMPANIES.get(body.query))
    serve("/finance/get_price_history", Text, lambda body: PRICES.get(body.query))
    serve(
        "/finance/get_info", Text, lambda body: {"longName": "Zephyr Kites"} if body.query == "ZKT" else None
    )
    serve("/finance/get_eps", Text, lambda body: 1.5 if body.query == "ZKT" else None)
    serve("/music/search_artist_entity_by_name", Text, lambda body: [])
    serve("/music/search_song_entity_by_name", Text, lambda body: words(body.query, SONGS))
    for field, path in (("author", "author"), ("date", "release_date"), ("country", "release_country")):
        serve(f"/music/get_song_{path}", Text, lambda body, field=field: SONGS.get(body.query, {}).get(field))
    serve("/music/grammy_get_award_count_by_song", Text, lambda body: 0)
    serve("/movie/get_movie_info", Text, lambda body: [FILM] if "orchard" in body.query.lower() else [])
    serve("/movie/get_person_info", Text, lambda body: [])
    serve("/movie/get_movie_info_by_id", Number, lambda body: FILM if body.query == 7 else None)
    games = {name: {"0": value} for name, value in GAME.items()}
    serve(
        "/sports/nba/get_games_on_date",
        Team,
        lambda body: games if (body.date, body.team_name) == ("2024-03-04", "Chicago Bulls") else None,
    )
    serve("/sports/soccer/get_games_on_date", Team, lambda body: None)
    serve("/open/search_entity_by_name", Text, lambda body: words(body.query, ["Lake Anselm"]))
    serve(
        "/open/get_entity",
        Text,
        lambda body: {"summary_text": "A lake.", "summary_structured": {"Depth": "9 m"}},
    )
    return app


@contextmanager
def serving(app: Any) -> Iterator[str]:
    """The address of `app` served by a thread, until the block ends."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off", ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        while not server.started and thread.is_alive():
            time.sleep(0.01)
        yield address
        server.should_exit = True
        thread.join(timeout=10)
        assert not thread.is_alive()


@pytest.fixture(scope="module")
def troubles() -> Troubles:
    return Troubles()


@pytest.fixture(scope="module")
def address(troubles: Troubles) -> Iterator[str]:
    with serving(application(troubles)) as url:
        yield url


async def search(source: ApiSource, name: str, question: str) -> tuple[Hit, ...]:
    token = current_question.set(Question("q", question, (), query_time=TIME))
    try:
        return await source.search(name, 5)
    finally:
        current_question.reset(token)


def run(source: ApiSource, work: Coroutine[Any, Any, T]) -> T:
    async def whole() -> T:
        try:
            return await work
        finally:
            await source.aclose()

    return asyncio.run(whole())


@pytest.mark.parametrize(
    ("name", "question", "title", "line"),
    [
        ("zephyr kites", "zephyr kites closing price yesterday?", "ZKT: stock prices by day",
         "| 2024-03-04 | 14 | 16 | 13 | 15 | 4,000 |"),
        ("zephyr kites", "what is the eps of zephyr kites?", "ZKT: key figures", "- earnings per share: 1.5"),
        ("paper moon motel", "who wrote the song paper moon motel?", "Paper Moon Motel: song",
         "- author: The Lanterns"),
        ("glass orchard", "who directed the film glass orchard?", "The Glass Orchard: movie",
         "- directors: Ines Moreau"),
        ("bulls", "did the bulls win their nba game yesterday?", "Chicago Bulls: games, 2024-03-04",
         "- lost: 1"),
        ("lake anselm", "how deep is lake anselm?", "Lake Anselm", "- Depth: 9 m"),
    ],
)  # fmt: skip
def test_each_domain_answers(address: str, name: str, question: str, title: str, line: str) -> None:
    source = ApiSource(address)
    hits = run(source, search(source, name, question))
    assert hits[0].passage.title == title
    assert line in hits[0].passage.text.splitlines()


def test_searches_in_flight_keep_to_their_own_question(address: str, troubles: Troubles) -> None:
    source, troubles.peak = ApiSource(address, concurrency=3), 0

    async def many() -> list[tuple[Hit, ...]]:
        prices = [search(source, "zephyr kites", "zephyr kites closing price yesterday?") for _ in range(10)]
        games = [search(source, "bulls", "did the bulls win their nba game yesterday?") for _ in range(10)]
        return await asyncio.gather(*prices, *games)

    results = run(source, many())
    assert [hits[0].passage.title for hits in results] == (
        ["ZKT: stock prices by day"] * 10 + ["Chicago Bulls: games, 2024-03-04"] * 10
    )
    assert 1 < troubles.peak <= 3


def test_a_server_in_trouble_is_asked_again(address: str, troubles: Troubles) -> None:
    troubles.fail["/finance/get_company_name"] = [503, 429]
    source = ApiSource(address)
    assert run(source, search(source, "zephyr kites", "eps of zephyr kites?"))
    assert troubles.fail["/finance/get_company_name"] == []


def test_a_server_that_stays_in_trouble_is_one_error(address: str, troubles: Troubles) -> None:
    troubles.fail["/finance/get_company_name"] = [500, 500]
    source = ApiSource(address, tries=2)
    with pytest.raises(SourceError, match="status 500 after 2 tries"):
        run(source, search(source, "zephyr kites", "eps of zephyr kites?"))


def test_a_path_that_is_not_there_is_one_error(address: str) -> None:
    source = ApiSource(f"{address}/elsewhere")
    with pytest.raises(SourceError, match="status 404"):
        run(source, search(source, "zephyr kites", "eps of zephyr kites?"))


def test_a_dead_server_is_one_error() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    source = ApiSource(f"http://127.0.0.1:{port}", tries=1)
    with pytest.raises(SourceError, match="ConnectError"):
        run(source, search(source, "zephyr kites", "eps of zephyr kites?"))
