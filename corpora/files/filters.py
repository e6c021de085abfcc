"""Filters rows by their values: each dotted path must have one of the allowed values.

Values are compared as texts, so that numbers, true and false also match the cells of tables. A list in a row
matches if one of its items does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ragc.corpora.files.rows import as_list, paths, value_at
from ragc.errors import DataError, UsageError, nearest
from ragc.records import Question

Value = str | int | float | bool

Conditions = Mapping[str, Value | Sequence[Value]]
"""The value for each dotted path, or several values of which one must match."""


class Where:
    """The filter of one file. It counts the values it sees, for its error messages.

    Raises UsageError for a condition without a value, or with one that is no text, number or boolean.
    """

    def __init__(self, conditions: Conditions) -> None:
        self._allowed: dict[str, set[str]] = {}
        self._seen: dict[str, Counter[str]] = {path: Counter() for path in conditions}
        self._last: Mapping[str, object] = {}
        self._counts = Counter[bool]()
        for path, condition in conditions.items():
            values = condition if isinstance(condition, list | tuple) else (condition,)
            if not values or not all(isinstance(value, str | int | float) for value in values):
                need = "needs a text, a number, true or false, or a list of them"
                raise UsageError(f"The filter on {path!r} {need}, found {condition!r}.")
            self._allowed[path] = set(map(_spelled, values))

    def keeps(self, values: Mapping[str, object]) -> bool:
        """Returns whether a row with these `values` meets every condition."""
        met = True
        for path, allowed in self._allowed.items():
            texts = [_spelled(item) for item in as_list(value_at(values, path)) if item is not None]
            met = met and not allowed.isdisjoint(texts)
            self._seen[path].update(text[:60] for text in texts)
        self._last = values
        self._counts[met] += 1
        return met

    def problems(self) -> list[str]:
        """Returns the problems of the filter after all rows: a path that no row has, or no row left."""
        if not self._counts or not self._allowed:
            return []
        keys = list(paths(self._last))
        if lacking := [path for path, seen in self._seen.items() if not seen]:
            found = f" Found: {', '.join(map(repr, keys[:10]))}."
            return [
                f"the filter asks for `{path}`, which no row has.{nearest(path, keys) or found}"
                for path in lacking
            ]
        counts = [
            f"`{path}` must be {' or '.join(map(repr, sorted(self._allowed[path])))}, found "
            + ", ".join(f"{value!r} ({n})" for value, n in seen.most_common(5))
            for path, seen in self._seen.items()
        ]
        none_left = f"the filter leaves none of {self._counts.total()} rows: {'; '.join(counts)}"
        return [] if self._counts[True] else [none_left]


def filter_questions(
    questions: Iterable[Question], conditions: Conditions, name: str
) -> tuple[Question, ...]:
    """Returns the questions that meet the `conditions` on `extra`, `split`, `id` and `query_time`.

    `name` is the origin of the questions in errors. Raises DataError if a path occurs in no question or no
    question is left, UsageError as `Where` does.
    """
    where = Where(conditions)
    fields = ("id", "split", "query_time")
    matching = [
        q for q in questions if where.keeps({name: getattr(q, name) for name in fields} | dict(q.extra))
    ]
    if problems := where.problems():
        raise DataError(name, problems)
    return tuple(matching)


def flat(conditions: Mapping[str, object], before: str = "") -> dict[str, object]:
    """Returns nested tables in `conditions` as dotted paths: in TOML `meta.level = 1` is a table `meta`."""
    out: dict[str, object] = {}
    for name, value in conditions.items():
        out |= flat(value, f"{before}{name}.") if isinstance(value, Mapping) else {f"{before}{name}": value}
    return out


def _spelled(value: object) -> str:
    """Returns how a value is compared: true and false in small letters, whole numbers without a point."""
    text = str(int(value) if isinstance(value, float) and value.is_integer() else value).strip()
    return text.lower() if text.lower() in ("true", "false") else text
