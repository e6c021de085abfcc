"""Rows of a file: one object a line or an item of a list, packed or not, and what is wrong with each.

JSON lines, JSON, CSV, TSV and Parquet are told by the file's name, gzip and bzip2 by its first bytes. A
byte-order mark at the beginning is skipped, and so are blank lines.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import json
import math
import zlib
from collections.abc import Iterator
from io import TextIOWrapper
from pathlib import Path
from typing import Any, BinaryIO, Never, cast

from ragc.corpora.row import Row, kind
from ragc.errors import nearest

LONGEST_LINE = 64 * 2**20
"""Bytes; a longer line is a problem, and the file is read no further."""

_BOM = b"\xef\xbb\xbf"
_PACKED = (".gz", ".bz2")


def rows(path: Path, *, under: str = "") -> Iterator[Row]:
    """Every object of the file at `path`, in its order, each with the problem of its place if there is one.

    Of a `.json` file the items of its list are read, or of the list `under` that key of its object; an
    object a line will do too, and objects by their id. A row with problems has no values. What is wrong
    with the file as a whole has the place "".
    """
    number = 0
    try:
        with path.open("rb") as plain:
            stream = _unpacked(plain)
            suffix = next((s for s in reversed(path.suffixes) if s.lower() not in _PACKED), "").lower()
            for row in _READERS.get(suffix, _lines)(stream, suffix, under):
                number += 1
                yield row
    except FileNotFoundError:
        yield _broken(_missing(path))
    except IsADirectoryError:
        yield _broken("is a folder; name a file in it")
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        how = "ends early" if isinstance(error, EOFError) else "is damaged"
        yield _broken(f"the packed stream {how}, after row {number}; copy or download the file again")
    except OSError as error:
        if error.errno is None:  # bz2 says so of a damaged stream
            yield _broken(
                f"the packed stream is damaged, after row {number}; copy or download the file again"
            )
        else:
            yield _broken(f"cannot be read: {error.strerror or error}")


def _broken(problem: str) -> Row:
    return Row("", {}, [problem])


def _unpacked(plain: BinaryIO) -> BinaryIO:
    start = plain.read(3)
    plain.seek(0)
    if start[:2] == b"\x1f\x8b":
        return cast(BinaryIO, gzip.GzipFile(fileobj=plain))
    return cast(BinaryIO, bz2.BZ2File(plain)) if start == b"BZh" else plain


def _lines(stream: BinaryIO, suffix: str, under: str) -> Iterator[Row]:
    """One object a line."""
    number, offset = 0, 0
    while line := stream.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            yield Row(f"line {number}", {}, [f"is longer than {LONGEST_LINE // 2**20} MiB"])
            return
        text = line.removeprefix(_BOM).strip() if number == 1 else line.strip()
        if text:
            yield _row(f"line {number}", _decoded(text, offset + line.index(text)))
        offset += len(line)


def _document(stream: BinaryIO, suffix: str, under: str) -> Iterator[Row]:
    """The items of a list, of the list `under` a key, or one object a line."""
    text = stream.read().removeprefix(_BOM).strip()
    first, _, rest = text.partition(b"\n")
    if text[:1] == b"{" and rest.strip() and not isinstance(_decoded(first.strip(), 0), _Wrong):
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                yield _row(f"line {number}", _decoded(line.strip(), 0))
        return
    value = _decoded(text, 0)
    if isinstance(value, dict):
        if under not in value:
            wanted = f"a list, or an object with the list `{under}`," if under else "a list"
            yield _broken(f"holds an object with {', '.join(map(repr, list(value)[:5]))}; {wanted} is needed")
            return
        value = value[under]
    if isinstance(value, dict) and all(isinstance(item, dict) for item in value.values()):
        value = [{"id": name} | item for name, item in value.items()]  # objects by id
    if not isinstance(value, list):
        yield _broken(value if isinstance(value, _Wrong) else f"holds {kind(value)}, a list is needed")
        return
    for number, item in enumerate(value, 1):
        yield _row(f"item {number}", item)


def _table(stream: BinaryIO, suffix: str, under: str) -> Iterator[Row]:
    """One row a record of a CSV or TSV file with a header; every value is a string."""
    csv.field_size_limit(LONGEST_LINE)
    try:
        with TextIOWrapper(stream, "utf-8-sig", newline="") as text:
            reader = csv.DictReader(text, delimiter="\t" if suffix == ".tsv" else ",", strict=True)
            for record in reader:
                row = Row(f"line {reader.line_num}", {k: v for k, v in record.items() if k is not None})
                if None in record or None in record.values():
                    row = Row(
                        row.place,
                        {},
                        [f"has another number of values than the header, {len(reader.fieldnames or ())}"],
                    )
                yield row
    except UnicodeDecodeError as error:
        yield _broken(f"not UTF-8: byte 0x{error.object[error.start]:02x}")
    except csv.Error as error:
        yield _broken(f"is no table: {error}")


def _parquet(stream: BinaryIO, suffix: str, under: str) -> Iterator[Row]:
    """One row a record, read batch by batch."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        yield _broken("is a Parquet file, which needs pyarrow; install it, or give JSON lines")
        return
    number = 0
    try:
        for batch in parquet.ParquetFile(stream).iter_batches():
            for value in batch.to_pylist():
                number += 1
                yield _row(f"item {number}", value)
    except pa.ArrowException as error:
        yield _broken(f"is no Parquet file, or a damaged one: {str(error).splitlines()[0]}")


_READERS = {".json": _document, ".csv": _table, ".tsv": _table, ".parquet": _parquet}


class _Wrong(str):
    """What is wrong with a text, in the place of its value."""

    __slots__ = ()


def _row(place: str, value: object) -> Row:
    if isinstance(value, dict):
        return Row(place, value)
    return Row(place, {}, [value if isinstance(value, _Wrong) else f"is {kind(value)}, an object is needed"])


def _decoded(text: bytes, offset: int) -> Any:
    """What `text` spells, or what is wrong with it; `offset` is where it begins in the file."""
    try:
        value = _DECODER.decode(text.decode("utf-8"))
    except UnicodeDecodeError as error:
        at = error.start
        return _Wrong(f"not UTF-8: byte 0x{text[at]:02x} at offset {offset + at} of the file")
    except json.JSONDecodeError as error:
        return _Wrong(f"not JSON: {error.msg} at column {error.colno}")
    except (ValueError, RecursionError) as error:
        return _Wrong(f"not JSON: {error}")
    if b"\\ud" in text.lower():
        try:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError:
            return _Wrong("a string holds half of a surrogate pair, which is no character")
    return value


def _missing(path: Path) -> str:
    asked = f"no such file: looked for {str(path.absolute())!r}"
    try:
        names = sorted(entry.name for entry in path.parent.iterdir() if entry.is_file())
    except OSError:
        return f"{asked}, whose folder does not exist or cannot be listed"
    return f"{asked}.{nearest(path.name, names)}"


def _not_finite(text: str) -> Never:
    raise ValueError(f"{text} is no JSON number")


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _not_finite(text)


_DECODER = json.JSONDecoder(parse_constant=_not_finite, parse_float=_finite)
