"""`api`: facts on one name from a CRAG mock API (finance, music, movie, sports, open).

    name ──► domains of the question ──► the name that the API knows ──► the calls of `SUBJECTS` that the
    question's words and dates ask for ──► a passage for each `Part`, with lines `- label: value`

The query is one name, as RAG-X's `EntityExtract` finds it. If the question has no name, it is the question
itself, which gives what its words and dates alone ask for, such as the Grammys of a year. The question being
answered (`current_question`) says what is asked, when, and in which domain. An unknown name gives nothing,
and so does a reply of another shape than the API promises.
"""

from __future__ import annotations

import asyncio
import json
import re
import unicodedata
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, NamedTuple

import httpx
from pydantic import Field
from rapidfuzz import fuzz, process

from ragc.core.digest import digest
from ragc.core.event_loop import gather_or_cancel, on_loop
from ragc.core.extras import EXTRAS, require
from ragc.core.marks import Does
from ragc.core.tables import Words
from ragc.corpora.sources.base import BaseSource, SourceKind, best_first, current_question
from ragc.corpora.sources.options import Above, Positive, RerankOptions
from ragc.errors import SourceError, TargetUnavailable, UsageError
from ragc.records import Hit, Passage, Question
from ragc.targets.retry import Again, with_tries
from ragc.targets.wire import wait_asked

VERSION = 3
"""Increased whenever the same replies would give other passages."""

ASKED = 100.0
"""What a passage that the question's words ask for scores beside the likeness of its name."""

MAX_LINES, MAX_LINE_CHARS, LATEST = 30, 1000, 5
"""Lines of a passage and characters of a line that are shown, and lines of a history where the question names
no date in it: the latest before it."""

MAX_CALLS, MAX_DATES = 20, 14
"""Works or movies, and dates, that are looked up one by one, the first of them."""

TOTAL_S = 60.0
"""Seconds for all tries of one call; a server that asks for a longer wait has failed."""

MIN_LIKENESS, BEGINNING, MIN_WORD_LIKENESS = 85.0, 80.0, 88.0
"""Least likeness of two names, 0 to 100, by rapidfuzz's ratio of their sorted words; what a company or movie
scores whose name begins with the words looked for: "ford" is Ford Motor; and the least likeness of two words
that are one: a plural, a possessive, a typing error in a long word."""

SHORT = 3
"""Letters of a name or word that must be equal: one other letter makes another name."""

MAX_CHARS = 300
"""Characters of a name that are compared."""

_LEGAL = """
inc incorporated corp corporation co company companies ltd limited plc llc lp sa ag nv se holding holdings
group common ordinary stock stocks share shares class series a b c adr ads american depositary new com
"""
"""Words at the end of a company's name that do not distinguish it."""

_COMMON = """
about after again also american angeles april august been before best black city club company could december
does each east ever every february few first friday from golden great group have home into international
january july june just last league least less life like little long love made make many march monday more most
much name national never next north november october only other over people real same saturday september
should since south state states still sunday team than that their then there these they thing this those three
thursday time times today total tuesday under united until very wednesday week well were west what when where
which while white whom whose will with world would year years york your
"""
"""Words of more than three letters that many names or questions have, which alone name nothing."""


def _words(text: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{text})\b", re.IGNORECASE)


DOMAINS: Mapping[str, re.Pattern[str]] = {
    "finance": _words(
        "stocks?|shares?|ticker|tickers|market[- ]cap(?:italization)?|dividends?|eps|earnings|p/?e ratio|"
        "price[- ]to[- ]earnings|nasdaq|nyse|dow jones|(?:clos|open)ing price|trad(?:ed|ing)|company|"
        "companies|ceo"
    ),
    "music": _words(
        "songs?|albums?|sing(?:s|er|ers)?|sang|bands?|musicians?|rappers?|grammys?|billboard|hot 100|music|"
        "artists?|lyrics|tours?"
    ),
    "movie": _words(
        "movies?|films?|actors?|actress(?:es)?|oscars?|academy awards?|box office|directors?|directed|"
        "starr?ed|starring|sequel|animated|screenplay"
    ),
    "sports": _words(
        "nba|soccer|football|premier league|la liga|serie a|bundesliga|ligue 1|mls|champions league|games?|"
        "match(?:es)?|goals?|playoffs?|teams?|season|scored?|win|won|lost|lose|basketball|coach"
    ),
    "open": re.compile(r"(?!)"),
}
"""The domains of the API, and the words that tell of each."""

TOPICS: Mapping[str, re.Pattern[str]] = {
    "price": _words(
        "prices?|open(?:ed|ing)?|clos(?:e|ed|ing)|highest|lowest|high|low|trad(?:e|ed|es|ing)|volume|stocks?|"
        "shares?|worth|gain(?:ed|s)?|los[st]|rose|fell|dropp?(?:ed)?|perform(?:ed|er|ance)?"
    ),
    "minute": _words(r"minutes?|hours?|intraday|\d{1,2}:\d{2}|\d{1,2} ?[ap]\.?m"),
    "dividend": _words("dividends?|yield"),
    "figures": _words(
        "market[- ]cap(?:italization)?|valuation|market value|eps|earnings? per share|p/?e|"
        "price[- ]to[- ]earnings|earnings (?:ratio|multiple)"
    ),
    "works": _words(
        "songs?|albums?|works?|tracks?|singles?|discography|releas(?:e|ed|es)|record(?:s|ed)?|hits?"
    ),
    "grammy": _words("grammys?|grammies|awards?"),
    "chart": _words("billboard|charts?|hot 100|rank(?:ed|ing|s)?|number[- ]one|no\\. ?1|weeks"),
    "roles": _words(
        "movies?|films?|act(?:s|ed|ing|or|ress)?|star(?:s|red|ring)?|play(?:s|ed)?|direct(?:s|ed|or|ing)?|"
        "appear(?:s|ed)?|cast|roles?|made"
    ),
    "oscar": _words(
        "oscars?|academy awards?|awards?|nominat(?:ed|ion|ions)|best (?:picture|actor|actress|director)"
    ),
}
"""The words that ask for a fact."""

_DATED = _words(
    r"\w*day|tonight|tomorrow|days|(?:week|month|year)s?|january|february|march|april|june|july|august|september|"
    r"october|november|december|(?:in|of|since|last) may|"
    r"(?:jan|feb|mar|apr|may|jun|jul|aug|sept?|oct|nov|dec)\.? \d.*|(?:19|20)\d\d|\d+[-/]\d.*"
)
"""What a part of a question must hold to be a date; dateparser also takes "the second" and "sun" for one."""

_LAST = _words(r"(?:last|past|previous) (\w+ (?:day|week|month|year)s)")
_YEARS = _words(r"(?:between|from) ((?:19|20)\d\d) (?:and|to|until|through) ((?:19|20)\d\d)")
_MARKS = re.compile(r"['’]s\b|(?<=[a-z])\.", re.IGNORECASE)


def plain(name: str, kind: str = "") -> str:
    """Returns `name` in the form that is compared; "" for a name without a letter or digit."""
    letters = re.sub(r"['’`]", "", unicodedata.normalize("NFKD", name.casefold()))
    words = re.findall(r"[^\W_]+", "".join(letter for letter in letters if not unicodedata.combining(letter)))
    if len(words) > 1 and words[0] in ("the", "a", "an"):
        words = words[1:]
    while kind == "company" and len(words) > 1 and words[-1] in _LEGAL.split():
        words = words[:-1]
    return " ".join(words)


def match(name: str, candidates: Sequence[str], kind: str) -> tuple[int, float] | None:
    """Returns the place and the score, 0 to 100, of the candidate that fits `name`; None where none does.

    Of equals the first is returned. A company or movie may also be named by the beginning of its name.
    """
    wanted = plain(name[:MAX_CHARS], kind) or "-"  # like no plain form
    known = [plain(candidate[:MAX_CHARS], kind) for candidate in candidates]
    if best := process.extractOne(wanted, known, scorer=fuzz.token_sort_ratio, score_cutoff=MIN_LIKENESS):
        return best[2], best[1]
    begun = kind in ("company", "movie") and [text.startswith(f"{wanted} ") for text in known]
    return (begun.index(True), BEGINNING) if begun and any(begun) else None


def is_named_in(name: str, text: str, kind: str) -> bool:
    """Returns whether `text` names `name`, possibly in another form: "Apple Inc." in "What is Apple worth?".

    One of these is enough: the name occurs, written apart or as one word, perhaps in the plural or with a
    typing error; `text` has a distinctive word of it ("Stephen Curry" for "Steph Curry"); or it has another
    name of the same team. Names of up to three letters must occur unchanged.
    """
    parts, words = plain(name[:MAX_CHARS], kind).split(), plain(text).split()
    joined, lengths = "".join(parts), range(1, len(parts) + 2)
    runs = {"".join(words[at : at + n]) for n in lengths for at in range(len(words) - n + 1)}
    if len(joined) <= SHORT:
        return joined in runs
    usual = re.compile("|".join([*(words.pattern for words in DOMAINS.values()), *_COMMON.split()]))
    rare = [word for word in parts if len(word) > SHORT and word.isalpha() and not usual.fullmatch(word)]
    teams = {"nba team": NBA, "soccer team": SOCCER}.get(kind, {})
    return bool({*teams_in(name, teams)} & {*teams_in(text, teams)}) or any(
        process.extractOne(form, runs, scorer=fuzz.ratio, score_cutoff=MIN_WORD_LIKENESS)
        for form in (joined, *rare)
    )


def teams_in(text: str, teams: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the teams of `NBA` or `SOCCER` that `text` names, in its order, each once."""
    forms = "|".join(sorted(teams, key=len, reverse=True))
    named = re.findall(rf"\b({forms})s?\b", plain(text)) if teams else ()
    return tuple(dict.fromkeys(teams[form] for form in named))


# Name, short forms. Cities with two teams and ordinary words are no short form.
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
Washington Wizards: wizards, washington
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


NBA, SOCCER = (
    {
        plain(form): team
        for team, _, short in (line.partition(": ") for line in lines.strip().splitlines())
        for form in (team, *short.split(", "))
    }
    for lines in (_NBA, _SOCCER)
)
"""The team of every name and short form in plain form."""


class ApiRequest(NamedTuple):
    """A search: the name, the topics and dates of the question, and the ISO day on which it was asked, or "".

    Topics are the keys of `TOPICS` whose words the question has, and "". A span is its first and its last
    year, month, day or minute: "2024", "2024-03", "2024-03-04", "2024-03-04 15:30".
    """

    name: str
    topics: frozenset[str]
    spans: tuple[tuple[str, str], ...]
    today: str

    def dates(self, per: str) -> list[str]:
        """Returns the dates that the API is asked for, at most `MAX_DATES`; [""] if `per` is "".

        `per` is "day", "year", or "date" for the days, months and years that cover the spans: by default the
        year in which the question was asked.
        """
        this_year = ((self.today[:4],) * 2,) if per == "date" and self.today else ()
        named = [
            date[:4] if per == "year" else date[:10]
            for first, last in self.spans or this_year
            for date in ((first,) if first == last else map(str, range(int(first[:4]), int(last[:4]) + 1)))
            if per != "day" or len(date) >= len("2024-03-04")
        ]
        return list(dict.fromkeys(named))[:MAX_DATES] if per else [""]


def domains(text: str, domain: str) -> list[list[str]]:
    """Returns groups of domains to search, each only if those before gave nothing: `domain` alone if the API
    has it, else those with most words in `text`, then the others.
    """
    if domain in DOMAINS:
        return [[domain]]
    counts = {name: len(words.findall(text)) for name, words in DOMAINS.items()}
    return [
        [name for name in DOMAINS if (counts[name] == max(counts.values())) is first]
        for first in (True, False)
    ]


def read_question(name: str, text: str, query_time: str) -> ApiRequest:
    """Returns what the question `text` asks of `name`; `query_time` is as CRAG writes it, or ISO 8601.

    A week begins on Monday. A date without a year is the latest up to the query time; where that is unknown,
    dates that depend on it are left out.
    """
    from dateparser import date, parse, search

    topics = frozenset({"", *(topic for topic, words in TOPICS.items() if words.search(text))})
    text, forms = _MARKS.sub("", text), ["%m/%d/%Y", "%Y-%m-%d"]
    asked = parse(query_time[:10].strip(" ,"), date_formats=forms, settings={"PARSERS": ["custom-formats"]})
    settings = {
        "PREFER_DATES_FROM": "past",
        "RETURN_TIME_AS_PERIOD": True,
        "RELATIVE_BASE": asked or datetime(2000, 1, 1),  # noqa: DTZ001 - read where the text has a year
    }
    parser = date.DateDataParser(languages=["en"], settings=settings)
    begins = [parser.get_date_data(f"{period} ago").date_obj for period in _LAST.findall(text) if asked]
    spans = [
        *_YEARS.findall(text),
        *((f"{begin:%Y-%m-%d}", f"{asked:%Y-%m-%d}") for begin in begins if begin),
    ]
    text = _LAST.sub(" ", _YEARS.sub(" ", text))
    for part, _ in search.search_dates(text, languages=["en"], settings=settings) or ():
        moment, period = (data := parser.get_date_data(part)).date_obj, data.period or ""
        if moment and _DATED.search(part) and (asked or re.search(r"\d{4}", part)):
            monday = moment - timedelta(moment.weekday())
            week = f"{monday:%Y-%m-%d}", f"{monday + timedelta(6):%Y-%m-%d}"
            day = moment.isoformat(" ")[: {"year": 4, "month": 7, "time": 16}.get(period, 10)]
            spans.append(week if period == "week" else (day, day))
    return ApiRequest(name, topics, tuple(dict.fromkeys(spans)), f"{asked:%Y-%m-%d}" if asked else "")


class Part(NamedTuple):
    """Calls whose answers make one passage: the path of each, by the label of its answer.

    A part with a `topic` is asked for by the question's words, and one with `per` once for each date of the
    question: "day", "year", or "date" for any, by default the year in which it was asked. `body` is what is
    sent. An object without a label is shown by its own fields, by `fields` if that is not empty; that of a
    part with `per` is a table, whose rows are labelled by the first of the `fields`. `each` gives the path
    that is called for every item of a list, by its label.
    """

    title: str
    calls: Mapping[str, str]
    topic: str = ""
    per: str = ""
    body: Mapping[str, str] = {"query": "{name}"}
    fields: tuple[str, ...] = ()
    each: Mapping[str, str] = {}


class Subject(NamedTuple):
    """What a name may be of: the path that finds names like it, and what is asked of the one that fits.

    The other paths take the reply of the path `id` where there is one. With a `field` the search returns
    whole objects, named by it. `teams` are known without a search. A subject without all of these needs no
    name.
    """

    kind: str
    search: str
    parts: tuple[Part, ...]
    id: str = ""
    field: str = ""
    teams: Mapping[str, str] = {}


_ITEM = ("name", "character", "title", "release_date", "year_ceremony", "category", "film", "winner")
"""Fields that are shown of an object inside a list."""


SUBJECTS: Mapping[str, tuple[Subject, ...]] = {
    "finance": (
        Subject(
            "company",
            "/finance/get_company_name",
            (
                Part(
                    "{name}: company",
                    {"": "/finance/get_info"},
                    fields=(
                        *("longName", "symbol", "sector", "industry", "country", "city"),
                        *("fullTimeEmployees", "marketCap", "forwardEps", "trailingEps", "forwardPE"),
                        *("trailingPE", "dividendYield", "dividendRate", "totalRevenue"),
                        *("fiftyTwoWeekHigh", "fiftyTwoWeekLow", "currency", "website"),
                    ),
                ),
                Part(
                    "{name}: key figures",
                    {
                        "market capitalization": "/finance/get_market_capitalization",
                        "earnings per share": "/finance/get_eps",
                        "price-to-earnings ratio": "/finance/get_pe_ratio",
                    },
                    "figures",
                ),
                Part("{name}: stock prices by day", {"": "/finance/get_price_history"}, "price"),
                Part(
                    "{name}: stock prices by minute",
                    {"": "/finance/get_detailed_price_history"},
                    "minute",
                ),
                Part("{name}: dividends", {"": "/finance/get_dividends_history"}, "dividend"),
            ),
            id="/finance/get_ticker_by_name",
        ),
    ),
    "music": (
        Subject(
            "artist",
            "/music/search_artist_entity_by_name",
            (
                Part(
                    "{name}: biography",
                    {
                        "country": "/music/get_artist_birth_place",
                        "born or founded, died or dissolved": "/music/get_lifespan",
                        "members": "/music/get_members",
                    },
                ),
                Part(
                    "{name}: Grammy awards",
                    {
                        "Grammy awards, 1958 to 2019": "/music/grammy_get_award_count_by_artist",
                        "years": "/music/grammy_get_award_date_by_artist",
                    },
                    "grammy",
                ),
                Part(
                    "{name}: works",
                    {"works": "/music/get_artist_all_works"},
                    "works",
                    each={"works": "/music/get_song_release_date"},
                ),
            ),
        ),
        Subject(
            "song",
            "/music/search_song_entity_by_name",
            (
                Part(
                    "{name}: song",
                    {
                        "author": "/music/get_song_author",
                        "release date": "/music/get_song_release_date",
                        "release country": "/music/get_song_release_country",
                        "Grammy awards": "/music/grammy_get_award_count_by_song",
                    },
                ),
                Part(
                    "{name}: Billboard Hot 100",
                    dict.fromkeys(
                        ("rank", "weeks_in_chart", "top_position", "rank_last_week"),
                        "/music/get_billboard_attributes",
                    ),
                    "chart",
                    "day",
                    {"date": "{date}", "attribute": "{label}", "song_name": "{name}"},
                ),
            ),
        ),
        Subject(
            "year",
            "",
            (
                Part(
                    "Grammy awards of years",
                    {
                        "best new artist": "/music/grammy_get_best_artist_by_year",
                        "song of the year": "/music/grammy_get_best_song_by_year",
                        "album of the year": "/music/grammy_get_best_album_by_year",
                    },
                    "grammy",
                    "year",
                    {"query": "{date}"},
                ),
            ),
        ),
    ),
    "movie": (
        Subject(
            "movie",
            "/movie/get_movie_info",
            (
                Part(
                    "{name}: movie",
                    {},
                    fields=(
                        *("original_title", "release_date", "directors", "genres", "original_language"),
                        *("length", "runtime", "budget", "revenue", "rating", "cast", "oscar_awards"),
                    ),
                ),
            ),
            field="title",
        ),
        Subject(
            "person",
            "/movie/get_person_info",
            (
                Part("{name}: person", {}, fields=("birthday", "oscar_awards")),
                Part(
                    "{name}: movies",
                    {},
                    "roles",
                    fields=("acted_movies", "directed_movies"),
                    each=dict.fromkeys(("acted_movies", "directed_movies"), "/movie/get_movie_info_by_id"),
                ),
            ),
            field="name",
        ),
        Subject(
            "year",
            "",
            (
                Part(
                    "Oscars of years",
                    {"Oscars": "/movie/get_year_info"},
                    "oscar",
                    "year",
                    {"query": "{date}"},
                ),
            ),
        ),
    ),
    "sports": tuple(
        Subject(
            f"{sport} team",
            "",
            (
                Part(
                    "{name}: games",
                    {"": f"/sports/{sport}/get_games_on_date"},
                    per="date",
                    body={"date": "{date}", "team_name": "{name}"},
                    fields=fields,
                ),
            ),
            teams=teams,
        )
        for sport, teams, fields in (
            (
                "nba",
                NBA,
                (
                    *("game_date", "team_name_home", "pts_home", "wl_home"),
                    *("team_name_away", "pts_away", "season_type"),
                ),
            ),
            (
                "soccer",
                SOCCER,
                ("date", "time", "venue", "opponent", "result", "GF", "GA", "round", "Captain"),
            ),
        )
    ),
    "open": (Subject("entity", "/open/search_entity_by_name", (Part("{name}", {"": "/open/get_entity"}),)),),
}
"""What a name may be of in each domain, and the calls for it. GF and GA are goals for and against."""


class ApiOptions(RerankOptions):
    """Options of a source of kind `api`."""

    base_url: Annotated[Words, Does("speaks", "searches this API")] = Field(
        description="Address of the CRAG mock API.", examples=["http://127.0.0.1:8000"]
    )
    timeout_s: Above = Field(default=10.0, description="Seconds to wait for one reply. Above 0.")
    connect_timeout_s: Above = Field(default=5.0, description="Seconds to wait for a connection. Above 0.")
    tries: Positive = Field(default=4, description="Tries of one request, the first included. From 1.")
    concurrency: Positive = Field(default=8, description="Requests in flight at once. From 1.")


class ApiSource(BaseSource):
    """Searches the CRAG mock API at `base_url`, such as http://127.0.0.1:8000.

    `timeout_s` and `connect_timeout_s` are seconds for one call and its connection, `tries` the tries of a
    call, `concurrency` the calls in flight. Credentials and query of the address are sent and never shown.
    No connection, a timeout, 408, 429 and 5xx are tried again. Raises UsageError for an invalid address and
    for a missing library. `transport` and `sleep` replace the network and the clock in tests.
    """

    kind = "api"

    def __init__(
        self,
        base_url: str,
        *,
        timeout_s: float = 10.0,
        connect_timeout_s: float = 5.0,
        tries: int = 4,
        concurrency: int = 8,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        require("dateparser", "A source of kind 'api'")
        if not re.fullmatch(r"https?://[^/\s\0][^\s\0]*", base_url):
            raise UsageError(
                "A source of kind 'api' needs base_url, the address of a CRAG mock API such as "
                "http://127.0.0.1:8000; what was given is no http or https address."
            )
        url = httpx.URL(base_url)
        self.endpoint = str(url.copy_with(username="", password="", query=None, fragment=None)).rstrip("/")
        self.fingerprint = digest([self.kind, self.endpoint, VERSION])
        self._tries, self._sleep = tries, sleep
        self._client = httpx.AsyncClient(
            params=url.params,
            auth=(url.username, url.password) if url.userinfo else None,
            timeout=httpx.Timeout(timeout_s, connect=connect_timeout_s, pool=None),
            # No connection outlives its call: a fork of this process has another loop.
            limits=httpx.Limits(max_connections=concurrency, max_keepalive_connections=0),
            transport=transport,
            trust_env=url.host not in ("127.0.0.1", "localhost", "::1"),
        )

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """Returns at most `k` passages on the name `query`, best first, ties by passage id.

        A passage's score is how well its name fits (0 to 100), plus 100 when the question asks for it.
        `()` when the API does not know the name. Raises SourceError when any of the calls fails.
        """
        name = " ".join(query.encode("utf-8", "replace").decode().split())  # a lone surrogate cannot be sent
        if not name or k < 1:
            return ()
        question = current_question.get() or Question("", name, ())
        request = await asyncio.to_thread(read_question, name, question.question, question.query_time)
        for group in domains(question.question, str(question.extra.get("domain") or "")):
            found = await gather_or_cancel(
                self._look_up(subject, request) for domain in group for subject in SUBJECTS[domain]
            )
            if hits := [hit for facts in found for hit in facts if hit]:
                return best_first(hits, k)
        return ()

    async def _look_up(self, subject: Subject, request: ApiRequest) -> list[Hit | None]:
        """Returns the passages on what of this kind has the name."""
        try:
            return await gather_or_cancel(
                self._passage(part, name, entity, score, request)
                for name, entity, score in await self._named(subject, request.name)
                for part in subject.parts
                if part.topic in request.topics
            )
        except (AttributeError, IndexError, KeyError, TypeError, ValueError, RecursionError):  # another shape
            return []

    async def _named(self, subject: Subject, name: str) -> list[tuple[str, Mapping[str, Any], float]]:
        """Returns what the API knows under the name: its own name, its object, and the likeness."""
        if not subject.search:
            itself = name.title() if name.islower() else name
            named = teams_in(name, subject.teams)[:2] or (itself if subject.teams else "",)
            return [(team, {}, 100.0 if team else 0.0) for team in named]
        symbol = re.fullmatch(r"\$?([A-Za-z]{1,5}(?:[.-][A-Za-z])?)", name) if subject.id else None
        if symbol and symbol[1].isupper():
            return [(symbol[1], {}, 100.0)]
        known = await self._ask(subject.search, query=name) or []
        names = [entity[subject.field] if subject.field else entity for entity in known]
        if (best := match(name, names, subject.kind)) is None:
            return [(symbol[1].upper(), {}, 0.0)] if symbol else []
        named, entity = names[best[0]], known[best[0]] if subject.field else {}
        key = await self._ask(subject.id, query=named) if subject.id else named
        return [(key, entity, best[1])] if key else []

    async def _passage(
        self, part: Part, name: str, entity: Mapping[str, Any], score: float, request: ApiRequest
    ) -> Hit | None:
        """Returns the fields of `entity` or the answers of the calls; None if nothing is known."""
        directors = [
            person["name"]
            for person in entity.get("crew", ())
            if isinstance(person, dict) and person.get("job") == "Director"
        ]
        answers = _answers(part, "", {**entity, "directors": directors}) if entity else {}
        asked = [(label, day) for day in request.dates(part.per) for label in part.calls]
        replies = await gather_or_cancel(
            self._ask(
                part.calls[label],
                **{key: text.format(name=name, date=day, label=label) for key, text in part.body.items()},
            )
            for label, day in asked
        )
        for (label, day), reply in zip(asked, replies, strict=True):
            answers |= _answers(part, f"{label} {day}".strip() if label else "", reply)
        for label, path in part.each.items():
            items = (answers.get(label) or [])[:MAX_CALLS]
            found = await gather_or_cancel(self._ask(path, query=item) for item in items)
            answers[label] = [
                reply if isinstance(reply, dict) else f"{item} ({reply or 'undated'})"
                for item, reply in zip(items, found, strict=True)
            ]
        return _hit(part.title.format(name=name), answers, score + (ASKED if part.topic else 0.0), request)

    async def _ask(self, path: str, **body: object) -> Any:
        """Posts `body` to `path` and returns the `result` of the reply. Raises SourceError."""
        where = self.endpoint + path

        async def attempt() -> Any:
            try:
                reply = await self._client.post(where, json=body)
            except httpx.HTTPError as error:
                raise Again(f"does not answer ({type(error).__name__})") from None
            if reply.status_code in (408, 429) or reply.status_code >= 500:
                raise Again(f"answers with status {reply.status_code}", wait_asked(reply.headers))
            try:
                return json.loads(reply.content, parse_constant=lambda _: None)["result"]
            except (ValueError, KeyError, TypeError, RecursionError):
                raise SourceError(
                    f"{where} answers with status {reply.status_code} and no JSON with `result`; see that "
                    "base_url is that of a CRAG mock API."
                ) from None

        try:
            return await on_loop(  # the pool of connections is that of the process's loop
                with_tries(attempt, where, tries=self._tries, total_s=TOTAL_S, sleep=self._sleep)
            )
        except TargetUnavailable as error:
            raise SourceError(f"{str(error).removesuffix('.')}; see that the API is up.") from None


def _answers(part: Part, label: str, reply: Any) -> dict[str, Any]:
    """Returns a reply by label; the fields of an object without one, or the rows of a table."""
    if label or reply is None:
        awards = reply["oscar_awards"] if isinstance(reply, dict) else ()
        winners = {f"{label} {award['category']}": award["name"] for award in awards if award["winner"]}
        return winners or ({label: reply} if label else {})
    if not part.per:
        return {name: reply[name] for name in part.fields or reply if name in reply}
    columns = {name: reply[name] for name in part.fields if name in reply}
    days = columns.pop(part.fields[0])
    return {day: {name: column.get(row) for name, column in columns.items()} for row, day in days.items()}


def _hit(title: str, answers: Mapping[str, Any], score: float, request: ApiRequest) -> Hit | None:
    """Returns the passage of `answers`, a line each; None if nothing is known.

    Of a history, labelled by time, it has the entries that the question names, else the latest before it.
    """
    times = sorted(label for label in answers if re.match(r"\d{4}-\d\d-\d\d", label))
    named = [time for time in times if any(first <= time <= f"{last}~" for first, last in request.spans)]
    before = [time for time in times if time[:10] <= (request.today or "9999")][-LATEST:]
    lines = [
        f"- {label}: {text}" for label in named or before or answers if (text := one_line(answers[label]))
    ]
    if not lines:
        return None
    lines[MAX_LINES:] = [f"{len(lines) - MAX_LINES} more lines are left out."] if lines[MAX_LINES:] else []
    text, name = "\n".join(lines), "-".join(re.findall(r"\w+", title.casefold()))
    return Hit(Passage(f"api/{name}/{digest(text)[:8]}", title, text), score)


def one_line(value: Any) -> str:
    """Returns a JSON value as a line: texts as they are, the rest as JSON; "" for what is empty."""
    if value in (None, "", [], {}):
        return ""
    if isinstance(value, list):
        objects = [item if isinstance(item, dict) else {"": item} for item in value]
        value = [{f: item[f] for f in _ITEM if f in item} or item.get("", item) for item in objects]
    line = " ".join((value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)).split())
    return line if len(line) <= MAX_LINE_CHARS else f"{line[: MAX_LINE_CHARS - 1]}…"


KIND = SourceKind(
    "api",
    ApiOptions,
    lambda inputs, options: ApiSource(**options),
    lambda options: EXTRAS["api"],
    per_question=True,
)
