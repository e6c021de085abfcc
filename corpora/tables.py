"""Rows of tables: CSV and TSV with a header, and Parquet."""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import date, time
from decimal import Decimal
from io import BytesIO
from typing import Any, BinaryIO

from ragc.corpora.field_text import as_text
from ragc.corpora.row import Row, Stop, broken, kind, shown
from ragc.corpora.texts import lines_of, separated

_BATCH = 1000
_NULL = r"\N"


def records(lines: Iterator[str], delimiter: str, longest: int, *, usual: str = ",") -> Iterator[Row]:
    """One row a record of a table with a header, no value of more than `longest` characters; all are strings,
    but for the cell of a backslash and an N, which databases write for null.

    The values stand between `delimiter`; "" finds out what it is, `usual` where nothing tells. Empty columns
    at the end, which spreadsheets write, and records of blank values only are passed over. A header that
    names a column twice is a problem of the file, a record of another width one of the row.
    """
    csv.field_size_limit(longest)
    if len(delimiter) > 1 or delimiter in ('"', "\r", "\n", "\0"):
        raise Stop(broken(f"delimiter = {shown(delimiter)} cannot stand between columns; give one character"))
    lines, delimiter, before = separated(lines_of(lines), delimiter, usual)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    try:
        header = _cut([name.strip() for name in next(filter(_says, reader), [])], 0)
        if (twice := _twice(header)) is not None:
            raise Stop(broken(f"the header names the column {shown(twice)} twice; rename one"))
        columns = tuple(header)
        for written in filter(_says, reader):
            place = f"line {reader.line_num + before}"
            record = _cut(written, len(header))
            if len(record) == len(header):
                values = [None if value == _NULL else value for value in record]
                yield Row(place, dict(zip(header, values, strict=True)), columns=columns)
            else:
                yield broken(f"has another number of values than the header, {len(header)}", place)
    except csv.Error as error:
        raise Stop(broken(f"is no table: {error}", f"line {reader.line_num + before}")) from error


def _says(values: list[str]) -> bool:
    """Whether one of `values` is not blank."""
    return any(map(str.strip, values))


def _twice(names: Iterable[str]) -> str | None:
    """The first of `names` that occurs again; None when each occurs once."""
    return next((name for name, times in Counter(names).items() if times > 1), None)


def _cut(values: list[str], least: int) -> list[str]:
    """`values` without the empty ones at the end, but `least` of them."""
    end = len(values)
    while end > least and not values[end - 1]:
        end -= 1
    return values[:end]


def parquet(stream: BinaryIO) -> Iterator[Row]:
    """One row a record of a Parquet file, read batch by batch.

    NaN is read as null, a date or a decimal as text.
    """
    try:
        import pyarrow as pa
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        needed = "is a Parquet file, which needs pyarrow; install it, or give JSON lines"
        raise Stop(broken(needed)) from error
    number = 0
    try:
        # A packed stream cannot be read from its end.
        file = ParquetFile(stream if stream.seekable() else BytesIO(stream.read()))
        names = file.schema_arrow.names
        if (twice := _twice(names)) is not None:
            raise Stop(broken(f"has the column {shown(twice)} twice; rename one"))
        for batch in file.iter_batches(batch_size=_BATCH):
            for value in batch.to_pylist():
                number += 1
                yield _record(f"item {number}", value)
    except (pa.ArrowException, OSError, ValueError, LookupError, OverflowError, RecursionError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        said = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise Stop(broken(f"is no Parquet file, or a damaged one, after row {number}: {said}")) from error


def _record(place: str, value: dict[str, Any]) -> Row:
    try:
        values = {name: _plain(name, item) for name, item in value.items()}
        return Row(place, values, columns=tuple(values))
    except TypeError as error:
        return broken(str(error), place)


def _plain(name: str, value: Any) -> Any:
    """`value`, which stands in the column `name`, as JSON has it; raises TypeError where JSON has no such."""
    if isinstance(value, dict):
        return {key: _plain(name, item) for key, item in value.items()}
    if isinstance(value, Decimal | date | time):
        return as_text(value)
    if isinstance(value, list | tuple):  # an entry of a map is a pair
        return [_plain(name, item) for item in value]
    if isinstance(value, float) and math.isnan(value):
        return None
    if not isinstance(value, str | int | float | None) or value in (math.inf, -math.inf):
        raise TypeError(f"`{name}` holds {kind(value)} ({shown(value)}), which JSON does not have")
    return value
