"""Which domain a question belongs to, and which facts of a name its words ask for.

RAG-X, "Guidelines for Extracting Information from the Mock API Responses". The paper says what is taken of
each reply and that rules choose the calls; the words below are ours. Its range of years, 1958 to 2019, is
that of the Grammys; the Oscars of the API are those of 1990 to 2021, and prices, games and releases have no
range of their own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from ragc.corpora.api_dates import Span, read_day, spans
from ragc.records import Question

VERSION = 1
"""Raised whenever the same replies would give other passages."""

DOMAINS = ("finance", "music", "movie", "sports", "open")
"""The fields that the API knows, each with paths of its own."""

GRAMMY_YEARS = range(1958, 2020)
OSCAR_YEARS = range(1990, 2022)


def _words(text: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{text})\b", re.IGNORECASE)


TOPICS: Mapping[str, re.Pattern[str]] = {
    "price": _words(
        "prices?|open(?:ed|ing)?|clos(?:e|ed|ing)|highest|lowest|high|low|trad(?:e|ed|es|ing)|volume|stocks?|"
        "shares?|worth|gain(?:ed|s)?|los[st]|rose|fell|dropp?(?:ed)?|perform(?:ed|er|ance)?"
    ),
    "minute": _words(r"minutes?|hours?|intraday|\d{1,2}:\d{2}|\d{1,2} ?[ap]\.?m"),
    "dividend": _words("dividends?|yield"),
    "market cap": _words("market[- ]cap(?:italization)?|valuation|market value"),
    "eps": _words("eps|earnings? per share"),
    "pe": _words(r"p/?e|price[- ]to[- ]earnings|(?:p/?e|earnings) (?:ratio|multiple)"),
    "works": _words(
        "songs?|albums?|works?|tracks?|singles?|discography|releas(?:e|ed|es)|record(?:s|ed)?|hits?"
    ),
    "order": _words("first|last|latest|newest|recent|earliest|oldest|debut|years?|when|since|before|after"),
    "grammy": _words("grammys?|grammies|awards?"),
    "chart": _words("billboard|charts?|hot 100|rank(?:ed|ing|s)?|number[- ]one|no\\. ?1|weeks"),
    "roles": _words(
        "movies?|films?|act(?:s|ed|ing|or|ress)?|star(?:s|red|ring)?|play(?:s|ed)?|direct(?:s|ed|or|ing)?|"
        "appear(?:s|ed)?|cast|roles?|made"
    ),
    "soccer": _words(
        "soccer|football|premier league|epl|la liga|serie a|bundesliga|ligue 1|mls|champions league|goals?|fc"
    ),
    "oscar": _words(
        "oscars?|academy awards?|awards?|nominat(?:ed|ion|ions)|best (?:picture|actor|actress|director)"
    ),
}  # fmt: skip
"""Words that ask for a fact."""

FIELDS: Mapping[str, re.Pattern[str]] = {
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
}  # fmt: skip
"""Words that tell a domain."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question as the rules see it. `day` is when it was asked; None when that is not said.

    `domains` are groups of domains: those of a group are looked in when the groups before gave nothing.
    """

    text: str
    day: date | None
    spans: tuple[Span, ...]
    domains: tuple[tuple[str, ...], ...]

    def wants(self, *topics: str) -> bool:
        """Whether the question has a word of one of `topics`."""
        return any(TOPICS[topic].search(self.text) for topic in topics)

    def years(self, known: range) -> tuple[int, ...]:
        """The years that the question names and `known` holds, in order, each once."""
        named = (year for span in self.spans for year in span.years())
        return tuple(dict.fromkeys(year for year in named if year in known))

    def within(self, day: str) -> bool:
        """Whether the ISO date `day` lies in a span that the question names."""
        return any(span.holds(day) for span in self.spans)


def asked(question: Question | None, query: str) -> Asked:
    """`question` as the rules see it; the query alone when no question is being answered."""
    if question is None:
        return Asked(query, None, spans(query, None), domains(query, ""))
    day = read_day(question.query_time)
    said = str(question.extra.get("domain") or "")
    return Asked(question.question, day, spans(question.question, day), domains(question.question, said))


def domains(text: str, said: str) -> tuple[tuple[str, ...], ...]:
    """The domains to look in: only that which the data set `said`, where it did.

    Else those with most words in `text`, then the others; all at once when `text` has no such word.
    """
    if said in DOMAINS:
        return ((said,),)
    counts = {name: len(FIELDS[name].findall(text)) if name in FIELDS else 0 for name in DOMAINS}
    most = max(counts.values())
    first = tuple(name for name in DOMAINS if counts[name] == most)
    others = tuple(name for name in DOMAINS if counts[name] < most)
    return (first, others) if others else (first,)
