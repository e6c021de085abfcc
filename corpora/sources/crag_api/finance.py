"""Finance: a company or ticker symbol, its prices by day or minute, and its figures."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ragc.core.event_loop import gather_or_cancel
from ragc.corpora.sources.crag_api import names
from ragc.corpora.sources.crag_api.facts import ASKED, Ask, Fact, format_list, table, texts
from ragc.corpora.sources.crag_api.question import ParsedQuestion

LATEST_DAYS = 5
"""Days of prices, or payments of dividends, that are shown when the question names no date."""

PARTS = ("Open", "High", "Low", "Close", "Volume")

INFO = {
    "longName": "name", "sector": "sector", "industry": "industry", "country": "country", "city": "city",
    "fullTimeEmployees": "employees", "marketCap": "market capitalization", "forwardEps": "forward EPS",
    "trailingEps": "trailing EPS", "forwardPE": "forward P/E ratio", "trailingPE": "trailing P/E ratio",
    "dividendYield": "dividend yield", "dividendRate": "dividend rate", "totalRevenue": "revenue",
    "fiftyTwoWeekHigh": "52-week high", "fiftyTwoWeekLow": "52-week low", "currency": "currency",
    "website": "website",
}  # fmt: skip
"""What is shown of `get_info`, under which name; what it does not hold is left out."""

FIGURES = {
    "market cap": ("/finance/get_market_capitalization", "market capitalization"),
    "eps": ("/finance/get_eps", "earnings per share"),
    "pe": ("/finance/get_pe_ratio", "price-to-earnings ratio"),
}
"""The path and the name of each single figure, by topic."""

_SYMBOL = re.compile(r"\$?[A-Za-z]{1,5}(?:[.-][A-Za-z])?")


async def look_up(ask: Ask, name: str, question: ParsedQuestion) -> list[Fact]:
    """Returns the API's facts on the company or symbol `name`; raises SourceError.

    One to five capitals are a symbol; anything else is a company, and a symbol when no company fits.
    """
    match = await _ticker(ask, name)
    if match is None:
        return []
    ticker, score = match
    calls = [_info(ask, ticker, score), _figures(ask, ticker, score, question)]
    if question.wants("price", "minute"):
        calls.append(_prices(ask, ticker, score, question))
    if question.wants("dividend"):
        calls.append(_dividends(ask, ticker, score, question))
    return [fact for fact in await gather_or_cancel(calls) if fact]


async def _ticker(ask: Ask, name: str) -> tuple[str, float] | None:
    symbol = name.lstrip("$").upper() if _SYMBOL.fullmatch(name) else ""
    if symbol and symbol == name.lstrip("$"):
        return symbol, 100.0
    known = texts(await ask("/finance/get_company_name", query=name))
    if fit := names.match(name, known, "company"):
        ticker = await ask("/finance/get_ticker_by_name", query=fit.name)
        if isinstance(ticker, str) and ticker:
            return ticker, fit.score
    return (symbol, names.LEAST["company"]) if symbol else None


async def _info(ask: Ask, ticker: str, score: float) -> Fact | None:
    info = await ask("/finance/get_info", query=ticker)
    if not isinstance(info, Mapping):
        return None
    shown = {label: info[name] for name, label in INFO.items() if info.get(name) is not None}
    return Fact(f"finance/{ticker}/info", f"{ticker}: company", format_list(shown), score) if shown else None


async def _figures(ask: Ask, ticker: str, score: float, question: ParsedQuestion) -> Fact | None:
    topics = [topic for topic in FIGURES if question.wants(topic)]
    figures = await gather_or_cancel(ask(FIGURES[topic][0], query=ticker) for topic in topics)
    pairs = zip(topics, figures, strict=True)
    shown = {FIGURES[topic][1]: figure for topic, figure in pairs if isinstance(figure, int | float)}
    if not shown:
        return None
    key = f"finance/{ticker}/figures/{','.join(topics).replace(' ', '-')}"
    return Fact(key, f"{ticker}: key figures", format_list(shown), score + ASKED)


async def _prices(ask: Ask, ticker: str, score: float, question: ParsedQuestion) -> Fact | None:
    by_minute = question.wants("minute")
    path = "/finance/get_detailed_price_history" if by_minute else "/finance/get_price_history"
    history = await ask(path, query=ticker)
    times = _select_times(history, question)
    if by_minute:
        times = _filter_by_clock(times, question)
    days = [(time, history[time]) for time in times if isinstance(history[time], Mapping)]
    if not days:
        return None
    rows = [[time if by_minute else time[:10], *(day.get(part) for part in PARTS)] for time, day in days]
    title = f"{ticker}: stock prices by {'minute' if by_minute else 'day'}"
    key = f"finance/{ticker}/prices/{days[0][0]}-{days[-1][0]}-{len(days)}".replace(" ", "T")
    return Fact(key, title, table(("date", *map(str.lower, PARTS)), rows), score + ASKED)


async def _dividends(ask: Ask, ticker: str, score: float, question: ParsedQuestion) -> Fact | None:
    history = await ask("/finance/get_dividends_history", query=ticker)
    times = _select_times(history, question)
    if not times:
        return None
    text = table(("date", "dividend"), [(time[:10], history[time]) for time in times])
    return Fact(
        f"finance/{ticker}/dividends/{times[0][:10]}-{times[-1][:10]}-{len(times)}",
        f"{ticker}: dividends",
        text,
        score + ASKED,
    )


def _select_times(history: Any, question: ParsedQuestion) -> list[str]:
    """Returns the times of a history, in order, that the question names.

    If it names none, or none in the history: the latest up to the query day, or of all when that is unknown.
    """
    if not isinstance(history, Mapping):
        return []
    times = sorted(time for time in history if isinstance(time, str))
    if named := [time for time in times if question.within(time)]:
        return named
    last = question.day.isoformat() if question.day else "9999"
    return [time for time in times if time[:10] <= last][-LATEST_DAYS:]


def _filter_by_clock(times: list[str], question: ParsedQuestion) -> list[str]:
    """Returns the times at the minutes that the question names; all of them when it names none of these."""
    clocks = set()
    for hour, minute, half in re.findall(
        r"\b(\d{1,2})(?::(\d{2}))? ?([ap]\.?m)?\b", question.text.casefold()
    ):
        if minute or half:
            late = 12 if half.startswith("p") and int(hour) < 12 else 0
            early = 12 if half.startswith("a") and int(hour) == 12 else 0
            clocks.add(f"{int(hour) + late - early:02}:{minute or '00'}")
    return [time for time in times if time[11:16] in clocks] or times
