"""Filters rows by their values.

A condition is a dotted path with one value or several; a row passes if every condition matches. A list in a
row matches if one of its items does. Numbers, true and false also match the text that spells them, because
tables contain texts.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from ragc.corpora.files.values import NOWHERE, as_json, paths, value_at
from ragc.errors import DataError, UsageError, nearest
from ragc.records import Question

Value = str | int | float | bool

Conditions = Mapping[str, Value | Sequence[Value]]
"""The value for each dotted path, or several values of which one must match."""

_MAX_SHOWN_VALUES = 5
_MAX_COUNTED_VALUES = 1000
_MAX_PATHS = 200
_MAX_SHOWN_CHARS = 60


class Where:
    """The filter of one file. It counts the values it sees, for its error messages.

    Raises UsageError for a condition without a value, or with one that is no text, number or boolean.
    """

    def __init__(self, conditions: Conditions) -> None:
        self._conditions = {path: _several(path, condition) for path, condition in conditions.items()}
        self._seen: dict[str, Counter[str]] = {path: Counter() for path in self._conditions}
        self._seen_paths: set[str] = set()
        self._paths: dict[str, None] = {}
        self._rows = 0
        self._n_matching = 0

    def __bool__(self) -> bool:
        return bool(self._conditions)

    def keeps(self, values: Mapping[str, object]) -> bool:
        """Returns whether a row with these `values` meets every condition."""
        self._rows += 1
        met = [self._meets(values, path) for path in self._conditions]  # all must count their values
        matches = all(met)
        if len(self._seen_paths) < len(self._conditions) and len(self._paths) < _MAX_PATHS:
            self._paths |= dict.fromkeys(islice(paths(dict(values)), _MAX_PATHS))
        self._n_matching += matches
        return matches

    def problems(self) -> list[str]:
        """Returns the problems of the filter after all rows: a path that no row has, or no row left."""
        if not self._rows:
            return []
        if never := [path for path in self._conditions if path not in self._seen_paths]:
            return [
                f"the filter asks for `{path}`, which no row has.{self._suggest_paths(path)}"
                for path in never
            ]
        if self._conditions and not self._n_matching:
            seen = "; ".join(self._counts(path) for path in self._conditions)
            return [f"the filter leaves none of {self._rows} rows: {seen}"]
        return []

    def _meets(self, values: Mapping[str, object], path: str) -> bool:
        value = value_at(values, path)
        if value is NOWHERE:
            return False
        self._seen_paths.add(path)
        items = value if isinstance(value, list) else [value]
        seen = self._seen[path]
        for item in items:
            shown = _format_value(item)
            if shown in seen or len(seen) < _MAX_COUNTED_VALUES:
                seen[shown] += 1
        return any(_same(item, expected) for item in items for expected in self._conditions[path])

    def _suggest_paths(self, path: str) -> str:
        near = nearest(path, self._paths)
        return near or f" Found: {', '.join(map(repr, islice(self._paths, _MAX_SHOWN_VALUES * 2)))}."

    def _counts(self, path: str) -> str:
        seen = self._seen[path]
        most = ", ".join(f"{value} ({n})" for value, n in seen.most_common(_MAX_SHOWN_VALUES))
        rest = len(seen) - _MAX_SHOWN_VALUES
        more = f" and {rest} other values" if rest > 0 else ""
        expected_values = " or ".join(map(_format_value, self._conditions[path]))
        return f"`{path}` must be {expected_values}, found {most or 'empty lists'}{more}"


def filter_questions(
    questions: Iterable[Question], conditions: Conditions, name: str
) -> tuple[Question, ...]:
    """Returns the questions that meet the `conditions` on `extra`, `split`, `id` and `query_time`.

    `name` is the origin of the questions in errors. Raises DataError if a path occurs in no question or no
    question is left, UsageError as `Where` does.
    """
    where = Where(conditions)
    matching = tuple(question for question in questions if where.keeps(_values(question)))
    if problems := where.problems():
        raise DataError(name, problems)
    return matching


def flat(conditions: Mapping[str, object], before: str = "") -> dict[str, object]:
    """Returns nested tables in `conditions` as dotted paths: in TOML `meta.level = 1` is a table `meta`."""
    out: dict[str, object] = {}
    for name, value in conditions.items():
        out |= flat(value, f"{before}{name}.") if isinstance(value, Mapping) else {f"{before}{name}": value}
    return out


def _values(question: Question) -> dict[str, object]:
    own = {name: getattr(question, name) for name in ("id", "split", "query_time")}
    return {**own, **question.extra}


def _several(path: str, condition: object) -> tuple[Value, ...]:
    values = tuple(condition) if isinstance(condition, list | tuple) else (condition,)
    if not values or not all(map(_is_plain, values)):
        raise UsageError(
            f"The filter on {path!r} needs a text, a number, true or false, or a list of them, "
            f"found {condition!r}."
        )
    return values


def _is_plain(value: object) -> bool:
    return isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))


def _same(value: object, expected: Value) -> bool:
    if isinstance(expected, str):
        return value == expected
    if isinstance(value, str):
        spelled = value.strip()
        return (spelled.lower() if isinstance(expected, bool) else spelled) == json.dumps(expected)
    return isinstance(value, bool) == isinstance(expected, bool) and value == expected


def _format_value(value: object) -> str:
    text = json.dumps(as_json(value), ensure_ascii=False)
    return text if len(text) <= _MAX_SHOWN_CHARS else f"{text[: _MAX_SHOWN_CHARS - 1]}…"
