"""Reads a question for the API: its domain, the facts that its words ask for, and the dates it names.

Paper: RAG-X, "Guidelines for Extracting Information from the Mock API Responses". The paper lists the parts
taken from each reply, and says that rules choose the calls. Differs: the words of the rules are ours. The
paper's range of years, 1958 to 2019, is that of the Grammys; the Oscars of the API are those of 1990 to 2021;
prices, games and releases have no range of their own.

Dates are resolved against the time of the question. Weeks run from Monday to Sunday. Times of day and time
zones are ignored: "yesterday" is the day before the date of the query time. "Last" is the nearest one
completely before the query day, "this" the one that contains it. A date without a year, and a weekday or
month alone, is the latest one up to the query day.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta

from ragc.records import Question

DAYS_APART = 14
"""Spans of at most so many days are asked for day by day, longer ones by month or year."""

_MONTHS = {name.lower(): n for n, name in enumerate(calendar.month_name) if name}
_MONTHS |= {name.lower(): n for n, name in enumerate(calendar.month_abbr) if name} | {"sept": 9}
_WEEKDAYS = {name.lower(): n for n, name in enumerate(calendar.day_name)}
_NUMBERS = {
    "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
    "nine": 9, "ten": 10,
}  # fmt: skip


@dataclass(frozen=True, slots=True, order=True)
class DayRange:
    """The days from `start` to `end`, both included; `start <= end`."""

    start: date
    end: date

    def holds(self, day: str) -> bool:
        """Returns whether the ISO date or time `day` ("2024-03-04 00:00:00 EST") lies in this span."""
        return self.start.isoformat() <= day[:10] <= self.end.isoformat()

    def years(self) -> range:
        """Returns every year that this span touches."""
        return range(self.start.year, self.end.year + 1)

    def stamps(self) -> tuple[str, ...]:
        """Returns API dates that together cover the span: YYYY-MM-DD, for longer spans YYYY-MM, else YYYY."""
        days = (self.end - self.start).days + 1
        if days <= DAYS_APART:
            return tuple((self.start + timedelta(n)).isoformat() for n in range(days))
        first, last = self.start.year * 12 + self.start.month - 1, self.end.year * 12 + self.end.month - 1
        if last - first < 6:
            return tuple(f"{n // 12:04}-{n % 12 + 1:02}" for n in range(first, last + 1))
        return tuple(f"{year:04}" for year in self.years())

    def __str__(self) -> str:
        return self.start.isoformat() if self.start == self.end else f"{self.start} to {self.end}"


def read_day(time: str) -> date | None:
    """Returns the day of a query time, "03/05/2024, 23:18:31 PT" or ISO 8601; None when it is neither."""
    if match := re.match(r"\s*(\d{1,2})/(\d{1,2})/(\d{4})\b", time):
        month, day, year = map(int, match.groups())
    elif match := re.match(r"\s*(\d{4})-(\d{1,2})-(\d{1,2})(?!\d)", time):
        year, month, day = map(int, match.groups())
    else:
        return None
    try:
        return date(year, month, day)
    except ValueError:
        return None


def spans(text: str, today: date | None) -> tuple[DayRange, ...]:
    """Returns the time spans that `text` names, each once, in the order of the text.

    Dates that do not exist are left out, and so are those that depend on the query day when that is None.
    """
    text = " ".join(text.casefold().split())
    matches: list[tuple[int, DayRange]] = []
    for pattern, resolve in _RULES:
        for match in pattern.finditer(text):
            try:
                span = resolve(match, today)
            except (ValueError, OverflowError):  # no such date, or no query day to count from
                span = None
            if span:
                matches.append((match.start(), span))
        text = pattern.sub(lambda match: "\n" * len(match.group()), text)  # read once, by the first rule
    return tuple(dict.fromkeys(span for _, span in sorted(matches)))


def _day(year: int, month: int, day: int) -> DayRange:
    only = date(year, month, day)
    return DayRange(only, only)


def _full_date(year: str, month: str, day: str) -> DayRange:
    return _day(int(year), _MONTHS[month], int(day))


def _month(year: int, month: int) -> DayRange:
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    return DayRange(date(year, month, 1), date(year, month, calendar.monthrange(year, month)[1]))


def _year(year: int, years: int = 1) -> DayRange:
    return DayRange(date(year, 1, 1), date(year + years - 1, 12, 31))


def _require_day(today: date | None) -> date:
    if today is None:
        raise ValueError("the query day is not known")
    return today


def _latest_day(month: int, day: int, today: date | None) -> DayRange:
    now = _require_day(today)
    years = range(now.year, now.year - 9, -1)  # eight years back there is a 29 February
    fits = (year for year in years if day <= calendar.monthrange(year, month)[1])
    latest = next((span for span in (_day(year, month, day) for year in fits) if span.start <= now), None)
    if latest is None:
        raise ValueError("no month has such a day")
    return latest


def _latest_month(month: int, word: str, today: date | None) -> DayRange:
    now = _require_day(today)
    same = _month(now.year, month)
    begun = same.end < now if word == "last" else same.start <= now
    return same if begun or word == "this" else _month(now.year - 1, month)


def _weekday(word: str, name: str, today: date | None) -> DayRange:
    now, weekday = _require_day(today), _WEEKDAYS[name]
    back = (now.weekday() - weekday) % 7
    if word == "this":
        day = now + timedelta(weekday - now.weekday())
    elif word in ("next", "coming"):
        day = now + timedelta(7 - back)
    else:
        day = now - timedelta(back or (7 if word in ("last", "past", "previous") else 0))
    return DayRange(day, day)


def _period(word: str, unit: str, today: date | None) -> DayRange:
    now = _require_day(today)
    step = {"last": -1, "past": -1, "previous": -1, "next": 1}.get(word, 0)
    monday = now + timedelta(7 * step - now.weekday())
    if unit == "weekend":
        return DayRange(monday + timedelta(5), monday + timedelta(6))
    if unit == "week":
        return DayRange(monday, monday + timedelta(6))
    if unit == "month":
        return _month(now.year, now.month + step)
    if unit == "quarter":
        first = (now.month - 1) // 3 * 3 + 1 + 3 * step
        return DayRange(_month(now.year, first).start, _month(now.year, first + 2).end)
    return _year(now.year + step)


def _subtract_units(now: date, number: str, unit: str) -> date:
    """Returns the day `number` units before `now`; the last of its month if that is shorter."""
    count = int(number) if number.isdecimal() else _NUMBERS[number]
    if unit in ("day", "week"):
        return now - timedelta(count * (7 if unit == "week" else 1))
    month = _month(now.year, now.month - count * (12 if unit == "year" else 1))
    return month.start.replace(day=min(now.day, month.end.day))


def _ago(match: re.Match[str], today: date | None) -> DayRange:
    then, unit = _subtract_units(_require_day(today), match[1], match[2]), match[2]
    return {"month": _month(then.year, then.month), "year": _year(then.year)}.get(unit, DayRange(then, then))


def _near(days: int, today: date | None) -> DayRange:
    day = _require_day(today) + timedelta(days)
    return DayRange(day, day)


Resolve = Callable[[re.Match[str], date | None], DayRange]
_M = "(" + "|".join(sorted(_MONTHS, key=len, reverse=True)) + r")\b\.?"
_W = "(" + "|".join(_WEEKDAYS) + ")"
_N = r"(\d{1,4}|" + "|".join(_NUMBERS) + ")"
_TH = "(?:st|nd|rd|th)"
_RULES: tuple[tuple[re.Pattern[str], Resolve], ...] = tuple(
    (re.compile(pattern), resolve)
    for pattern, resolve in (
        (r"\b(\d{4})-(\d{1,2})-(\d{1,2})\b", lambda m, _: _day(int(m[1]), int(m[2]), int(m[3]))),
        (r"\b(\d{1,2})/(\d{1,2})/(\d{4})\b", lambda m, _: _day(int(m[3]), int(m[1]), int(m[2]))),
        (rf"\b{_M} (\d{{1,2}}){_TH}?,? (?:of )?(\d{{4}})\b", lambda m, _: _full_date(m[3], m[1], m[2])),
        (rf"\b(\d{{1,2}}){_TH}? (?:of )?{_M},? (\d{{4}})\b", lambda m, _: _full_date(m[3], m[2], m[1])),
        (rf"\b{_M},? (?:of )?(\d{{4}})\b", lambda m, _: _month(int(m[2]), _MONTHS[m[1]])),
        (r"\b(\d{4})-(\d{2})\b(?!-)", lambda m, _: _month(_real(int(m[1]), int(m[2])), int(m[2]))),
        (rf"\b{_M} (\d{{1,2}}){_TH}?\b", lambda m, now: _latest_day(_MONTHS[m[1]], int(m[2]), now)),
        (rf"\b(\d{{1,2}}){_TH} (?:of )?{_M}", lambda m, now: _latest_day(_MONTHS[m[2]], int(m[1]), now)),
        (rf"\b(in|of|during|since|last|this) {_M}", lambda m, now: _latest_month(_MONTHS[m[2]], m[1], now)),
        (r"\bday before yesterday\b", lambda _, now: _near(-2, now)),
        (r"\byesterday\b", lambda _, now: _near(-1, now)),
        (r"\b(?:today|tonight)\b", lambda _, now: _near(0, now)),
        (r"\btomorrow\b", lambda _, now: _near(1, now)),
        (
            rf"\b(?:(last|past|previous|this|next|coming|on) )?{_W}\b",
            lambda m, now: _weekday(m[1] or "", m[2], now),
        ),
        (
            r"\b(last|past|previous|this|current|next) (week|weekend|month|quarter|year)\b",
            lambda m, now: _period(m[1], m[2], now),
        ),
        (rf"\b{_N} (day|week|month|year)s? ago\b", _ago),
        (
            rf"\b(?:last|past|previous) {_N} (day|week|month|year)s?\b",
            lambda m, now: DayRange(_subtract_units(_require_day(now), m[1], m[2]), _require_day(now)),
        ),
        (
            r"\b(?:between|from) ((?:19|20)\d\d) (?:and|to|until|through) ((?:19|20)\d\d)\b",
            lambda m, _: _year(int(m[1]), max(1, int(m[2]) - int(m[1]) + 1)),
        ),
        (r"(?<![\w$#.,-])((?:19|20)\d)0s\b", lambda m, _: _year(int(m[1]) * 10, 10)),
        (r"(?<![\w$#.,-])((?:19|20)\d\d)(?![\w%-]|[.,]\d)", lambda m, _: _year(int(m[1]))),
    )
)


def _real(year: int, month: int) -> int:
    """Returns `year`, when `month` is one; raises ValueError for others."""
    return date(year, month, 1).year


VERSION = 2
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
class ParsedQuestion:
    """A question in the form of the rules. `day` is when it was asked; None if unknown.

    `nameless` says that no name was found in it, so that it is searched itself. `domains` are groups of
    domains: a group is searched if the groups before gave nothing.
    """

    text: str
    day: date | None
    spans: tuple[DayRange, ...]
    domains: tuple[tuple[str, ...], ...]
    nameless: bool = False

    def wants(self, *topics: str) -> bool:
        """Returns whether the question has a word of one of `topics`."""
        return any(TOPICS[topic].search(self.text) for topic in topics)

    def years(self, known: range) -> tuple[int, ...]:
        """Returns the years that the question names and `known` holds, in order, each once."""
        named = (year for span in self.spans for year in span.years())
        return tuple(dict.fromkeys(year for year in named if year in known))

    def within(self, day: str) -> bool:
        """Returns whether the ISO date `day` lies in a span that the question names."""
        return any(span.holds(day) for span in self.spans)


def parse_question(question: Question | None, query: str) -> ParsedQuestion:
    """Returns `question` in the form of the rules; the query alone when no question is being answered."""
    if question is None:
        return ParsedQuestion(query, None, spans(query, None), domains(query, ""))
    day, text = read_day(question.query_time), question.question
    domain = str(question.extra.get("domain") or "")
    nameless = " ".join(text.split()) == query
    return ParsedQuestion(text, day, spans(text, day), domains(text, domain), nameless)


def domains(text: str, domain: str) -> tuple[tuple[str, ...], ...]:
    """Returns the domains to search: only `domain`, if the program named an existing one.

    Else those with most words in `text`, then the others; all at once when `text` has no such word.
    """
    if domain in DOMAINS:
        return ((domain,),)
    counts = {name: len(FIELDS[name].findall(text)) if name in FIELDS else 0 for name in DOMAINS}
    most = max(counts.values())
    first = tuple(name for name in DOMAINS if counts[name] == most)
    others = tuple(name for name in DOMAINS if counts[name] < most)
    return (first, others) if others else (first,)
