"""Rows of JSON lines, JSON, CSV, TSV and Parquet files, packed or not, and the values in them.

A row is one object or text a line, an item of a list, or a record of a table with a header. The first
bytes decide how a file is packed (gzip, bzip2, xz, a zip archive of one file), the name whether it is a
table, and the header which delimiter it has. Text is UTF-8, what its byte-order mark says, or what
charset-normalizer finds, which is logged. Blank lines and records are skipped.

Paths, such as `gold.text`, `answers.*.text`, `choices.0`: a step is a key of an object, the number of an item
(from 0), or `*` for every item of a list. A key that equals the whole rest of the path comes first, so a path
also reaches the column `gold.text` of a flat table. What is not there, null and NaN are no value.

Numbers become text as people write them, whole ones without a point (3.0 is "3"); true and false become
"yes" and "no", as such questions are answered; dates become ISO 8601.
"""

from __future__ import annotations

import ast
import bz2
import codecs
import csv
import gzip
import io
import logging
import lzma
import math
import os
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, time
from decimal import Decimal
from functools import cache
from itertools import chain, islice, pairwise
from pathlib import Path, PurePath
from typing import Annotated, Any

from pydantic import BeforeValidator, ValidationInfo
from pydantic_core import from_json

from ragc.core.files import missing_file, open_regular
from ragc.core.text import first_line

warn_once = cache(logging.getLogger("ragc.corpora").warning)

MAX_CHARS = 64 * 2**20
"""The most characters of a small file once it is unpacked."""

MAX_COMPRESSION_RATIO = 200
"""The most characters for each byte of a file that holds more than `MAX_CHARS`."""

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
# The keys of objects that hold answers.
_LEAVES = ("text", "texts", "answer", "value", "aliases", "normalizedaliases", "humananswers")
_KINDS = {
    str: "a string", bool: "true or false", int: "a number", float: "a number",
    list: "a list", dict: "an object", type(None): "null",
}  # fmt: skip
# A quotation mark that opens a cell of a table with tabs and is not closed in it, to the end of the cell.
_OPEN_CELL = re.compile(r'(?:^|(?<=\t))"(?!(?:[^"\t]|"")*"(?=[\t\r\n]|$))[^\t\r\n]*')
_LITERAL = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d*)?)"""
_NUMPY = re.compile(rf"\[\s*{_LITERAL}(?:\s+{_LITERAL})+\s*\]", re.DOTALL)
_ARRAY = re.compile(r"\barray\((\[[^\]]*\])(?:,\s*dtype=\w+)?\)")


@dataclass(slots=True)
class FileRow:
    """One row of a file, its location ("line 3", "item 3", "" for the whole file), and what is wrong with it.

    `cells` says that all values are the texts of a CSV or TSV file.
    """

    location: str
    values: dict[str, Any]
    problems: list[str] = field(default_factory=list)
    cells: bool = False

    def located(self) -> list[str]:
        """Returns the problems, each with the location of the row."""
        return [f"{self.location}: {problem}" if self.location else problem for problem in self.problems]


def row_of(location: str, value: object) -> FileRow:
    """Returns the row in a JSON `value`; a text says what is wrong with it."""
    if isinstance(value, dict):
        return FileRow(location, value)
    problem = value if isinstance(value, str) else f"is {kind(value)}, an object is needed"
    return FileRow(location, {}, [problem])


class Stop(Exception):
    """A file cannot be read further; the argument is the problem."""


def rows(path: Path, *, under: str = "", delimiter: str = "", encoding: str = "") -> Iterator[FileRow]:
    """Yields every row of the file at `path`, in order, each with its problems.

    A JSON file is a list, an object with a list, by default at one of the usual keys, else at `under`, one
    object a line, or objects by id. A row with problems has no values. `delimiter` and `encoding` are found
    where they are "".
    """
    try:
        with open_regular(path) as file:
            yield from _rows(file, path, under, delimiter, encoding)
    except Stop as stop:
        yield row_of("", str(stop))
    except FileNotFoundError:
        yield row_of("", missing_file(f"looked for {str(path.absolute())!r}", path.name, path.parent))
    except ImportError:
        yield row_of("", "is a Parquet file, which needs pyarrow; install ragc[parquet], or give JSON lines")
    except OSError as error:
        yield row_of("", f"cannot be read: {error.strerror or error}")
    except (EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, NotImplementedError) as error:
        yield row_of("", f"its packed stream ends early or is damaged ({error}); copy or download it again")


def _rows(
    file: io.BufferedReader, path: Path, under: str, delimiter: str, encoding: str
) -> Iterator[FileRow]:
    start, names, stream = file.peek(8)[:8], [path.name.lower()], file
    if names[0].endswith(".parquet"):
        return _parquet(file, path.name)
    if start[:2] in _PACKINGS:
        stream = _PACKINGS[start[:2]](file)
    elif start.startswith(b"PK\x03\x04"):
        archive: Any = zipfile.ZipFile(file)
        names = [name for name in archive.namelist() if name[-1:] != "/" and not name.startswith("__MACOSX")]
        stream = archive.open(names[0]) if names else file
    if len(names) != 1 or start.startswith((b"%PDF-", b"\xd0\xcf\x11\xe0")):
        raise Stop("is a document or an archive of several files; name one of JSON lines, JSON, CSV or TSV")
    sample = stream.read(_SAMPLE)
    stream.seek(0)
    most = max(MAX_CHARS, MAX_COMPRESSION_RATIO * os.fstat(file.fileno()).st_size)
    lines = _lines(stream, encoding or _encoding(sample, path.name), most)
    suffixes = PurePath(names[0].lower()).suffixes
    if tables := [suffix for suffix in suffixes if suffix in (".csv", ".tsv", ".tab")]:
        return _table(lines, delimiter.replace("tab", "\t"), "," if tables[0] == ".csv" else "\t")
    return _json(lines, under, is_json=".json" in suffixes)


def _encoding(sample: bytes, name: str) -> str:
    """Returns the encoding of a text that begins with `sample`. Raises Stop where none is sure."""
    codec = next((codec for mark, codec in _MARKS.items() if sample.startswith(mark)), "")
    if codec or b"\0" in sample[:4]:  # as UTF-16 without a mark has it
        return codec or ("utf-16-be" if sample[:1] == b"\0" else "utf-16-le")
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)
        return "utf-8-sig"
    except UnicodeDecodeError as error:
        line = f"line {sample[: error.start].count(10) + 1}"
    damaged = sample.decode("utf-8", "ignore")
    if 2 * sum(not char.isascii() for char in damaged) > len(sample) - len(damaged.encode()):
        raise Stop(f"{line}: holds bytes that are not UTF-8, among others that are; {_NAME_IT}")
    from charset_normalizer import from_bytes

    matches = list(from_bytes(sample, cp_isolation=_ENCODINGS))
    best = [
        match
        for match in matches
        if (match.chaos, match.coherence) == (matches[0].chaos, matches[0].coherence)
    ]
    names = [name for match in best for name in (match.encoding, *match.could_be_from_charset)]
    if not names:
        raise Stop(f"{line}: is not UTF-8, and no other encoding fits; {_NAME_IT}")
    codec = "cp1252" if "cp1252" in names else names[0]
    warn_once(
        "%s is read as %s, since its %s is not UTF-8; if that is wrong, %s", name, codec, line, _NAME_IT
    )
    return codec


def _lines(stream: Any, codec: str, most: int) -> Iterator[str]:
    """Yields the lines of a text with their ends. Raises Stop after `most` characters."""
    number = size = 0
    try:
        with io.TextIOWrapper(stream, codec, newline="") as text:
            while line := text.readline(most - size + 1):
                number, size = number + 1, size + len(line)
                if size > most:
                    raise Stop(f"holds more than {most // 2**20} MiB, far more than data of its size does")
                line.encode()  # halves of surrogate pairs, which some encodings can spell, are no characters
                yield line
    except (LookupError, ValueError) as error:
        reason = " ".join(str(error).split())[:120]
        raise Stop(f"line {number + 1}: cannot be read as {codec} ({reason}); {_NAME_IT}") from None


def _json(lines: Iterator[str], under: str, *, is_json: bool) -> Iterator[FileRow]:
    numbered = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
    head = list(islice(numbered, 2))
    if not head:
        return
    first = head[0][1].strip()
    value = _parse(first)
    if not is_json and isinstance(value, str) and first[0] not in "[{":
        raise Stop(f"line {head[0][0]}: is {value}; a table needs a name that ends in .csv or .tsv")
    is_object = isinstance(value, dict)
    if not (is_object and (head[1:] or not is_json)) and (is_json or first[0] == "[" or first == "{"):
        document = _parse("".join(line for _, line in chain(head, numbered)))
        if isinstance(document, str):
            raise Stop(document if is_json or first != "{" else f"line {head[0][0]}: {document}")
        for number, item in enumerate(_items(document, under), 1):
            yield row_of(f"item {number}", item)
    else:
        for number, line in chain(head, numbered):
            yield row_of(f"line {number}", _parse(line.strip()))


def _parse(text: str) -> Any:
    """Returns the JSON value of `text`; a string says what is wrong with it."""
    try:
        value = from_json(text)
    except ValueError as error:
        return f"not JSON: {error}".replace("at line 1 column", "at column")
    if isinstance(value, str):
        return {"text": value}
    return value if isinstance(value, dict | list) else f"is {kind(value)}, an object is needed"


def _items(value: Any, under: str) -> Iterator[Any]:
    """Yields the rows of a document: a list or that at a key, columns, objects by id, or a single row."""
    if isinstance(value, dict):
        key = under or next((name for name in _LISTS if isinstance(value.get(name), list | dict)), "")
        if under and under not in value:
            keys = ", ".join(f"{key!r:.80}" for key in [*value][:5])
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
    for item in value if isinstance(value, list) else [value]:
        fields = item if isinstance(item, dict) else {}
        if "paragraphs" in fields and fields.keys() <= {"title", "paragraphs"}:  # an article of SQuAD
            yield from value_at(item, "paragraphs.*.qas") or [item]
        else:
            row = fields["row"] if isinstance(fields.get("row"), dict) else item  # of the Hub's API
            yield {"text": row} if isinstance(row, str) else row


def _table(lines: Iterator[str], delimiter: str, usual: str) -> Iterator[FileRow]:
    """Yields one row a record; a cell with backslash and N, as databases export null, is null."""
    csv.field_size_limit(2**31 - 1)
    head = list(islice(lines, 100))
    first = next((line for line in head if line.strip()), "")
    if match := re.fullmatch(r'"?sep=([^"\r\n])"?\s*', first, re.IGNORECASE):  # Excel's
        delimiter = delimiter or match[1]
        head[head.index(first)] = "\n"
    widths = {mark: len(next(csv.reader([first], delimiter=mark), ())) for mark in (usual, *",;\t|")}
    delimiter = delimiter or max(widths, key=widths.__getitem__)
    lines = chain(head, lines)
    header, line = list[str](), 1
    try:
        reader = csv.reader(_quoted(lines) if delimiter == "\t" else lines, delimiter=delimiter, strict=True)
        for cells in reader:
            start, line = line, reader.line_num + 1
            if not any(map(str.strip, cells)):
                continue
            if not header:
                width = max(n for n, cell in enumerate(cells, 1) if cell.strip())
                header = [cell.strip() for cell in cells[:width]]
                if twice := [name for name, times in Counter(header).items() if times > 1]:
                    raise Stop(f"the header names the column {twice[0]!r:.80} twice; rename one")
            elif len(cells) >= len(header) and not any(map(str.strip, cells[len(header) :])):
                nulled = [None if cell == r"\N" else cell for cell in cells]
                yield FileRow(f"line {start}", dict(zip(header, nulled, strict=False)), cells=True)
            else:
                yield row_of(f"line {start}", f"has {len(cells)} values, and the header has {len(header)}")
    except (csv.Error, TypeError, ValueError) as error:
        raise Stop(f"line {line}: is no table: {error}") from error


def _quoted(lines: Iterator[str]) -> Iterator[str]:
    """Yields the lines of a table with tabs; in a line that is a record by itself, a quotation mark that
    opens a cell and is not closed in it is one of the text.
    """
    width = 0
    for line, after in pairwise(chain(lines, [""])):
        width = width or line.count("\t")
        is_last = line.endswith(("\r", "\n")) and not after.strip()
        is_record = line.count("\t") == width and (is_last or after.count("\t") == width)
        quoted = _OPEN_CELL.sub(lambda cell: '"' + cell[0].replace('"', '""') + '"', line)
        yield quoted if is_record else line


def _parquet(file: io.BufferedReader, name: str) -> Iterator[FileRow]:
    """Yields one row a record; columns of bytes, such as pictures, are left out, which is logged."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    try:
        table = ParquetFile(file)
        schema = table.schema_arrow
        if twice := [column for column, times in Counter(schema.names).items() if times > 1]:
            raise Stop(f"has the column {twice[0]!r:.80} twice; rename one")
        if binary := [column.name for column in schema if "binary" in str(column.type)]:
            warn_once("%s: the columns of bytes are left out: %s", name, ", ".join(binary))
        batches = table.iter_batches(1000, columns=[n for n in schema.names if n not in binary])
        for number, values in enumerate(chain.from_iterable(batch.to_pylist() for batch in batches), 1):
            yield row_of(f"item {number}", as_json(values))
    except (pa.ArrowException, OSError, ValueError, LookupError, OverflowError) as error:
        raise Stop(f"is no Parquet file, or a damaged one: {first_line(error)}") from error


def value_at(value: Any, path: str) -> Any:
    """Returns the value at `path` in the JSON `value`, None if there is none; with `*` a flat list."""
    if isinstance(value, Mapping) and path in value:
        return value[path]
    head, dot, rest = path.partition(".")
    if isinstance(value, list) and head == "*":
        items = [value_at(item, rest) if dot else item for item in value]
        leaves = chain.from_iterable(item if isinstance(item, list) else [item] for item in items)
        return [leaf for leaf in leaves if leaf is not None]
    steps = {str(n): item for n, item in enumerate(value)} if isinstance(value, list) else value
    inner = steps.get(head) if isinstance(steps, Mapping) else None
    return value_at(inner, rest) if dot and inner is not None else inner


def is_nothing(value: object) -> bool:
    """Returns whether `value` is null or the number NaN."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def as_text(value: object) -> str | None:
    """Returns a single value as text; None for an object, a list, bytes, an infinity or NaN."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, date | time):  # a datetime is a date
        return value.isoformat()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    is_plain = isinstance(value, str | int | Decimal) or (isinstance(value, float) and math.isfinite(value))
    return str(value) if is_plain else None


def as_list(value: object, *, cells: bool = False, separator: str = "") -> list[Any]:
    """Returns a list unchanged, null as an empty list, any other value as a list of one.

    With `cells` (texts of a table), or the separator "json", a text that spells a list in JSON, Python or
    numpy is parsed. Another `separator` splits a text.
    """
    if not isinstance(value, str):
        return value if isinstance(value, list) else [] if is_nothing(value) else [value]
    if (cells or separator == "json") and (spelled := _spelled_list(value.strip())) is not None:
        return spelled
    pieces = value.split(separator) if separator and separator != "json" else [value]
    return [piece.strip() if pieces[1:] else piece for piece in pieces if piece.strip()]


def leaves(value: object) -> Iterator[object]:
    """Yields the single values in lists, and in objects that hold answers; null and NaN are none."""
    if isinstance(value, Mapping):
        lower = {str(key).casefold(): item for key, item in value.items()}
        value = [lower[name] for name in _LEAVES if name in lower] or value
    if isinstance(value, list):
        for item in value:
            yield from leaves(item)
    elif not is_nothing(value):
        yield value


def as_json(value: object) -> Any:
    """Returns `value` with JSON values only: NaN and infinities become null, dates and decimals texts.

    Other values without a JSON form (bytes) become null.
    """
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    is_plain = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
    return value if is_plain else as_text(value)


def kind(value: object) -> str:
    """Returns the type of a JSON `value`, in words."""
    return _KINDS.get(type(value), type(value).__name__)


def _text(value: object) -> str:
    if (text := as_text(value)) is None:
        raise ValueError(f"is {kind(value)}, a text is needed")
    return text


def _words(value: object) -> str:
    if not (text := _text(value)).strip():
        raise ValueError("is empty")
    return text


def _texts(value: object, info: ValidationInfo) -> tuple[str, ...]:
    how: Mapping[str, Any] = info.context or {}
    separator = how.get("split_answers" if info.field_name == "answers" else "split_ids", "")
    texts = map(_text, leaves(as_list(value, cells=how.get("cells", False), separator=separator)))
    return tuple(dict.fromkeys(text for text in texts if text.strip() not in ("", "nan", "NaN")))


Text = Annotated[str, BeforeValidator(_text)]
"""A value of a row as text."""

Words = Annotated[str, BeforeValidator(_words)]
"""A text that is not blank."""

Texts = Annotated[tuple[str, ...], BeforeValidator(_texts)]
"""The texts in a value of any shape, each once, without those that say nothing."""


def _spelled_list(text: str) -> list[Any] | None:
    """Returns the list that `text` spells, in JSON, Python or numpy, or SQuAD's object of texts as a list of
    one; None if there is none.
    """
    if len(text) > 2**20 or text[:1] + text[-1:] not in ("[]", "{}", "a)"):
        return None
    text = _ARRAY.sub(r"\1", text)
    if _NUMPY.fullmatch(text):  # Python would join its texts
        return [ast.literal_eval(literal) for literal in re.findall(_LITERAL, text, re.DOTALL)]
    for read in (from_json, ast.literal_eval):
        try:
            value = read(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
        return (
            value
            if isinstance(value, list)
            else [value]
            if isinstance(value, dict) and "text" in value
            else None
        )
    return None
