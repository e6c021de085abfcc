"""One row of a file, and validated access to its fields."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from ragc.errors import nearest

BOM = b"\xef\xbb\xbf"
"""The byte-order mark of UTF-8."""

MOST_PROBLEMS = 20
"""The number of problems of one row, or object in it, after which the items of its lists are not read."""

DEEPEST = 100
"""The greatest nesting of lists and objects in one row."""

_FIELDS_COMPARED = 1000
_MAX_SHOWN_CHARS = 80
_COLUMNS_SHOWN = 12
_EXAMPLES = ("answers", "text", "question")
_MAPPED = frozenset({"id", "question", "answers", "title", "text"})
_FIELD_TABLES = {
    "question": "the recipe's table [data.fields]",
    "passage": "the recipe's table [data.corpus_fields]",
}

_KINDS = {
    str: "a string", bool: "true or false", int: "a number", float: "a number",
    list: "a list", dict: "an object", type(None): "null",
}  # fmt: skip


@dataclass(slots=True)
class FileRow:
    """One row of a file, its location ("line 3", "item 3"), and the problems of its fields.

    `columns` are those of its table; `absent` are needed columns that the table lacks.
    """

    location: str
    values: dict[str, Any]
    problems: list[str] = field(default_factory=list)
    columns: tuple[str, ...] = ()
    absent: list[str] = field(default_factory=list)

    def text(self, name: str, *, needed: bool = True, blank: bool = False, number: bool = False) -> str:
        """Returns a string field; blank strings are refused unless `blank`, integers unless `number`."""
        if self._absent(name, needed):
            return ""
        value = self.values[name]
        if number and type(value) is int:
            return str(value)
        if not isinstance(value, str):
            self.problems.append(f"`{name}` is {kind(value)}, a string is needed")
        elif not blank and not value.strip():
            self.problems.append(f"`{name}` is empty")
        else:
            return value
        return ""

    def texts(self, name: str, *, needed: bool = False, number: bool = False) -> tuple[str, ...]:
        """Returns a list of strings that are not blank; at least one if `needed`."""
        value = self.items(name, needed=needed)
        for at, item in self.enumerate_items(value):
            if isinstance(item, str) and not item.strip():
                self.problems.append(f"`{name}[{at}]` is empty")
            elif not isinstance(item, str) and not (number and type(item) is int):
                self.problems.append(f"`{name}[{at}]` is {kind(item)}, a string is needed")
        return tuple(map(str, value))

    def items(self, name: str, *, needed: bool = False) -> list[Any]:
        """Returns a list field; at least one item if `needed`."""
        if self._absent(name, needed):
            return []
        value = self.values[name]
        if not isinstance(value, list):
            self.problems.append(f"`{name}` is {kind(value)}, a list is needed")
            return []
        if needed and not value:
            self.problems.append(f"`{name}` is an empty list, at least one is needed")
        return value

    def enumerate_items(self, items: list[Any]) -> Iterator[tuple[int, Any]]:
        """Yields `items` with their numbers from 0; ends early after `MOST_PROBLEMS` problems."""
        for at, item in enumerate(items):
            if len(self.problems) >= MOST_PROBLEMS:
                return
            yield at, item

    def _absent(self, name: str, needed: bool) -> bool:
        if name in self.values:
            return not needed and self.values[name] is None
        if needed and self.columns:
            self.absent.append(name)
        elif needed:
            near = nearest(name, islice(self.values, _FIELDS_COMPARED))
            self.problems.append(f"`{name}` is missing.{near}")
        return True


def no_columns(row: FileRow, noun: str = "") -> str:
    """Returns the problem of a table without its `absent` columns, with its columns and similar names.

    `noun` says what its rows are: "question", "passage", or "" for rows of both.
    """
    absent = list(dict.fromkeys(row.absent))
    near = "".join(nearest(name, row.columns) for name in absent)
    listed = ", ".join(map(short_repr, row.columns[:_COLUMNS_SHOWN]))
    more = f" and {len(row.columns) - _COLUMNS_SHOWN} more" if len(row.columns) > _COLUMNS_SHOWN else ""
    lacks = (
        f"has no column {', '.join(f'`{name}`' for name in absent)}; its columns are {listed}{more}.{near}"
    )
    if len(row.columns) == 1:
        return f'{lacks} If another character than a comma separates columns, name it: delimiter = ";".'
    usual = "text" if noun == "passage" else "question"
    field = next((name for name in absent if name in _EXAMPLES), usual)
    example = f"{field} = {json.dumps(row.columns[-1], ensure_ascii=False)}"
    numbered = 'id = "#", the number of the row'
    if absent == ["id"]:
        example = numbered
    elif "id" in absent:
        example = f"{example} or, for an id, {numbered}"
    table = _FIELD_TABLES.get(noun, "the table of its fields")
    return f"{lacks} Name the column of each in {table}, such as {example}."


def field_hint(problem: str, row: FileRow, noun: str) -> str:
    """Returns the sentence on the table of fields for a `problem` that every row has; "" where none helps.

    `row` is one of the rows of JSON objects, `noun` is as in `no_columns`.
    """
    name = problem.partition("`")[2].partition("`")[0]
    if name not in _MAPPED:
        return ""
    other = next((near for near in row.values if nearest(name, [near])), "FIELD")
    example = f"{name} = {json.dumps(name if name in row.values else other, ensure_ascii=False)}"
    if name == "id":
        example = 'id = "#", the number of the row'
    end = "" if problem.endswith((".", "?")) else "."
    return f"{end} Name its field in {_FIELD_TABLES[noun]}, such as {example}."


def kind(value: object) -> str:
    """Returns the type of a JSON `value`, in words."""
    return _KINDS.get(type(value), type(value).__name__)


def short_repr(value: object) -> str:
    """Returns the `repr` of a value for a message, truncated."""
    text = repr(value[:_MAX_SHOWN_CHARS] if isinstance(value, str) else value)
    return text if len(text) <= _MAX_SHOWN_CHARS else f"{text[:_MAX_SHOWN_CHARS]}..."


class Stop(Exception):
    """Raised when a file cannot be read further; `row` has the problem."""

    def __init__(self, row: FileRow) -> None:
        super().__init__(*row.problems)
        self.row = row


def problem_row(problem: str, location: str = "") -> FileRow:
    """Returns a row with only a problem, of the whole file or at `location`."""
    return FileRow(location, {}, [problem])


def is_flat(value: object) -> bool:
    """Returns whether lists and objects in `value` are nested at most `DEEPEST` deep."""
    level: list[Any] = [value]
    for _ in range(DEEPEST + 1):
        level = [
            item
            for outer in level
            for item in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(item, dict | list)
        ]
        if not level:
            return True
    return False


def unreadable(error: UnicodeDecodeError, offset: int) -> str:
    """Returns the problem of bytes that are not UTF-8; they begin at `offset` of the file."""
    at = error.start
    return f"not UTF-8: byte 0x{error.object[at]:02x} at offset {offset + at} of the file"
