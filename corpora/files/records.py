"""Reads questions and passages from JSON lines, gzipped or not.

A file is read to its end and all its problems are reported together, by line number. Blank lines are skipped.
Integer ids become strings.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from ragc.core.digest import canonical
from ragc.corpora.files.row import FileRow, field_hint, kind, no_columns
from ragc.corpora.files.rows import rows
from ragc.errors import DataError, UsageError
from ragc.records import HISTORY, Passage, Question, read_turns

HUB = "hf:"
"""What the address of a data set on the Hub begins with (`hub`)."""

MAX_LISTED = 20
"""The most problems in a message; the error's `problems` has all of them."""

MIN_SHARED = 3
"""Rows from which on a problem that every row has is reported once."""

_TABLES = frozenset({".csv", ".tsv"})
_QUESTION_KEYS = frozenset(Question.__slots__) - {"group", "inputs", "example"}
_Record = TypeVar("_Record", Passage, Question)


def is_address(text: str) -> bool:
    """Returns whether `text` is the address of a data set on the Hub, rather than a file."""
    return text.startswith(HUB)


def is_table(path: Path) -> bool:
    """Returns whether the file at `path` is CSV or TSV by its name, compressed or not."""
    return not _TABLES.isdisjoint(suffix.lower() for suffix in path.suffixes[-2:])


def read_questions(
    path: str | Path,
    *,
    corpus_ids: Container[str] | None = None,
    limit: int | None = None,
    answered: bool = True,
) -> tuple[Question, ...]:
    """Returns the questions of a file, in order; with `limit`, only the first rows are read.

    A row needs `id`, `question` and `answers` (at least one, none empty; none at all where they need not be
    `answered`), and may have `gold_ids`, `context_ids`, `query_time` and `split`, where null means absent.
    All other fields go to `extra`. With `corpus_ids`, gold and context ids must be among them.

    Raises DataError with every problem of the file, or if it has no question.
    """
    return _read(Path(path), "question", lambda row: _question(row, corpus_ids, answered), limit)


def read_corpus(path: str | Path, *, limit: int | None = None) -> tuple[Passage, ...]:
    """Returns the passages of a file, in order; with `limit`, only the first rows are read.

    A row needs `id`, `title` and `text`; title and text may be empty, other fields are ignored. A table may
    lack titles. No id may end in `#0`, which marks the first chunk of a passage.

    Raises DataError with every problem of the file, or if it has no passage.
    """
    return _read(Path(path), "passage", _passage, limit)


def passages_of(path: Path, problems: list[str]) -> Iterator[Passage]:
    """Yields the passages of a file, read lazily; problems are added to `problems`, except duplicate ids."""
    for row in rows(path):
        if not row.problems:
            passage = _passage(row)
            if row.absent:
                problems.append(no_columns(row, "passage"))
                return
            yield passage
        problems += [f"{row.location}: {problem}" if row.location else problem for problem in row.problems]


def read_passages(items: Iterable[Passage | Mapping[str, Any] | str]) -> tuple[Passage, ...]:
    """Returns the passages of `items` in memory: `Passage` records, mappings with `text`, or texts.

    A mapping may have `id` and `title`, other keys are ignored. A missing id becomes the item's number, from
    0. Raises DataError with every problem.
    """
    if isinstance(items, Mapping):  # whose keys would be taken for texts
        raise DataError(
            "corpus", ["is a mapping; pass a list of passages, each a text or {'id': …, 'text': …}"]
        )
    passages: list[Passage] = []
    problems: list[str] = []
    for number, item in enumerate(items):
        if isinstance(item, Passage):
            passages.append(item)
            continue
        values: object = {"text": item} if isinstance(item, str) else item
        if not isinstance(values, Mapping):
            problems.append(
                f"item {number}: {kind(item)} is no passage; pass texts, mappings or ragc.Passage"
            )
            continue
        row = FileRow(f"item {number}", {"id": number, "title": "", **values})
        passages.append(_passage(row))
        problems += [f"{row.location}: {problem}" for problem in row.problems]
    if problems:
        raise data_error("corpus", problems)
    return tuple(passages)


def content_fingerprint(records: Iterable[Passage | Question]) -> str:
    """Returns the SHA-256 of the records in their order, 64 hexadecimal digits; reads them one at a time."""
    sha = hashlib.sha256()
    for record in records:
        sha.update(record_line(record))
    return sha.hexdigest()


def record_line(record: Passage | Question) -> bytes:
    """Returns one line of canonical JSON, the record's contribution to the fingerprint: a group only if it is
    named.
    """
    names = [name for name in type(record).__slots__ if name != "group" or getattr(record, name)]
    values = [getattr(record, name) for name in names]
    plain = [dict(value) if isinstance(value, Mapping) else value for value in values]
    return canonical([type(record).__name__, *plain]).encode("utf-8", "surrogatepass") + b"\n"


def data_error(where: str, problems: Sequence[str], summary: Sequence[str] = ()) -> DataError:
    """Returns the error with all `problems`, whose message spells out the first `MAX_LISTED`.

    The message has the lines of a `summary` in the place of the problems where there is one.
    """
    error = DataError(where, problems)
    if summary:
        error.args = DataError(where, summary).args
    if len(lines := summary or problems) > MAX_LISTED:
        shown = "\n".join(f"  {problem}" for problem in lines[:MAX_LISTED])
        more = len(lines) - MAX_LISTED
        error.args = (f"{where}: {len(lines)} problems\n{shown}\n  and {more} more",)
    return error


def _question(row: FileRow, known: Container[str] | None, answered: bool) -> Question:
    question = Question(
        id=row.text("id", number=True),
        question=row.text("question"),
        answers=row.texts("answers", needed=answered),
        split=row.text("split", needed=False, blank=True),
        gold_ids=row.texts("gold_ids", number=True),
        context_ids=row.texts("context_ids", number=True),
        query_time=row.text("query_time", needed=False, blank=True),
        extra={name: value for name, value in row.values.items() if name not in _QUESTION_KEYS},
    )
    try:
        read_turns(question.extra.get(HISTORY))
    except UsageError as error:
        row.problems.append(str(error))
    if known is not None:
        for name, ids in (("gold_ids", question.gold_ids), ("context_ids", question.context_ids)):
            if lost := [i for i in dict.fromkeys(ids) if i not in known]:
                some = ", ".join(map(repr, lost[:3])) + (
                    f" and {len(lost) - 3} more" if len(lost) > 3 else ""
                )
                row.problems.append(f"`{name}` names {some}, not in the corpus")
    return question


def _passage(row: FileRow) -> Passage:
    passage = Passage(
        row.text("id", number=True),
        row.text("title", blank=True, needed=not row.columns),
        row.text("text", blank=True),
    )
    if passage.parent != passage.id:
        row.problems.append(f"`id` {passage.id!r} ends in '#0', which marks a first chunk; rename it")
    return passage


def _read(
    path: Path, name: str, make: Callable[[FileRow], _Record], limit: int | None
) -> tuple[_Record, ...]:
    records: list[_Record] = []
    problems: list[str] = []
    places: dict[str, str] = {}
    shared: list[str] | None = None
    count, row = 0, FileRow("", {})
    for row in islice(rows(path), limit):
        count += 1
        if not row.problems:
            record = make(row)
            if row.absent:
                problems.append(no_columns(row, name))
                break
            first = places.setdefault(record.id, row.location)
            if first != row.location and record.id:
                row.problems.append(f"`id` {record.id!r} was used on {first} already")
            records.append(record)
        shared = [one for one in row.problems if shared is None or one in shared]
        problems += [f"{row.location}: {problem}" if row.location else problem for problem in row.problems]
    if problems:
        summary: list[str] = []
        if shared and count >= MIN_SHARED:
            ends = tuple(f": {problem}" for problem in shared)
            summary = [f"every row: {problem}{field_hint(problem, row, name)}" for problem in shared]
            summary += [problem for problem in problems if not problem.endswith(ends)]
        raise data_error(str(path), problems, summary)
    if not records:
        raise DataError(str(path), [f"the file holds no {name}; one JSON object a line is needed"])
    return tuple(records)
