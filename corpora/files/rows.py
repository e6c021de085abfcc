"""Reads rows of JSON lines, JSON, CSV, TSV and Parquet files, compressed or not, with the problems of each
row.

A row is one object a line, an item of a list, or a record of a table. Tables are CSV and TSV files with a
header, and Parquet files. The file name decides the format. The first bytes decide whether it is gzip or
bzip2, and whether a file of JSON lines is a JSON list. A leading byte-order mark and blank lines are skipped.
All text is UTF-8, except in tables (`tables`).
"""

from __future__ import annotations

import bz2
import gzip
import json
import math
import os
import sys
import zlib
from collections.abc import Iterator
from io import BufferedReader, BytesIO, RawIOBase
from pathlib import Path
from typing import Any, BinaryIO, Never, cast

from ragc.core.files import open_regular
from ragc.corpora.files.row import (
    BOM,
    DEEPEST,
    FileRow,
    Stop,
    is_flat,
    kind,
    problem_row,
    short_repr,
    unreadable,
)
from ragc.errors import nearest

LONGEST_LINE = 64 * 2**20
"""The most bytes of a line; at a longer one reading stops with a problem."""

UTF_8 = "utf-8"

LARGEST_DOCUMENT = 4 * 2**30
"""The most unpacked bytes of a JSON document, which is read as a whole."""

_SNIFFED_BYTES = 1 << 10
_SNIFFED = 20
"""The first lines that decide whether a file is one of JSON lines, and whether a list that is no JSON is."""

MAX_COMPRESSION_RATIO = 200
"""The greatest ratio of unpacked to compressed size, for files that unpack to more than `LONGEST_LINE`."""

_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_PACKED = (".gz", ".bz2")
_ROW_FILES = (
    "a corpus or question file is one file of rows: JSON lines, JSON, CSV, TSV or Parquet. Of other "
    'documents take the text, and write a line for each passage: {"id": "1", "title": "", "text": "..."}'
)
_PROSE = {
    ".md": "Markdown",
    ".markdown": "Markdown",
    ".rst": "reStructuredText",
    ".txt": "plain text (a table is named .csv or .tsv)",
    ".html": "HTML",
    ".htm": "HTML",
    ".xml": "XML",
    ".rtf": "RTF",
    ".tex": "LaTeX",
}
_OFFICE = {
    ".xlsx": "an Excel workbook (save the sheet as CSV)",
    ".xlsm": "an Excel workbook (save the sheet as CSV)",
    ".xls": "an Excel workbook (save the sheet as CSV)",
    ".ods": "a spreadsheet (save the sheet as CSV)",
    ".docx": "a Word document",
    ".doc": "a Word document",
    ".odt": "a text document",
    ".pptx": "a presentation",
    ".epub": "an EPUB",
    ".zip": "a zip archive",
}


def rows(path: Path, *, under: str = "", delimiter: str = "", encoding: str = "") -> Iterator[FileRow]:
    """Yields every row of the file at `path`, in order, each with its problems.

    A `.json` file is a list, an object with a list `under` that key, one object a line, or objects by id. A
    row with problems has no values. Problems of the whole file have the location "". `delimiter` and
    `encoding` are those of a table; "" detects them, and "utf-8" allows nothing else.
    """
    number = 0
    try:
        with open_regular(path) as plain:
            suffix = next((s for s in reversed(path.suffixes) if s.lower() not in _PACKED), "").lower()
            if foreign := _foreign(plain.peek(8)[:8], suffix):
                raise Stop(problem_row(f"is {foreign}; {_ROW_FILES}"))
            for row in _read(_unpack(plain), suffix, under, delimiter, encoding, path.name):
                number += 1
                yield row if row.problems or is_flat(row.values) else problem_row(_TOO_DEEP, row.location)
    except Stop as stop:
        yield stop.row
    except FileNotFoundError:
        yield problem_row(_missing_message(path))
    except IsADirectoryError:
        yield problem_row(f"is a folder; {_ROW_FILES}")
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        how = "ends early" if isinstance(error, EOFError) else "is damaged"
        yield problem_row(f"the packed stream {how}, after row {number}; copy or download the file again")
    except OSError as error:
        if error.errno is None:  # bz2's error for a damaged stream
            yield problem_row(
                f"the packed stream is damaged, after row {number}; copy or download the file again"
            )
        else:
            yield problem_row(f"cannot be read: {error.strerror or error}")


def _read(
    stream: BufferedReader, suffix: str, under: str, delimiter: str, encoding: str, label: str
) -> Iterator[FileRow]:
    if suffix == ".parquet":
        from ragc.corpora.files.tables import parquet

        return parquet(stream)
    start = stream.peek(4)
    if suffix in (".csv", ".tsv") and not (encoding == UTF_8 and start[:2] in _UTF_16):
        from ragc.corpora.files.decoding import decode_lines
        from ragc.corpora.files.tables import records

        lines = decode_lines(
            _numbered_lines(stream), stream, start[:4], encoding=encoding, longest=LONGEST_LINE, label=label
        )
        return records(lines, delimiter, LONGEST_LINE, usual="\t" if suffix == ".tsv" else ",")
    if start[:2] in _UTF_16:
        raise Stop(problem_row("is UTF-16, and UTF-8 is needed; save it in that encoding"))
    first = start.removeprefix(BOM).lstrip()[:1]
    if suffix in _PROSE and first not in (b"{", b"["):
        raise Stop(problem_row(f"is {_PROSE[suffix]}; {_ROW_FILES}"))
    if suffix == ".json":
        return _document(stream, under)
    return _list(stream, under) if first == b"[" else _lines(stream)


def _foreign(start: bytes, suffix: str) -> str:
    """Returns the type of a file that holds no rows, by its first bytes and its name; "" for others."""
    if start.startswith(b"%PDF-"):
        return "a PDF"
    if start.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
        return _OFFICE.get(suffix, "an archive or a document of an office program")
    return ""


class _UnpackedStream(RawIOBase):
    """The unpacked `stream`; raises Stop after `most` bytes."""

    def __init__(self, stream: BinaryIO, most: int) -> None:
        self._stream, self._left, self._most = cast(BufferedReader, stream), most, most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._stream.readinto(buffer)
        self._left -= count
        if self._left < 0:
            more = f"unpacks to more than {self._most // 2**20} MiB, far more than data does"
            raise Stop(problem_row(f"{more}; unpack it yourself if that is right"))
        return count


def _unpack(plain: BufferedReader) -> BufferedReader:
    start = plain.peek(3)[:3]
    if start[:2] != b"\x1f\x8b" and start != b"BZh":
        return plain
    stream = gzip.GzipFile(fileobj=plain) if start != b"BZh" else bz2.BZ2File(plain)
    most = max(LONGEST_LINE, MAX_COMPRESSION_RATIO * os.fstat(plain.fileno()).st_size)
    return BufferedReader(_UnpackedStream(cast(BinaryIO, stream), most), 2**16)


def _numbered_lines(stream: BinaryIO) -> Iterator[tuple[str, int, bytes]]:
    """Yields the location, offset and bytes of every line."""
    number, offset = 0, 0
    while line := stream.readline(LONGEST_LINE + 1):
        number += 1
        location = f"line {number}"
        if len(line) > LONGEST_LINE:
            raise Stop(problem_row(f"is longer than {LONGEST_LINE // 2**20} MiB", location))
        skipped = len(BOM) if number == 1 and line.startswith(BOM) else 0
        yield location, offset + skipped, line[skipped:]
        offset += len(line)


def _lines(stream: BinaryIO) -> Iterator[FileRow]:
    """Yields one object a line; a file without one in its first `_SNIFFED` lines has one problem, not one a
    line.
    """
    wrong: list[FileRow] | None = []
    for location, offset, line in _numbered_lines(stream):
        if not (text := line.strip()):
            continue
        value = _decode(text, offset + line.index(text))
        row = _row(location, value, _escapes(text))
        if wrong is None:
            yield row
        elif isinstance(value, dict):
            yield from wrong
            yield row
            wrong = None
        else:
            wrong.append(row)
            if len(wrong) == _SNIFFED:
                whole = f"none of its first {_SNIFFED} lines is a JSON object"
                first = f"{wrong[0].location}: {wrong[0].problems[0]}"
                raise Stop(problem_row(f"{whole} ({first}); {_ROW_FILES}"))
    yield from wrong or ()


def _list(stream: BinaryIO, under: str) -> Iterator[FileRow]:
    """Returns the items of a JSON list in a file of JSON lines; its lines if the whole is no JSON.

    A damaged list of objects has one problem, not one for each of its lines.
    """
    whole = stream.read(LARGEST_DOCUMENT + 1)
    text = whole.removeprefix(BOM).strip()
    if len(whole) <= LARGEST_DOCUMENT and isinstance(_decode(text, 0), _ParseProblem):
        begins_list = text[1 : 1 + _SNIFFED_BYTES].lstrip()[:1] == b"{"
        if not begins_list or _has_json_lines(text):
            return _lines(BytesIO(whole))
    return _document(BytesIO(whole), under)


def _has_json_lines(text: bytes) -> bool:
    """Returns whether at least half of the first lines of `text` are JSON by themselves."""
    lines = [line.strip() for line in text.split(b"\n", _SNIFFED)[:_SNIFFED]]
    values = [_decode(line, 0) for line in lines if line]
    return 2 * sum(isinstance(value, dict | list) for value in values) >= len(values)


def _document(stream: BinaryIO, under: str) -> Iterator[FileRow]:
    """Yields the items of a list or of the list `under` a key, objects by id, or one object a line."""
    whole = stream.read(LARGEST_DOCUMENT + 1)
    if len(whole) > LARGEST_DOCUMENT:
        raise Stop(problem_row(f"is larger than {LARGEST_DOCUMENT // 2**30} GiB; give JSON lines"))
    text = whole.removeprefix(BOM).strip()
    if not text:
        return
    first, _, rest = text.partition(b"\n")
    if text[:1] == b"{" and rest.strip() and not isinstance(_decode(first.strip(), 0), _ParseProblem):
        yield from _lines(BytesIO(whole))
        return
    value = _decode(text, whole.index(text[:1]))
    if isinstance(value, dict):
        if under not in value:
            expected = f"a list, or an object with the list `{under}`," if under else "a list"
            keys = ", ".join(map(short_repr, list(value)[:5]))
            raise Stop(problem_row(f"holds an object with {keys}; {expected} is needed"))
        value = value[under]
    if isinstance(value, dict) and all(isinstance(item, dict) for item in value.values()):
        value = [{"id": name} | item for name, item in value.items()]  # objects by id
    if not isinstance(value, list):
        raise Stop(
            problem_row(
                value if isinstance(value, _ParseProblem) else f"holds {kind(value)}, a list is needed"
            )
        )
    escapes = _escapes(text)
    for number, item in enumerate(value, 1):
        yield _row(f"item {number}", item, escapes)


class _ParseProblem(str):
    """The problem of a text, in place of its value."""

    __slots__ = ()


class _NotFinite(ValueError):
    """A number that JSON does not have."""


def _row(location: str, value: object, escapes: bool) -> FileRow:
    """Returns the row of `value`; `escapes` says whether it may hold lone surrogates."""
    if isinstance(value, _ParseProblem):
        return problem_row(value, location)
    if not isinstance(value, dict):
        return problem_row(f"is {kind(value)}, an object is needed", location)
    if escapes and is_flat(value):
        try:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError:
            return problem_row("a string holds half of a surrogate pair, which is no character", location)
    return FileRow(location, value)


def _escapes(text: bytes) -> bool:
    return b"\\ud" in text or b"\\uD" in text


def _decode(text: bytes, offset: int) -> Any:
    """Returns the JSON value of `text`, or its problem; `offset` is its position in the file."""
    try:
        return _DECODER.decode(text.decode("utf-8"))
    except UnicodeDecodeError as error:
        return _ParseProblem(f"{unreadable(error, offset)}; save it as UTF-8")
    except json.JSONDecodeError as error:
        at = f"column {error.colno}" if error.lineno == 1 else f"line {error.lineno}, column {error.colno}"
        return _ParseProblem(f"not JSON: {error.msg} at {at}")
    except RecursionError:
        return _ParseProblem(_TOO_DEEP)
    except _NotFinite as error:
        return _ParseProblem(f"not JSON: {error}")
    except ValueError:
        return _ParseProblem(f"holds a number of more than {sys.get_int_max_str_digits()} digits")


def _missing_message(path: Path) -> str:
    problem = f"no such file: looked for {str(path.absolute())!r}"
    try:
        names = sorted(entry.name for entry in path.parent.iterdir() if entry.is_file())
    except OSError:
        return f"{problem}, whose folder does not exist or cannot be listed"
    return f"{problem}.{nearest(path.name, names)}"


def _not_finite(text: str) -> Never:
    raise _NotFinite(f"{short_repr(text)[1:-1]} is no JSON number")


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _not_finite(text)


_TOO_DEEP = f"holds more than {DEEPEST} lists and objects within each other"
_DECODER = json.JSONDecoder(parse_constant=_not_finite, parse_float=_finite)
