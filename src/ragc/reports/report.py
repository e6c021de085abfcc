"""The content of a report, and how its figures are written.

Each record becomes one line of the JSONL file next to the page, with its kind as `row`, one of `KINDS`.
Scores are those of a metric as it is written, not signed. All figures of a metric have the same number of
decimals, by `decimals_of`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

KINDS = (
    "report", "verdict", "setting", "changes", "score", "difference", "trial", "importance",
    "slice", "threshold", "front", "cost", "budget", "group", "question", "fact",
)  # fmt: skip
"""The kinds of records, in the order of the file."""

MAX_DEPTH = 40
"""Levels of a value that are taken over; what is nested deeper is left out."""

MAX_EXACT_INT = 2**53
"""The greatest integer that a browser's JSON takes as it is."""

Tone = Literal["better", "worse", "open", "none"]
"""How a verdict reads: "open" is "not shown to be better" or unfinished, "none" has no comparison."""

Change = Literal["gained", "lost", "unchanged", "only once"]
"""A question in two runs: its score rose, fell, stayed, or one of them does not have it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The first part of a report: a headline, a recommendation, and sentences that qualify it."""

    headline: str
    tone: Tone = "none"
    sentences: tuple[str, ...] = ()
    recommendation: str = ""


@dataclass(frozen=True, slots=True)
class Difference:
    """The mean difference of `metric` between two runs on `n` common questions, with its 95% interval.

    `p` and the interval are adjusted for earlier test uses, and for all metrics where `adjusted` says so.
    `decides` marks the metric of the verdict.
    """

    metric: str
    split: str
    before: str
    after: str
    mean: float
    low: float
    high: float
    p: float
    n: int
    adjusted: bool = False
    decides: bool = False
    verdict: str = ""


@dataclass(frozen=True, slots=True)
class Trial:
    """One trial of a study on dev questions.

    `values` are by objective. `best` is the best complete value of the deciding objective up to this trial,
    `expected` what is expected of it beyond dev. `low` and `high` are the 95% interval of the deciding
    objective over the questions seen, None where that is no mean over questions. `of` counts the questions of
    a complete trial, `seen` those of this one. `params` are its choices by dimension of the search.
    """

    number: int
    choices: str
    values: Mapping[str, float]
    seen: int
    of: int
    complete: bool
    best: float | None = None
    low: float | None = None
    high: float | None = None
    expected: float | None = None
    front: bool = False
    chosen: bool = False
    failed: int = 0
    failures: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    counters: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QuestionLine:
    """A question with its answers by run, and its change from the first run to the last; None for one run.

    An answer has `scores`, `prediction`, `answered`, `failure`, `group`, `group_title`, `passages`,
    `counters` and `trace`. Its `prediction` is None if there is none, or if only scores were stored: then
    `answered` is False.
    """

    id: str
    question: str
    answers: tuple[str, ...]
    gold_ids: tuple[str, ...]
    runs: Mapping[str, Mapping[str, Any]]
    change: Change | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """A report. `runs` are the names of the runs with questions, the reference of comparisons first.

    `subject` is "study", "compiled" or "rows". `metric` decides; `objectives` are those of the search, each
    with whether more is better. `metrics` are the metrics by question. `gaps` are sentences on what the
    report lacks and why, `remarks` on what its figures cannot show. `records` are the other records by kind.
    """

    title: str
    subject: str
    verdict: Verdict
    metric: str = ""
    split: str = ""
    runs: tuple[str, ...] = ()
    objectives: Mapping[str, bool] = field(default_factory=dict)
    metrics: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()
    questions: tuple[QuestionLine, ...] = ()
    records: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yields the lines of the JSONL file."""
        apart = ("verdict", "questions", "records")
        about = {name: value for name, value in _values(self).items() if name not in apart}
        records = {**self.records, "report": [about], "verdict": [self.verdict], "question": self.questions}
        for kind in KINDS:
            for record in records.get(kind, ()):
                yield {"row": kind, **(record if isinstance(record, Mapping) else _values(record))}


def _values(record: Any) -> dict[str, Any]:
    """Returns the fields of a dataclass, not copied: traces are large."""
    return {field.name: getattr(record, field.name) for field in fields(record)}


def is_number(value: Any) -> bool:
    """Returns whether `value` is a number that a browser's JSON takes as it is."""
    return (
        math.isfinite(value)
        if isinstance(value, float)
        else type(value) is int and abs(value) <= MAX_EXACT_INT
    )


def plain(value: Any, depth: int = MAX_DEPTH) -> Any:
    """Returns `value` as JSON that a browser reads: other numbers are texts, all keys are texts."""
    if isinstance(value, str | bool | None) or is_number(value):
        return value
    if isinstance(value, Mapping | list | tuple) and not depth:
        return "…"
    if isinstance(value, Mapping):
        return {str(key): plain(item, depth - 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, depth - 1) for item in value]
    return str(value)


def total(rows: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Returns the sums of the numbers in `rows`, by name."""
    values: dict[str, list[float]] = {}
    for name, value in (item for row in rows for item in row.items() if is_number(item[1])):
        values.setdefault(name, []).append(value)
    return {name: round(sum(numbers), 6) for name, numbers in values.items()}


def varied(choices: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Returns the `choices` of some trials by dimension, of those with more than one value; None for none."""
    names = dict.fromkeys(name for chosen in choices for name in chosen)
    columns = {name: [chosen.get(name) for chosen in choices] for name in names}
    return {name: values for name, values in columns.items() if len({repr(value) for value in values}) > 1}


def decimals_of(values: Iterable[float | None]) -> int:
    """Returns the decimals with which all figures of a metric are written, by the largest of its `values`.

    Three for shares, fewer for large numbers, and for small ones as many as three significant digits need.
    """
    largest = max((abs(value) for value in values if value is not None), default=0.0)
    if largest >= 100:
        return 1 if largest < 10_000 else 0
    return min(12, 2 - math.floor(math.log10(largest))) if 0 < largest < 0.01 else 3


def figure(value: float | None, decimals: int | None = None) -> str:
    """Returns a score for people, with a true minus sign; "–" for None."""
    if value is None:
        return "–"
    return f"{value:z,.{decimals_of([value]) if decimals is None else decimals}f}".replace(
        "-", "\N{MINUS SIGN}"
    )


def signed(value: float, decimals: int | None = None) -> str:
    """Returns a difference for people, with its sign; 0 has none."""
    text = figure(value, decimals)
    return f"+{text}" if value > 0 and re.search("[1-9]", text) else text


def amount(value: float) -> str:
    """Returns an amount for people: integers as they are, others with four significant digits."""
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 10_000 else f"{value:,.4g}"
