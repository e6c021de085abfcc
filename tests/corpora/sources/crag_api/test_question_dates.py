"""Dates of a question are resolved against its query time by the stated rules."""

from __future__ import annotations

import re
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragc.corpora.sources.crag_api.question import DAYS_APART, DayRange, read_day, spans

TUESDAY = date(2024, 3, 5)
WORDS = "last next this 2 31 feb may monday year weeks ago 1999 0000-00-00 2/30/2024 in , past"
JUMBLE = re.findall(r"\S+", WORDS)


def read_spans(text: str, today: date | None = TUESDAY) -> list[str]:
    return [str(span) for span in spans(text, today)]


@pytest.mark.parametrize(
    ("time", "day"),
    [
        ("03/05/2024, 23:18:31 PT", TUESDAY),
        ("3/5/2024", TUESDAY),
        ("2024-03-05T23:18:31Z", TUESDAY),
        ("2024-03-05", TUESDAY),
        ("13/05/2024, 00:00:00 PT", None),
        ("yesterday", None),
        ("", None),
    ],
)
def test_query_times_are_american_or_iso(time: str, day: date | None) -> None:
    assert read_day(time) == day


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the closing price yesterday", "2024-03-04"),
        ("the day before yesterday", "2024-03-03"),
        ("games today?", "2024-03-05"),
        ("Tomorrow", "2024-03-06"),
        ("last friday", "2024-03-01"),
        ("last tuesday", "2024-02-27"),
        ("on tuesday", "2024-03-05"),
        ("on wednesday", "2024-02-28"),
        ("this friday", "2024-03-08"),
        ("next tuesday", "2024-03-12"),
        ("this week", "2024-03-04 to 2024-03-10"),
        ("last week", "2024-02-26 to 2024-03-03"),
        ("last weekend", "2024-03-02 to 2024-03-03"),
        ("this month", "2024-03-01 to 2024-03-31"),
        ("last month", "2024-02-01 to 2024-02-29"),
        ("last quarter", "2023-10-01 to 2023-12-31"),
        ("this year", "2024-01-01 to 2024-12-31"),
        ("last year", "2023-01-01 to 2023-12-31"),
        ("two weeks ago", "2024-02-20"),
        ("3 months ago", "2023-12-01 to 2023-12-31"),
        ("over the past 3 days", "2024-03-02 to 2024-03-05"),
        ("in december", "2023-12-01 to 2023-12-31"),
        ("last march", "2023-03-01 to 2023-03-31"),
        ("feb 29", "2024-02-29"),
        ("October 4th", "2023-10-04"),
    ],
)
def test_relative_dates(text: str, expected: str) -> None:
    assert read_spans(text) == [expected]
    assert read_spans(text, None) == []  # nothing to count from


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("on 2019-02-03", "2019-02-03"),
        ("on 2/3/2019", "2019-02-03"),
        ("on March 3rd, 2019", "2019-03-03"),
        ("on 3 march 2019", "2019-03-03"),
        ("in nov. 2019", "2019-11-01 to 2019-11-30"),
        ("in 2019-11", "2019-11-01 to 2019-11-30"),
        ("the 2019 season", "2019-01-01 to 2019-12-31"),
        ("in the 1990s", "1990-01-01 to 1999-12-31"),
        ("between 2010 and 2012", "2010-01-01 to 2012-12-31"),
    ],
)
def test_explicit_dates_need_no_query_time(text: str, expected: str) -> None:
    assert read_spans(text, None) == read_spans(text) == [expected]


@pytest.mark.parametrize(
    "text", ["february 30", "2019-13-40", "$1999", "1999.5", "9999 years ago", "maybe", ""]
)
def test_what_is_no_date_gives_nothing(text: str) -> None:
    assert read_spans(text) == []


def test_several_dates_keep_the_order_of_the_text_and_stand_once() -> None:
    assert read_spans("today, 2019-02-03, yesterday and today") == ["2024-03-05", "2019-02-03", "2024-03-04"]


@pytest.mark.parametrize(
    ("text", "stamps"),
    [
        ("last friday", ["2024-03-01"]),
        ("last weekend", ["2024-03-02", "2024-03-03"]),
        ("last month", ["2024-02"]),
        ("last quarter", ["2023-10", "2023-11", "2023-12"]),
        ("last year", ["2023"]),
    ],
)
def test_stamps_are_days_months_or_years(text: str, stamps: list[str]) -> None:
    assert list(spans(text, TUESDAY)[0].stamps()) == stamps


DAYS = st.dates(date(1900, 1, 1), date(2100, 1, 1))


@given(DAYS, st.integers(0, 4000))
def test_stamps_hold_every_day_of_their_span(start: date, more: int) -> None:
    span = DayRange(start, start + timedelta(more))
    stamps = span.stamps()
    days = [(start + timedelta(n)).isoformat() for n in range(more + 1)]
    assert all(day.startswith(stamps) and span.holds(day) for day in days)
    assert len(set(stamps)) == len(stamps) <= max(DAYS_APART, more / 28 + 2)


@given(st.sampled_from(["last", "this", "next"]), st.sampled_from(["week", "month", "quarter", "year"]), DAYS)
def test_last_lies_before_this_holds_and_next_follows_the_query_day(
    word: str, unit: str, today: date
) -> None:
    (span,) = spans(f"{word} {unit}", today)
    assert {"last": span.end < today, "this": span.start <= today <= span.end, "next": today < span.start}[
        word
    ]


@given(st.text(), st.dates())
def test_any_text_is_read(text: str, today: date) -> None:
    assert all(span.start <= span.end for span in spans(text, today))


@given(st.lists(st.sampled_from(JUMBLE)), st.dates())
def test_any_jumble_of_date_words_is_read(words: list[str], today: date) -> None:
    assert all(span.start <= span.end for span in spans(" ".join(words), today))
