"""Reads rows of JSON lines, JSON, CSV, TSV and Parquet files, packed or not, with the problems of each row.

A row is one object a line, an item of a list, or a record of a table with a header. The first bytes decide
how a file is packed (gzip, bzip2, xz, a zip archive of one file), the name whether it is a table, and the
header which delimiter it has. Text is UTF-8, what its byte-order mark says, or what charset-normalizer finds,
which is logged. Blank lines and records are skipped.
"""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import logging
import lzma
import os
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from functools import cache, partial
from itertools import chain, pairwise
from pathlib import Path, PurePath
from typing import Any, cast

from pydantic_core import from_json

from ragc.core.files import missing_file, open_regular
from ragc.core.text import first_line
from ragc.corpora.files.row import FileRow, kind, short_repr
from ragc.corpora.files.values import as_json, value_at

warn_once = cache(logging.getLogger("ragc.corpora").warning)

LONGEST_LINE = 64 * 2**20
"""The most characters of a line; at a longer one reading stops with a problem."""

MAX_COMPRESSION_RATIO = 200
"""The most characters for each byte of a file that holds more than `LONGEST_LINE`."""

_SAMPLE = 2**20
_MARKS = {b"\xff\xfe\0\0": "utf-32", b"\0\0\xfe\xff": "utf-32", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
# What text that is not UTF-8 may be.
_ENCODINGS = [
    *("cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1256"),
    *("cp932", "euc_jp", "gb18030", "big5", "euc_kr"),
]
_NAME_IT = 'save it as UTF-8, or name its encoding where the fields are named, as in encoding = "cp1251"'
_PACKINGS: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZ": bz2.open, b"\xfd7": lzma.open}
# Keys of the list in a JSON file that holds an object.
_LISTS = ("data", "rows", "questions", "passages", "examples", "items")


class Stop(Exception):
    """A file cannot be read further; the arguments are the problem and its location, "" for the file."""


def rows(path: Path, *, under: str = "", delimiter: str = "", encoding: str = "") -> Iterator[FileRow]:
    """Yields every row of the file at `path`, in order, each with its problems.

    A JSON file is a list, an object with a list, by default at one of the usual keys, else at `under`, one
    object a line, or objects by id. A row with problems has no values. Problems of the whole file have the
    location "". `delimiter` and `encoding` are found where they are "".
    """
    number, problem, location = 0, "", ""
    try:
        with open_regular(path) as file:
            for row in _rows(file, path, under, delimiter, encoding):
                number += 1
                yield row
    except Stop as stop:
        problem, location = (*stop.args, "")[:2]
    except FileNotFoundError:
        problem = missing_file(f"looked for {str(path.absolute())!r}", path.name, path.parent)
    except IsADirectoryError:
        problem = "is a folder; name a file of rows: JSON lines, JSON, CSV, TSV or Parquet"
    except (EOFError, OSError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, NotImplementedError) as error:
        how = "ends early" if isinstance(error, EOFError) else "is damaged"
        problem = f"the packed stream {how}, after row {number}; copy or download the file again"
        if isinstance(error, OSError) and error.errno is not None:
            problem = f"cannot be read: {error.strerror or error}"
    if problem:
        yield FileRow(location, {}, [problem])


def _rows(
    file: io.BufferedReader, path: Path, under: str, delimiter: str, encoding: str
) -> Iterator[FileRow]:
    start, suffixes = file.peek(8)[:8], [suffix.lower() for suffix in path.suffixes]
    if suffixes[-1:] == [".parquet"]:
        return _parquet(file, path.name)
    if start.startswith((b"%PDF-", b"\xd0\xcf\x11\xe0")):
        raise Stop("is a document; rows are needed, as JSON lines, JSON, CSV, TSV or Parquet have them")
    stream = _PACKINGS[start[:2]](file) if start[:2] in _PACKINGS else file
    if start.startswith(b"PK\x03\x04"):
        archive = zipfile.ZipFile(file)
        names = [name for name in archive.namelist() if name[-1:] != "/" and not name.startswith("__MACOSX")]
        if len(names) != 1:
            raise Stop("is an office document or an archive of several files; name a file of rows")
        stream, suffixes = archive.open(names[0]), PurePath(names[0].lower()).suffixes
    most = max(LONGEST_LINE, MAX_COMPRESSION_RATIO * os.fstat(file.fileno()).st_size)
    sample = stream.read(_SAMPLE)
    stream.seek(0)
    as_document = ".json" in suffixes or sample.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"["
    codec = encoding or _encoding(sample, path.name)
    lines = _lines(stream, codec, most if as_document else LONGEST_LINE, most)
    tables = [suffix for suffix in suffixes if suffix in (".csv", ".tsv", ".tab")]
    return _table(lines, delimiter, tables[0]) if tables else _json(lines, under, as_document=as_document)


def _encoding(sample: bytes, name: str) -> str:
    """Returns the encoding of a text that begins with `sample`. Raises Stop where none is sure."""
    for mark, codec in _MARKS.items():
        if sample.startswith(mark):
            return codec
    if b"\0" in sample[:4]:  # as UTF-16 without a mark has it
        return "utf-16-be" if sample[:1] == b"\0" else "utf-16-le"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)
        return "utf-8-sig"
    except UnicodeDecodeError as error:
        line = f"line {sample[: error.start].count(10) + 1}"
    damaged = sample.decode("utf-8", "ignore")
    if 2 * sum(not char.isascii() for char in damaged) > len(sample) - len(damaged.encode()):
        raise Stop(f"holds bytes that are not UTF-8, among others that are; {_NAME_IT}", line)
    from charset_normalizer import from_bytes

    matches = list(from_bytes(sample, cp_isolation=_ENCODINGS))
    best = [m for m in matches if (m.chaos, m.coherence) == (matches[0].chaos, matches[0].coherence)]
    names = [name for match in best for name in (match.encoding, *match.could_be_from_charset)]
    if "cp1252" not in names and len(best) != 1:
        raise Stop(f"is not UTF-8, and no other encoding is sure; {_NAME_IT}", line)
    codec = "cp1252" if "cp1252" in names else names[0]
    warn_once(
        "%s is read as %s, since its %s is not UTF-8; if that is wrong, %s", name, codec, line, _NAME_IT
    )
    return codec


def _lines(stream: Any, codec: str, longest: int, most: int) -> Iterator[str]:
    """Yields the lines of a text with their ends. Raises Stop for a long line and after `most` characters."""
    number = size = 0
    try:
        with io.TextIOWrapper(stream, codec, newline="") as text:
            for line in iter(partial(text.readline, longest + 1), ""):
                number, size = number + 1, size + len(line)
                if len(line) > longest:
                    raise Stop(f"is longer than {longest // 2**20} MiB", f"line {number}")
                if size > most:
                    raise Stop(f"holds more than {most // 2**20} MiB, far more than data of its size does")
                line.encode()  # halves of surrogate pairs, which some encodings can spell, are no characters
                yield line
    except (UnicodeError, LookupError, ValueError) as error:
        reason = " ".join(str(error).split())[:120]
        raise Stop(f"cannot be read as {codec} ({reason}); {_NAME_IT}", f"line {number + 1}") from None


def _json(lines: Iterator[str], under: str, *, as_document: bool) -> Iterator[FileRow]:
    numbered: Iterator[tuple[int, str]]
    numbered = ((number, line.strip()) for number, line in enumerate(lines, 1) if line.strip())
    number, text = next(numbered, (0, ""))
    if not number:
        return
    first = _parse(text)
    if not isinstance(first, dict) or as_document:
        following = list(numbered) if as_document or text in ("{", "[") else []
        if not isinstance(first, dict) or not following:
            document = _parse("\n".join([text, *(text for _, text in following)])) if following else first
            if isinstance(document, str) and not isinstance(first, list):
                raise Stop(document, "" if as_document else f"line {number}")
            if not isinstance(document, str):
                yield from _items(document, under)
                return
        numbered = iter(following)
    yield _row(f"line {number}", first)
    for number, text in numbered:
        yield _row(f"line {number}", _parse(text))


def _parse(text: str) -> Any:
    """Returns the JSON value of `text`; a string says what is wrong with it."""
    try:
        value = from_json(text)
    except ValueError as error:
        return f"not JSON: {error}".replace("at line 1 column", "at column")
    return value if isinstance(value, dict | list) else f"is {kind(value)}, an object is needed"


def _items(value: Any, under: str) -> Iterator[FileRow]:
    """Yields the rows of a document: a list or that at a key, columns, objects by id, or a single row."""
    if isinstance(value, dict):
        key = under or next((name for name in _LISTS if isinstance(value.get(name), list | dict)), "")
        if under and under not in value:
            keys = ", ".join(map(short_repr, list(value)[:5]))
            raise Stop(
                f"holds an object with {keys}; a list, or an object with the list `{under}`, is needed"
            )
        value = value[key] if key else value
    if isinstance(value, dict):
        columns = [list(v.values()) if isinstance(v, dict) and "0" in v else v for v in value.values()]
        lengths = {len(column) if isinstance(column, list) else 0 for column in columns}
        if len(lengths) == 1 and 0 not in lengths:
            value = [dict(zip(value, cells, strict=True)) for cells in zip(*columns, strict=True)]
        elif value and all(isinstance(item, dict) for item in value.values()):
            value = [{"id": name} | item for name, item in value.items()]
    number = 0
    for item in value if isinstance(value, list) else [value]:
        parts: Any = [item]
        if isinstance(item, dict) and item.keys() <= {"title", "paragraphs"}:  # an article of SQuAD
            parts = value_at(item, "paragraphs.*.qas") or parts
        elif isinstance(item, dict) and isinstance(item.get("row"), dict):  # a row of the Hub's API
            parts = [item["row"]]
        for row in parts:
            number += 1
            yield _row(f"item {number}", row)


def _row(location: str, value: object) -> FileRow:
    if isinstance(value, dict):
        return FileRow(location, value)
    return FileRow(
        location, {}, [value if isinstance(value, str) else f"is {kind(value)}, an object is needed"]
    )


def _table(lines: Iterator[str], delimiter: str, suffix: str) -> Iterator[FileRow]:
    """Yields one row a record; a cell with backslash and N, as databases export null, is null."""
    if delimiter and (len(delimiter) > 1 or delimiter in '"\r\n\0'):
        raise Stop(f"delimiter = {short_repr(delimiter)} cannot separate columns; give one character")
    csv.field_size_limit(LONGEST_LINE)
    records = _records(lines, delimiter, suffix)
    header = [name.strip() for name in next(records, (0, [""]))[1]]
    width = max((n for n, name in enumerate(header, 1) if name), default=0)
    if twice := [name for name, times in Counter(header[:width]).items() if times > 1]:
        raise Stop(f"the header names the column {short_repr(twice[0])} twice; rename one")
    for start, cells in records:
        values = dict(zip(header[:width], (None if cell == r"\N" else cell for cell in cells), strict=False))
        if len(cells) >= width and not any(map(str.strip, cells[width:])):
            yield FileRow(f"line {start}", values, cells=True)
        else:
            yield FileRow(f"line {start}", {}, [f"has {len(cells)} values, and the header has {width}"])


def _records(lines: Iterator[str], delimiter: str, suffix: str) -> Iterator[tuple[int, list[str]]]:
    """Yields the records that are not blank, the header first, each with the number of its first line."""
    before, first = next(((n, line) for n, line in enumerate(lines) if line.strip()), (0, ""))
    if match := re.fullmatch(r'"?sep=([^"\r\n])"?\s*', first, re.IGNORECASE):  # Excel's
        delimiter, first, before = delimiter or match[1], next(lines, ""), before + 1
    if not delimiter:
        usual = "," if suffix == ".csv" else "\t"
        widths = {mark: len(next(csv.reader([first], delimiter=mark), ())) for mark in (usual, *",;\t|")}
        delimiter = max(widths, key=widths.__getitem__)
    lines = chain([first], lines)
    reader = csv.reader(_quoted(lines) if delimiter == "\t" else lines, delimiter=delimiter, strict=True)
    start = before + 1
    try:
        for cells in reader:
            if any(map(str.strip, cells)):
                yield start, cells
            start = before + reader.line_num + 1
    except csv.Error as error:
        raise Stop(f"is no table: {error}", f"line {start}") from error


def _quoted(lines: Iterator[str]) -> Iterator[str]:
    """Yields the lines of a table with tabs; in a line that is a record by itself, a quotation mark that
    opens a cell and is not closed in it is one of the text.
    """
    width = 0
    for line, after in pairwise(chain(lines, [""])):
        cells = line.rstrip("\r\n").split("\t")
        width = width or len(cells)
        ends = after.count("\t") == width - 1 if after else line.endswith(("\r", "\n"))
        if ends and '"' in line and len(cells) == width:
            is_text = re.compile(r'"(?!(?:[^"]|"")*"$)', re.DOTALL)
            doubled = ['"' + cell.replace('"', '""') + '"' for cell in cells]
            fixed = (new if is_text.match(old) else old for new, old in zip(doubled, cells, strict=True))
            yield "\t".join(fixed) + "\n"
        else:
            yield line


def _parquet(file: io.BufferedReader, name: str) -> Iterator[FileRow]:
    """Yields one row a record; columns of bytes, such as pictures, are left out, which is logged."""
    try:
        import pyarrow as pa
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise Stop("is a Parquet file, which needs pyarrow; install it, or give JSON lines") from error
    number = 0
    try:
        table = ParquetFile(file)
        schema = table.schema_arrow
        if twice := [column for column, times in Counter(schema.names).items() if times > 1]:
            raise Stop(f"has the column {short_repr(twice[0])} twice; rename one")
        binary = [column.name for column in schema if "binary" in str(column.type)]
        if binary:
            warn_once("%s: the columns of bytes are left out: %s", name, ", ".join(binary))
        for batch in table.iter_batches(1000, columns=[n for n in schema.names if n not in binary]):
            for values in batch.to_pylist():
                number += 1
                yield FileRow(f"item {number}", cast(dict[str, Any], as_json(values)))
    except (pa.ArrowException, OSError, ValueError, LookupError, OverflowError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise Stop(
            f"is no Parquet file, or a damaged one, after row {number}: {first_line(error)}"
        ) from error
