"""Decodes the lines of a table in any encoding, and detects the delimiter of its columns.

UTF-8 and the encodings of byte-order marks are detected. A file that is ASCII up to its first byte that is
not UTF-8 is read as cp1252, the usual encoding of Windows and old programs. That is logged. It is refused if
its words look like those of another alphabet. All other encodings must be named.
"""

from __future__ import annotations

import codecs
import csv
import logging
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import BinaryIO

from ragc.corpora.files.row import BOM, Stop, problem_row, unreadable

log = logging.getLogger("ragc.corpora")

MARKS = (
    (BOM, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark is a prefix
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
SEPARATORS = (",", ";", "\t", "|")

_BLOCK = 1 << 16
_SAMPLED = 200
_SAMPLED_CHARACTERS = 1 << 18
_EXCEL = re.compile(r'"?sep=([^"\r\n\x00])"?\s*', re.IGNORECASE)
_NAME_IT = 'save it as UTF-8, or name its encoding where the fields are named, as in encoding = "cp1251"'
_ZEROS = (
    "begins with zero bytes among letters, as UTF-16 without a byte-order mark does; save it as UTF-8, or "
    'name its encoding where the fields are named, as in encoding = "utf-16-le"'
)
# Letters of Central European encodings, decoded as cp1252, become signs inside words.
_SIGNS = re.compile(r"[A-Za-z][¹³¿¥£¯±¼½¾¢¶][A-Za-z]")
_RETURN = re.compile(r"\r(?!\n)")
_RUN = re.compile(r"[^\x00-\x7f]{4}")
_WORD = re.compile(r"[^\W\d_]{3,}")


def decode_lines(
    numbered: Iterator[tuple[str, int, bytes]],
    stream: BinaryIO,
    start: bytes,
    *,
    encoding: str,
    longest: int,
    label: str,
) -> Iterator[str]:
    """Returns the lines of `stream`, which begins with `start`, in `encoding`; "" detects the encoding.

    `numbered` are its lines as bytes, each with its location and offset; no line is longer than `longest`.
    "utf-8" allows nothing else. `label` names the file in logs. Raises Stop if it cannot be decoded.
    """
    marked = next((name for mark, name in MARKS if start.startswith(mark)), "")
    if not encoding and not marked and b"\0" in start:
        raise Stop(problem_row(_ZEROS))
    if encoding == "utf-8" or (not encoding and marked in ("", "utf-8")):
        return _detect(numbered, label, alone="utf-8" in (encoding, marked))
    name = encoding or marked
    try:
        "a".encode(name)  # refuses codecs that are no text encodings
        decoder = codecs.getincrementaldecoder(name)()
    except (LookupError, UnicodeError, ValueError):
        raise Stop(
            problem_row(f"encoding = {name!r} is none of texts that Python knows; {_NAME_IT}")
        ) from None
    return _decode_blocks(stream, decoder, name, longest)


def _detect(numbered: Iterator[tuple[str, int, bytes]], label: str, *, alone: bool) -> Iterator[str]:
    """Yields the lines as UTF-8, or as cp1252 from the first invalid line on, if all lines before are ASCII.

    `alone` allows UTF-8 only.
    """
    plain = not alone
    for location, offset, line in numbered:
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError as error:
            text = _decode_cp1252(line) if plain else None
            if text is None:
                more = "" if alone else f", and cp1252 (Windows) only if that is named; {_NAME_IT}"
                raise Stop(problem_row(f"{unreadable(error, offset)}{more}", location)) from None
            log.warning(
                "%s is read as cp1252 (Windows, Western Europe): its %s is not UTF-8", label, location
            )
            yield text
            break
        plain = plain and line.isascii()
    for location, offset, line in numbered:
        try:
            yield line.decode("cp1252")
        except UnicodeDecodeError as error:
            byte, at = error.object[error.start], offset + error.start
            problem = f"not cp1252, as the lines before: byte 0x{byte:02x} at offset {at} of the file"
            raise Stop(problem_row(f"{problem}; {_NAME_IT}", location)) from None


def _decode_cp1252(line: bytes) -> str | None:
    """Returns `line` as cp1252; None if it is invalid, or if its words look unlike a Western language."""
    try:
        text = line.decode("cp1252")
    except UnicodeDecodeError:
        return None
    foreign = [word for word in _WORD.findall(text) if not word.isascii()]
    letters = "".join(foreign)
    mostly = sum(not letter.isascii() for letter in letters) > 0.7 * len(letters)
    return None if _SIGNS.search(text) or _RUN.search(text) or (letters and mostly) else text


def _decode_blocks(
    stream: BinaryIO, decoder: codecs.IncrementalDecoder, name: str, longest: int
) -> Iterator[str]:
    """Yields the lines of `stream` in an encoding whose lines cannot be split as bytes."""
    begun: list[str] = []  # the pieces of the unfinished line
    length, number, first = 0, 0, True
    while True:
        block = stream.read(_BLOCK)
        try:
            text = decoder.decode(block, final=not block)
            text.encode(
                "utf-8"
            )  # halves of surrogate pairs, which some encodings can spell, are no characters
        except (UnicodeError, ValueError) as error:
            reason = " ".join(str(error).split())[:120]
            raise Stop(problem_row(f"not {name}: {reason}; {_NAME_IT}", f"line {number + 1}")) from None
        if first and text:
            text, first = text.removeprefix("\ufeff"), False
        *lines, rest = text.split("\n")
        for line in lines:
            number += 1
            yield f"{''.join(begun)}{line}\n"
            begun, length = [], 0
        begun.append(rest)
        length += len(rest)
        if length > longest:
            raise Stop(problem_row(f"is longer than {longest // 2**20} MiB", f"line {number + 1}"))
        if not block:
            if length:
                yield "".join(begun)
            return


def lines_of(lines: Iterator[str]) -> Iterator[str]:
    """Yields `lines`, also split at single carriage returns, the line ends of old Macs."""
    for line in lines:
        start = 0
        for end in _RETURN.finditer(line) if "\r" in line else ():
            yield line[start : end.end()]
            start = end.end()
        if start < len(line):
            yield line[start:]


def detect_delimiter(lines: Iterator[str], delimiter: str, usual: str) -> tuple[Iterator[str], str, int]:
    """Returns `lines` of a table, the delimiter of its columns, and the number of leading lines left out.

    The delimiter is `delimiter`, or else that of Excel's line `sep=;`, or else the one of `SEPARATORS` that
    splits the first records most evenly, or else `usual`.
    """
    sample: list[str] = []
    size, whole = 0, False
    while len(sample) < _SAMPLED and size < _SAMPLED_CHARACTERS:
        line = next(lines, None)
        if line is None:
            whole = True
            break
        sample.append(line)
        size += len(line)
    skipped = 0
    if sample and (match := _EXCEL.fullmatch(sample[0])):
        skipped, delimiter = 1, delimiter or match[1]
    sample = sample[skipped:]
    return chain(sample, lines), delimiter or _sniff(sample, usual, whole=whole), skipped


def _sniff(sample: Sequence[str], usual: str, *, whole: bool) -> str:
    best, separator = (0.0, 0, False), usual
    for candidate in SEPARATORS:
        widths = _widths(sample, candidate, whole=whole)
        if widths and widths[0] > 1:
            alike = sum(width == widths[0] for width in widths) / len(widths)
            score = (alike, widths[0], candidate == usual)
            if score > best:
                best, separator = score, candidate
    return separator


def _widths(sample: Sequence[str], delimiter: str, *, whole: bool) -> list[int]:
    """Returns the number of values of each record in `sample`; empty if quoting shows that they are no
    records.
    """
    widths: list[int] = []
    reader = csv.reader(sample, delimiter=delimiter, strict=True)
    try:
        widths += [len(record) for record in reader if record]
    except csv.Error as error:
        if whole or "unexpected end" not in str(error):
            return []
    return widths
