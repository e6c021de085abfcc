"""Matching of the names in a question with the names that the API knows, those of sports teams included.

Two names are compared in plain form: no case, accents, punctuation or leading article, companies without
their legal form. They score 0 to 100: rapidfuzz's ratio of the two, or of their words in alphabetical
order. A company or movie whose plain form begins with all words of the name scores at least 90 less one
for each word more, never below 80: "ford" is "Ford Motor Company", and a namesake without more words goes
first.
Teams are mapped from what people call them to the exact names that the API goes by.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from ragc.core.extras import require

LEAST: Mapping[str, float] = {
    "company": 80.0,
    "movie": 80.0,
    "person": 85.0,
    "artist": 85.0,
    "song": 85.0,
    "team": 85.0,
    "entity": 85.0,
}
"""The least score of a match, by what the name is of. Companies and movies may be cut short, see above."""

LONGEST_NAME = 300
"""Characters of a name; comparing longer texts takes time with their product."""

LEAST_IN_TEXT = 85.0
"""The least ratio of a name and a run of words that it is to stand for."""

SHORT_NAME = 3
"""Letters of a name that one changed letter makes another."""

BEGINS = frozenset({"company", "movie"})

_LEGAL = """
inc incorporated corp corporation co company companies ltd limited plc llc lp sa ag nv se holding holdings
group common ordinary stock stocks share shares class series a b c adr ads american depositary new com
"""
_FORMS = frozenset(_LEGAL.split())


@dataclass(frozen=True, slots=True)
class Match:
    """A name that the API knows, how well it fits (0 to 100), and its place among the candidates."""

    name: str
    score: float
    at: int = 0


def check_installed() -> None:
    """Raise UsageError when rapidfuzz, which compares the names, is not installed."""
    require("rapidfuzz", "A source of kind 'api'")


def plain(name: str, kind: str = "") -> str:
    """`name` in the form that is compared; may be empty when it has no letter and no digit."""
    letters = unicodedata.normalize("NFKD", name.casefold())
    letters = "".join(letter for letter in letters if not unicodedata.combining(letter))
    words = re.sub(r"['’`]", "", letters)
    parts = re.findall(r"[^\W_]+", words)
    if len(parts) > 1 and parts[0] in ("the", "a", "an"):
        parts = parts[1:]
    if kind == "company":
        while len(parts) > 1 and parts[-1] in _FORMS:
            parts = parts[:-1]
    return " ".join(parts)


def score(name: str, candidate: str, kind: str) -> float:
    """How well `candidate` fits `name`, both of `kind`, 0 to 100; 100 when their plain forms are equal."""
    from rapidfuzz import fuzz

    if len(candidate) > LONGEST_NAME:
        return 0.0
    name_words, known = plain(name, kind), plain(candidate, kind)
    if not name_words or not known:
        return 0.0
    best = max(fuzz.ratio(name_words, known), fuzz.token_sort_ratio(name_words, known))
    if kind in BEGINS and known.startswith(f"{name_words} "):
        best = max(best, 90.0 - min(known.count(" ") - name_words.count(" "), 10))
    return round(best, 2)


def stands_in(name: str, text: str, kind: str) -> bool:
    """Whether `text` holds the name, in another form perhaps: "Apple Inc." stands in "What is Apple worth?".

    Runs of words are compared with it in plain form, those of one word less and more too. Names of up to
    three letters must be equal to one, and so must all where rapidfuzz (the extra `api`) is not installed.
    """
    name_words, words = plain(name, kind), plain(text).split()
    if not name_words or len(name) > LONGEST_NAME:
        return False
    size = name_words.count(" ") + 1
    runs = {
        " ".join(words[at : at + length])
        for length in (size - 1, size, size + 1)
        for at in range(len(words) - length + 1)
        if length > 0
    }
    if name_words in runs:
        return True
    if len(name_words) <= SHORT_NAME or find_spec("rapidfuzz") is None:
        return False
    from rapidfuzz import fuzz

    return any(fuzz.ratio(name_words, run) >= LEAST_IN_TEXT for run in runs)


def match(name: str, candidates: Sequence[str], kind: str) -> Match | None:
    """The candidate that fits `name` best and well enough, the first of equals; None when none does."""
    fits = [Match(text, score(name, text, kind), at) for at, text in enumerate(candidates)]
    best = max(fits, key=lambda fit: fit.score, default=None)
    return best if best and best.score >= LEAST[kind] else None


# Name, short forms. Cities with two teams are no short form.
_NBA = """
Atlanta Hawks: hawks, atlanta, atl
Boston Celtics: celtics, boston, bos
Brooklyn Nets: nets, brooklyn, bkn
Charlotte Hornets: hornets, charlotte, cha
Chicago Bulls: bulls, chicago, chi
Cleveland Cavaliers: cavaliers, cavs, cleveland, cle
Dallas Mavericks: mavericks, mavs, dallas, dal
Denver Nuggets: nuggets, denver, den
Detroit Pistons: pistons, detroit, det
Golden State Warriors: warriors, golden state, gsw, dubs
Houston Rockets: rockets, houston, hou
Indiana Pacers: pacers, indiana, ind
LA Clippers: clippers, los angeles clippers, lac
Los Angeles Lakers: lakers, la lakers, lal
Memphis Grizzlies: grizzlies, memphis, mem
Miami Heat: heat, miami, mia
Milwaukee Bucks: bucks, milwaukee, mil
Minnesota Timberwolves: timberwolves, minnesota, min
New Orleans Pelicans: pelicans, new orleans, nop
New York Knicks: knicks, new york, nyk
Oklahoma City Thunder: thunder, oklahoma city, okc
Orlando Magic: magic, orlando, orl
Philadelphia 76ers: 76ers, sixers, philadelphia, philly, phi
Phoenix Suns: suns, phoenix, phx
Portland Trail Blazers: trail blazers, blazers, portland, por
Sacramento Kings: kings, sacramento, sac
San Antonio Spurs: spurs, san antonio, sas
Toronto Raptors: raptors, toronto, tor
Utah Jazz: jazz, utah, uta
Washington Wizards: wizards, washington, was
"""

_SOCCER = """
Bayern Munich: bayern, fc bayern, bayern munchen, fc bayern munich
Brighton: brighton and hove albion, brighton & hove albion
Dortmund: borussia dortmund, bvb
Eint Frankfurt: eintracht frankfurt
Gladbach: borussia monchengladbach
Leverkusen: bayer leverkusen, bayer 04 leverkusen
Manchester City: man city, mcfc
Manchester Utd: manchester united, man united, man utd
Milan: ac milan
Newcastle Utd: newcastle united, newcastle
Nott'ham Forest: nottingham forest
Paris S-G: paris saint germain, psg, paris sg
Inter: inter milan, internazionale
Atlético Madrid: atletico madrid, atletico
Barcelona: fc barcelona, barca
Betis: real betis
Sheffield Utd: sheffield united
Tottenham: tottenham hotspur, spurs
West Ham: west ham united
Wolves: wolverhampton wanderers, wolverhampton
"""


def _aliases(lines: str) -> dict[str, str]:
    """The exact name of every name in plain form."""
    known: dict[str, str] = {}
    for line in lines.strip().splitlines():
        name, _, short = line.partition(": ")
        known |= {plain(alias): name for alias in (name, *short.split(", "))}
    return known


NBA, SOCCER = _aliases(_NBA), _aliases(_SOCCER)

# The API has the games of these under more than one name.
_ALSO = {"LA Clippers": ("Los Angeles Clippers",)}


def nba(name: str) -> tuple[str, ...]:
    """The names under which the API has the games of the NBA team `name`; none when there is no such team.

    A name of three letters or less must be equal to a known one; a longer one may be misspelt a little.
    """
    exact = NBA.get(plain(name))
    if exact is None and len(name) > 3:
        full = list(dict.fromkeys(NBA.values()))
        fit = match(name, full, "team")
        exact = fit.name if fit else None
    return (exact, *_ALSO.get(exact, ())) if exact else ()


def soccer(name: str) -> str:
    """The name under which the API most likely has the soccer team `name`: an alias, else with capitals."""
    return SOCCER.get(plain(name)) or (name.title() if name.islower() else name)
