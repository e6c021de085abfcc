"""Names are matched in plain form, by the stated thresholds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragc.corpora.sources.crag_api import names as api_names
from ragc.corpora.sources.crag_api import names as api_teams
from ragc.corpora.sources.crag_api.names import LEAST, match, plain, score

pytest.importorskip("rapidfuzz")


@pytest.mark.parametrize(
    ("name", "candidates", "kind", "expected"),
    [
        ("apple", ["Apple Hospitality REIT, Inc.", "Apple Inc. Common Stock", "Maple Corp"], "company", 1),
        ("ford", ["Forward Industries, Inc.", "Ford Motor Company Common Stock"], "company", 1),
        ("microsft", ["Microsoft Corporation", "MicroStrategy"], "company", 0),
        ("beyonce", ["Fiancé", "Beyoncé"], "artist", 1),
        ("The Beatles", ["Beetles", "Beatles"], "artist", 1),
        ("lord of the rings", ["Ring", "The Lord of the Rings: The Two Towers"], "movie", 1),
        ("gaga lady", ["Lady Gaga"], "artist", 0),
        ("thriller", ["Thriller", "Thriller"], "song", 0),
        ("jackson", ["Michael Jackson", "Jackson Browne"], "artist", None),
        ("apple", [], "company", None),
        ("apple", ["Orange S.A."], "company", None),
        ("?!", ["Apple", "!?"], "company", None),
    ],
)
def test_the_best_of_the_candidates(
    name: str, candidates: list[str], kind: str, expected: int | None
) -> None:
    best_match = match(name, candidates, kind)
    assert (best_match and best_match.at) == expected
    assert best_match is None or best_match.name == candidates[best_match.at]


def test_a_company_is_cut_short_only_from_its_beginning() -> None:
    assert (
        score("motor", "Ford Motor Company", "company")
        < LEAST["company"]
        <= score("ford", "Ford Motor", "company")
    )


@given(st.text(), st.text(), st.sampled_from(sorted(LEAST)))
def test_scores_lie_between_0_and_100_and_equal_forms_score_most(a: str, b: str, kind: str) -> None:
    assert 0 <= score(a, b, kind) <= 100
    assert score(a, a, kind) == (100 if plain(a, kind) else 0)


@pytest.mark.parametrize(
    ("name", "team"),
    [
        ("lakers", "Los Angeles Lakers"),
        ("OKC", "Oklahoma City Thunder"),
        ("the Golden State Warrior", "Golden State Warriors"),
        ("philadelphia 76ers", "Philadelphia 76ers"),
    ],
)
def test_nba_teams_by_alias_or_nearly(name: str, team: str) -> None:
    assert api_teams.nba(name) == (team,)


def test_names_of_no_nba_team() -> None:
    assert api_teams.nba("everton") == api_teams.nba("xyz") == api_teams.nba("los angeles") == ()


def test_thirty_nba_teams_and_one_with_two_names() -> None:
    assert len(set(api_teams.NBA.values())) == 30
    assert api_teams.nba("clippers") == ("LA Clippers", "Los Angeles Clippers")


@pytest.mark.parametrize(
    ("name", "team"),
    [
        ("man utd", "Manchester Utd"),
        ("Manchester United FC", "Manchester Utd"),
        ("PSG", "Paris S-G"),
        ("everton", "Everton"),
        ("FC Koln", "FC Koln"),
    ],
)
def test_soccer_teams_by_alias_or_as_they_are(name: str, team: str) -> None:
    assert api_teams.soccer(name) == team


def test_no_alias_means_two_teams() -> None:
    for lines in (api_teams._NBA, api_teams._SOCCER):
        names = [
            alias for line in lines.strip().splitlines() for alias in line.partition(": ")[2].split(", ")
        ]
        forms = [api_names.plain(name) for name in names]
        assert len(forms) == len(set(forms))
