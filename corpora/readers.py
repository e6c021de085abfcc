"""Reading questions and passages from JSON lines, gzipped or not.

A file is read to its end and everything that is wrong with it is reported at once, by line number.
Blank lines are skipped. Ids that are whole numbers become strings.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Never, TypeVar

from ragc.errors import DataError, nearest
from ragc.fingerprint import canonical
from ragc.records import Passage, Question

LISTED = 20
"""Problems that a message spells out; the error's `problems` holds all of them."""

_BOM = b"\xef\xbb\xbf"
_Record = TypeVar("_Record", Passage, Question)
_KINDS = {
    str: "a string", bool: "true or false", int: "a number", float: "a number",
    list: "a list", dict: "an object", type(None): "null",
}  # fmt: skip


def read_questions(
    path: str | Path, *, corpus_ids: Iterable[str] | None = None, limit: int | None = None
) -> tuple[Question, ...]:
    """The questions of a file, in its order; with `limit`, only the first so many are looked at.

    A row needs `id`, `question` and `answers` (at least one, none empty), and may have `gold_ids`,
    `context_ids`, `query_time` and `split`, where null means absent. All else goes to `extra`. With
    `corpus_ids`, gold and context ids must be among them.

    Raises DataError with every problem of the file, or when it holds no question.
    """
    known = None if corpus_ids is None else frozenset(corpus_ids)
    return _read(Path(path), "question", lambda row: _question(row, known), limit)


def read_corpus(path: str | Path, *, limit: int | None = None) -> tuple[Passage, ...]:
    """The passages of a file, in its order; with `limit`, only the first so many are looked at.

    A row needs `id`, `title` and `text`; title and text may be empty, other fields are ignored. No id
    may end in `#0`, which marks the first chunk of a passage.

    Raises DataError with every problem of the file, or when it holds no passage.
    """
    return _read(Path(path), "passage", _passage, limit)


def content_fingerprint(records: Iterable[Passage | Question]) -> str:
    """The SHA-256 of the records in their order, 64 hexadecimal digits; reads them one at a time."""
    sha = hashlib.sha256()
    for record in records:
        values = [getattr(record, name) for name in type(record).__slots__]
        plain = [dict(value) if isinstance(value, Mapping) else value for value in values]
        sha.update(canonical([type(record).__name__, *plain]).encode("utf-8", "surrogatepass") + b"\n")
    return sha.hexdigest()


def data_error(where: str, problems: Sequence[str]) -> DataError:
    """The error with all `problems`, whose message spells out the first `LISTED`."""
    error = DataError(where, problems)
    if len(problems) > LISTED:
        shown = "\n".join(f"  {problem}" for problem in problems[:LISTED])
        more = len(problems) - LISTED
        error.args = (f"{where}: {len(problems)} problems\n{shown}\n  and {more} more",)
    return error


class _Row:
    """One object of a file; what is wrong with its fields is noted in `problems`."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values
        self.problems: list[str] = []

    def text(self, name: str, *, needed: bool = True, blank: bool = False, number: bool = False) -> str:
        """A string field; blank ones are refused unless `blank`, whole numbers unless `number`."""
        if self._absent(name, needed):
            return ""
        value = self.values[name]
        if number and type(value) is int:
            return str(value)
        if not isinstance(value, str):
            self.problems.append(f"`{name}` is {_KINDS[type(value)]}, a string is needed")
        elif not blank and not value.strip():
            self.problems.append(f"`{name}` is empty")
        else:
            return value
        return ""

    def texts(self, name: str, *, needed: bool = False, number: bool = False) -> tuple[str, ...]:
        """A list of strings that are not blank; at least one when `needed`."""
        if self._absent(name, needed):
            return ()
        value = self.values[name]
        if not isinstance(value, list):
            self.problems.append(f"`{name}` is {_KINDS[type(value)]}, a list of strings is needed")
            return ()
        if needed and not value:
            self.problems.append(f"`{name}` is an empty list, at least one is needed")
        for at, item in enumerate(value):
            if isinstance(item, str) and not item.strip():
                self.problems.append(f"`{name}[{at}]` is empty")
            elif not isinstance(item, str) and not (number and type(item) is int):
                self.problems.append(f"`{name}[{at}]` is {_KINDS[type(item)]}, a string is needed")
        return tuple(map(str, value))

    def _absent(self, name: str, needed: bool) -> bool:
        if name in self.values:
            return not needed and self.values[name] is None
        if needed:
            self.problems.append(f"`{name}` is missing.{nearest(name, self.values)}")
        return True


def _question(row: _Row, known: frozenset[str] | None) -> Question:
    question = Question(
        id=row.text("id", number=True),
        question=row.text("question"),
        answers=row.texts("answers", needed=True),
        split=row.text("split", needed=False, blank=True),
        gold_ids=row.texts("gold_ids", number=True),
        context_ids=row.texts("context_ids", number=True),
        query_time=row.text("query_time", needed=False, blank=True),
        extra={name: value for name, value in row.values.items() if name not in Question.__slots__},
    )
    if known is not None:
        for name, ids in (("gold_ids", question.gold_ids), ("context_ids", question.context_ids)):
            if lost := [i for i in dict.fromkeys(ids) if i not in known]:
                some = ", ".join(map(repr, lost[:3])) + (
                    f" and {len(lost) - 3} more" if len(lost) > 3 else ""
                )
                row.problems.append(f"`{name}` names {some}, not in the corpus")
    return question


def _passage(row: _Row) -> Passage:
    passage = Passage(
        row.text("id", number=True), row.text("title", blank=True), row.text("text", blank=True)
    )
    if passage.parent != passage.id:
        row.problems.append(f"`id` {passage.id!r} ends in '#0', which marks a first chunk; rename it")
    return passage


def _read(path: Path, kind: str, make: Callable[[_Row], _Record], limit: int | None) -> tuple[_Record, ...]:
    records: list[_Record] = []
    problems: list[str] = []
    lines: dict[str, int] = {}
    for number, found in islice(_rows(path), limit):
        if isinstance(found, str):
            problems.append(f"line {number}: {found}" if number else found)
            continue
        row = _Row(found)
        record = make(row)
        first = lines.setdefault(record.id, number)
        if first != number and record.id:
            row.problems.append(f"`id` {record.id!r} was used on line {first} already")
        problems += [f"line {number}: {problem}" for problem in row.problems]
        records.append(record)
    if problems:
        raise data_error(str(path), problems)
    if not records:
        raise DataError(str(path), [f"the file holds no {kind}; one JSON object a line is needed"])
    return tuple(records)


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """The line number and object of every line that is not blank, or what is wrong with it (0: the file)."""
    number, offset = 0, 0
    try:
        with path.open("rb") as plain:
            packed = plain.read(2) == b"\x1f\x8b"
            plain.seek(0)
            for line in gzip.GzipFile(fileobj=plain) if packed else plain:
                number += 1
                if text := line.removeprefix(_BOM).strip() if number == 1 else line.strip():
                    yield number, _object(text, offset + line.index(text))
                offset += len(line)
    except FileNotFoundError:
        yield 0, _missing(path)
    except IsADirectoryError:
        yield 0, "is a folder; name a file in it"
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        broken = "ends early" if isinstance(error, EOFError) else "is damaged"
        yield 0, f"the gzip stream {broken}, after line {number}; copy or download the file again"
    except OSError as error:
        yield 0, f"cannot be read: {error.strerror or error}"


def _object(line: bytes, offset: int) -> dict[str, Any] | str:
    """The object that `line` spells, or what is wrong with it; `offset` is where it begins in the file."""
    try:
        value = _DECODER.decode(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        at = error.start
        return f"not UTF-8: byte 0x{line[at]:02x} at offset {offset + at} of the file"
    except json.JSONDecodeError as error:
        return f"not JSON: {error.msg} at column {error.colno}"
    except (ValueError, RecursionError) as error:
        return f"not JSON: {error}"
    if not isinstance(value, dict):
        return f"is {_KINDS[type(value)]}, an object is needed"
    if b"\\ud" in line.lower():
        try:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError:
            return "a string holds half of a surrogate pair, which is no character"
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
