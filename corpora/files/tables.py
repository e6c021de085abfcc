"""Reads the records of tables: CSV and TSV files with a header, and Parquet files."""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import date, time
from decimal import Decimal
from io import BytesIO
from typing import Any, BinaryIO

from ragc.core.text import first_line
from ragc.corpora.files.decoding import detect_delimiter, lines_of
from ragc.corpora.files.row import FileRow, Stop, kind, problem_row, short_repr
from ragc.corpora.files.values import as_text

_BATCH = 1000
_NULL = r"\N"


def records(lines: Iterator[str], delimiter: str, longest: int, *, usual: str = ",") -> Iterator[FileRow]:
    """Yields one row a record of a table with a header, no value longer than `longest` characters.

    Values are strings; a backslash and an N, as databases export null, are null. Values are separated by
    `delimiter`; "" detects it, with `usual` as the default. Trailing empty columns, which spreadsheets write,
    and blank records are skipped. A duplicate column is a problem of the file, a record of another width one
    of the row.
    """
    csv.field_size_limit(longest)
    if len(delimiter) > 1 or delimiter in ('"', "\r", "\n", "\0"):
        raise Stop(
            problem_row(f"delimiter = {short_repr(delimiter)} cannot separate columns; give one character")
        )
    lines, delimiter, before = detect_delimiter(lines_of(lines), delimiter, usual)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    try:
        header = _trim_empty([name.strip() for name in next(filter(_has_content, reader), [])], 0)
        if (twice := _first_duplicate(header)) is not None:
            raise Stop(problem_row(f"the header names the column {short_repr(twice)} twice; rename one"))
        columns = tuple(header)
        for written in filter(_has_content, reader):
            location = f"line {reader.line_num + before}"
            record = _trim_empty(written, len(header))
            if len(record) == len(header):
                values = [None if value == _NULL else value for value in record]
                yield FileRow(location, dict(zip(header, values, strict=True)), columns=columns)
            else:
                yield problem_row(f"has another number of values than the header, {len(header)}", location)
    except csv.Error as error:
        raise Stop(problem_row(f"is no table: {error}", f"line {reader.line_num + before}")) from error


def _has_content(values: list[str]) -> bool:
    """Returns whether one of `values` is not blank."""
    return any(map(str.strip, values))


def _first_duplicate(names: Iterable[str]) -> str | None:
    """Returns the first duplicate of `names`; None if there is none."""
    return next((name for name, times in Counter(names).items() if times > 1), None)


def _trim_empty(values: list[str], least: int) -> list[str]:
    """Returns `values` without trailing empty ones, but at least `least` values."""
    end = len(values)
    while end > least and not values[end - 1]:
        end -= 1
    return values[:end]


def parquet(stream: BinaryIO) -> Iterator[FileRow]:
    """Yields one row a record of a Parquet file, read in batches.

    NaN becomes null; a date or a decimal becomes text.
    """
    try:
        import pyarrow as pa
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        needed = "is a Parquet file, which needs pyarrow; install it, or give JSON lines"
        raise Stop(problem_row(needed)) from error
    number = 0
    try:
        # Parquet is read from its end, so a compressed stream is buffered.
        file = ParquetFile(stream if stream.seekable() else BytesIO(stream.read()))
        names = file.schema_arrow.names
        if (twice := _first_duplicate(names)) is not None:
            raise Stop(problem_row(f"has the column {short_repr(twice)} twice; rename one"))
        for batch in file.iter_batches(batch_size=_BATCH):
            for value in batch.to_pylist():
                number += 1
                yield _record(f"item {number}", value)
    except (pa.ArrowException, OSError, ValueError, LookupError, OverflowError, RecursionError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise Stop(
            problem_row(f"is no Parquet file, or a damaged one, after row {number}: {first_line(error)}")
        ) from error


def _record(location: str, value: dict[str, Any]) -> FileRow:
    try:
        values = {name: _plain(name, item) for name, item in value.items()}
        return FileRow(location, values, columns=tuple(values))
    except TypeError as error:
        return problem_row(str(error), location)


def _plain(name: str, value: Any) -> Any:
    """Returns `value` of the column `name` as JSON. Raises TypeError if JSON has no such value."""
    if isinstance(value, dict):
        return {key: _plain(name, item) for key, item in value.items()}
    if isinstance(value, Decimal | date | time):
        return as_text(value)
    if isinstance(value, list | tuple):  # an entry of a map is a pair
        return [_plain(name, item) for item in value]
    if isinstance(value, float) and math.isnan(value):
        return None
    if not isinstance(value, str | int | float | None) or value in (math.inf, -math.inf):
        raise TypeError(f"`{name}` holds {kind(value)} ({short_repr(value)}), which JSON does not have")
    return value
