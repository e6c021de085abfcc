"""Passages whose title the query names move up, by the factors of PrefRAG."""

from __future__ import annotations

import asyncio

import pytest

from ragc.corpora.sources.base import Source
from ragc.corpora.sources.bm25 import Bm25Source
from ragc.corpora.sources.titles import TitleSource, title_factor
from ragc.records import Hit, Passage

FILMS = [
    Passage(f"p{n}", title, "a film about a ship") for n, title in enumerate(("Sea", "Jaws", "", "Titanic"))
]


@pytest.mark.parametrize(
    ("query", "title", "factor"),
    [
        ("Titanic", "Titanic", 1.5),
        ("The Titanic", "Titanic", 1.5),
        ("the Titanic", "Titanic", 1.5),
        ("titanic", "Titanic", 1.2),
        ("THE Titanic", "Titanic", 1.1),
        ("who made Titanic?", "Titanic", 1.1),
        ("WHO MADE TITANIC?", "Titanic", 1.1),
        ("Titanic (film)", "Titanic (film)", 1.5),
        ("Titanic", "Titanic (film)", 1.2),
        ("The Titanic", "Titanic (film)", 1.2),
        ("titanic", "Titanic (film)", 1.1),
        ("who made titanic?", "Titanic (film)", 1.05),
        ("ships", "Titanic (film)", 1.0),
        ("(I Can't Get No) Satisfaction", "(I Can't Get No) Satisfaction", 1.5),
        ("", "Titanic", 1.0),
        ("Titanic", "", 1.0),
        ("Titanic", " ", 1.0),
    ],
)
def test_the_first_rule_that_holds_gives_the_factor(query: str, title: str, factor: float) -> None:
    assert title_factor(query, title) == factor


def search(source: Source, query: str, k: int) -> dict[str, float]:
    return {hit.passage.id: hit.score for hit in asyncio.run(source.search(query, k))}


def test_a_named_passage_comes_from_below_the_cut() -> None:
    plain = Bm25Source(FILMS)
    assert list(search(plain, "film ship", 9)) == ["p2", "p0", "p1", "p3"]
    assert list(search(TitleSource(plain), "a film about the ship Jaws", 1)) == ["p1"]
    before = search(plain, "sea film", 9)
    assert search(TitleSource(plain), "sea film", 9) == {**before, "p0": before["p0"] * 1.1}


def test_a_score_below_nothing_grows_too() -> None:
    class Below(Bm25Source):
        async def search(self, query: str, k: int) -> tuple[Hit, ...]:
            return (Hit(FILMS[0], -0.5), Hit(FILMS[3], -0.6))

    assert search(TitleSource(Below(FILMS)), "Titanic", 1) == {"p3": -0.6 / 1.5}


def test_the_source_shows_through() -> None:
    plain = Bm25Source(FILMS)
    source = TitleSource(plain)
    assert source.kind == "bm25"
    assert source.rechunk(9, 0.0).fingerprint == TitleSource(plain.rechunk(9, 0.0)).fingerprint
    assert source.fingerprint != plain.fingerprint
