"""Matches the names in a question with the names that the API knows, those of sports teams included.

Two names are compared in plain form: no case, accents, punctuation or leading article, companies without
their legal form. They score 0 to 100: rapidfuzz's ratio of the two, or of their words in alphabetical order.
A company or movie whose plain form begins with all words of the name scores at least 90 less one for each
further word, never below 80: "ford" is "Ford Motor Company", and a namesake without more words comes first.
Teams are mapped from their usual names to the exact names that the API uses.

Whether a question contains a name that a model listed is decided by words alone (`is_named_in`), without
rapidfuzz, so that it does not depend on what is installed.
"""

from __future__ import annotations

import calendar
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from ragc.core.extras import require
from ragc.corpora.sources.crag_api.question import FIELDS, TOPICS
from ragc.corpora.sources.terms import STOP_WORDS

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

MAX_NAME_CHARS = 300
"""Characters of a name; comparing longer texts takes time with their product."""

SHORT_NAME = 3
"""Letters of a name that one changed letter makes another."""

LONG_WORD = 6
"""Letters of a word that is still itself with one slip of the pen."""

CLUB = frozenset({"fc", "afc", "cf", "sc"})
"""What says that a name is a club's."""

MAX_TEAM_WORDS = 4
"""Words of the longest name of a team, `brighton and hove albion`."""

_COMMON = """
about after again also american angeles before best black city club company could each east ever every few
great group home international just last league least less life like little long love made make many more
most much name national never next north only other over people real same should since south states still
team than that thing those three time times today total under united until very week well west while white
world would year years york
"""

BEGINS = frozenset({"company", "movie"})

_LEGAL = """
inc incorporated corp corporation co company companies ltd limited plc llc lp sa ag nv se holding holdings
group common ordinary stock stocks share shares class series a b c adr ads american depositary new com
"""
_FORMS = frozenset(_LEGAL.split())


@dataclass(frozen=True, slots=True)
class NameMatch:
    """A name that the API knows, how well it fits (0 to 100), and its place among the candidates."""

    name: str
    score: float
    at: int = 0


def check_installed() -> None:
    """Raises UsageError when rapidfuzz, which compares the names, is not installed."""
    require("rapidfuzz", "A source of kind 'api'")


def plain(name: str, kind: str = "") -> str:
    """Returns `name` in the form that is compared; may be empty when it has no letter and no digit."""
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
    """Returns how well `candidate` fits `name`, both of `kind`, 0 to 100; 100 for equal plain forms."""
    from rapidfuzz import fuzz

    if len(candidate) > MAX_NAME_CHARS:
        return 0.0
    name_words, known = plain(name, kind), plain(candidate, kind)
    if not name_words or not known:
        return 0.0
    best = max(fuzz.ratio(name_words, known), fuzz.token_sort_ratio(name_words, known))
    if kind in BEGINS and known.startswith(f"{name_words} "):
        best = max(best, 90.0 - min(known.count(" ") - name_words.count(" "), 10))
    return round(best, 2)


def is_named_in(name: str, text: str, kind: str) -> bool:
    """Returns whether `text` names `name`, possibly in another form: "Apple Inc." in "What is Apple worth?".

    One of these is enough: the name occurs in plain form, written apart or as one word; `text` has a
    distinctive word of the name ("Stephen Curry" for "Steph Curry"); or it has another name of the same team
    ("man utd" for "Manchester United"). Words may be possessive or plural, and long ones may have one typing
    error. Names of up to three letters must occur unchanged.
    """
    name_words, words = plain(name, kind).split(), plain(text).split()
    if not name_words or len(name) > MAX_NAME_CHARS:
        return False
    joined, size = "".join(name_words), len(name_words)
    runs = {
        "".join(words[at : at + n]) for n in (size - 1, size, size + 1) if n > 0 for at in _starts(words, n)
    }
    if joined in runs:
        return True
    if len(joined) <= SHORT_NAME:
        return False
    if any(_is_same(joined, run) for run in runs):
        return True
    if any(_is_same(word, other) for word in name_words if _is_distinctive(word) for other in words):
        return True
    if kind == "soccer team":
        return soccer(name) in teams_in(text, SOCCER)
    return kind == "nba team" and NBA.get(plain(name)) in teams_in(text, NBA)


def _starts(words: Sequence[str], n: int) -> range:
    """Returns where a run of `n` words may start."""
    return range(len(words) - n + 1)


def _is_same(word: str, other: str) -> bool:
    """Returns whether `other` is `word`, its possessive or plural, or a long one with one typing error."""
    if other in (word, f"{word}s"):
        return True
    return min(len(word), len(other)) >= LONG_WORD and _is_one_edit(word, other)


def _is_one_edit(word: str, other: str) -> bool:
    """Returns whether one letter changed, added or left out, or two neighbours swapped, makes `other` of
    `word`.
    """
    pairs = zip(word, other, strict=False)
    same = next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(word), len(other)))
    left, right = word[same:], other[same:]
    if left[1:] == right[1:] or left[1:] == right or left == right[1:]:
        return True
    return left[:2] == right[1::-1] and left[2:] == right[2:]


def _is_distinctive(word: str) -> bool:
    """Returns whether a word of a name is rare among names: not short or common, and no number."""
    if len(word) <= SHORT_NAME or not word.isalpha() or word in _common_words():
        return False
    return not any(words.fullmatch(word) for words in (*FIELDS.values(), *TOPICS.values()))


@cache
def _common_words() -> frozenset[str]:
    """Returns words that many names or questions have, those of more than one team among them."""
    times = Counter(
        word
        for known in (NBA, SOCCER)
        for team in set(known.values())
        for word in {word for name, of in known.items() if of == team for word in name.split()}
    )
    shared = {word for word, teams in times.items() if teams > 1}
    dates = {name.casefold() for name in (*calendar.month_name, *calendar.day_name)}
    return frozenset({*STOP_WORDS, *shared, *dates, *_COMMON.split()})


def teams_in(text: str, known: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the teams of `known` (`NBA` or `SOCCER`) that `text` names, in its order, each once.

    Of names within each other the longest counts. Short forms that are ordinary words do not count.
    """
    words = plain(text).split()
    teams: list[str] = []
    at = 0
    while at < len(words):
        for n in range(min(MAX_TEAM_WORDS, len(words) - at), 0, -1):
            team = known.get(" ".join(words[at : at + n]))
            if team is None and n == 1:
                team = known.get(words[at].removesuffix("s"))
            if team is not None and words[at] not in STOP_WORDS:
                teams.append(team)
                at += n - 1
                break
        at += 1
    return tuple(dict.fromkeys(teams))


def match(name: str, candidates: Sequence[str], kind: str) -> NameMatch | None:
    """Returns the candidate that fits `name` best and well enough (the first of equals), or None."""
    fits = [NameMatch(text, score(name, text, kind), at) for at, text in enumerate(candidates)]
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
    """Returns the exact name of every name in plain form."""
    known: dict[str, str] = {}
    for line in lines.strip().splitlines():
        name, _, short = line.partition(": ")
        known |= {plain(alias): name for alias in (name, *short.split(", "))}
    return known


NBA, SOCCER = _aliases(_NBA), _aliases(_SOCCER)

# The API has the games of these under more than one name.
_ALSO = {"LA Clippers": ("Los Angeles Clippers",)}


def nba(name: str) -> tuple[str, ...]:
    """Returns the names under which the API has the games of the NBA team `name`; none when there is no such
    team.

    A name of three letters or less must be equal to a known one; a longer one may be misspelt a little.
    """
    exact = NBA.get(plain(name))
    if exact is None and len(name) > 3:
        full = list(dict.fromkeys(NBA.values()))
        fit = match(name, full, "team")
        exact = fit.name if fit else None
    return (exact, *_ALSO.get(exact, ())) if exact else ()


def soccer(name: str) -> str:
    """Returns the name under which the API most likely has the soccer team `name`: an alias, else with
    capitals.

    An alias may have the mark of a club beside it, as in "Manchester United FC".
    """
    words = plain(name).split()
    forms = (" ".join(words), " ".join(word for word in words if word not in CLUB))
    known = next((SOCCER[form] for form in forms if form in SOCCER), "")
    return known or (name.title() if name.islower() else name)
