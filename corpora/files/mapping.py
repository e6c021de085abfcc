"""Questions and passages from rows of any shape, by a map from their fields to dotted paths.

    {"qid": 7, "query": "Who?", "gold": [{"text": "Ada", "page": "p1"}], "level": "hard"}
    fields = {"id": "qid", "question": "query", "answers": "gold.*.text", "gold_ids": "gold.*.page"}

A field that the map does not name is read from the key of its own name. Keys that no field is read from go
to `extra`. A path that the map names must lead somewhere in at least one row: the reader remembers which
paths did. `values` defines paths, and what numbers, dates and cells of tables become.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from ragc.corpora.files.field_maps import (
    GROUP,
    PASSAGE_FIELDS,
    PASSAGE_OPTIONS,
    QUESTION_FIELDS,
    QUESTION_OPTIONS,
)
from ragc.corpora.files.filters import Conditions, Where
from ragc.corpora.files.records import data_error, is_table
from ragc.corpora.files.row import FileRow, kind, no_columns
from ragc.corpora.files.rows import rows
from ragc.corpora.files.splits import group_values
from ragc.corpora.files.values import (
    NOWHERE,
    as_json,
    as_list,
    as_text,
    describe_missing,
    drop_path,
    is_no_answer,
    is_nothing,
    value_at,
)
from ragc.errors import DataError, UnknownName, UsageError
from ragc.records import HISTORY, Passage, Question, read_turns

ROW_NUMBER = "#"
"""The path of an id made from the row's number, counted from 1: "row-17"."""


class FieldReader:
    """Reads rows by the map `fields`, whose keys are `known` fields and `options`.

    A known field that the map does not name is read from the key of its own name. `numbered` is the prefix of
    ids made from row numbers. With `cells`, texts that spell a list are parsed. Problems of a row are added
    to its `problems`. Raises UsageError for another key, or a value that is no text or blank.
    """

    def __init__(
        self,
        fields: Mapping[str, object],
        known: Collection[str],
        options: Collection[str],
        *,
        numbered: str,
        cells: bool = False,
    ) -> None:
        for key, value in fields.items():
            if key not in known and key not in options:
                raise UnknownName("field", key, [*known, *options])
            if not isinstance(value, str) or not value.strip():
                raise UsageError(
                    f"The field {key!r} needs a path or text that is not empty, found {value!r}."
                )
            if value == ROW_NUMBER and key != "id":
                raise UsageError(f'Only an id can be the number of its row; {key!r} cannot be "#".')
        field_paths = {key: str(value) for key, value in fields.items()}
        self._paths = {name: field_paths.get(name, name) for name in known}
        self._named = {
            name: field_paths[name] for name in known if field_paths.get(name, ROW_NUMBER) != ROW_NUMBER
        }
        self._options = {name: field_paths.get(name, "") for name in options}
        self._never = dict(self._named)
        if path := self._options.get(GROUP):
            self._never[GROUP] = path
        self._last: FileRow | None = None
        self._numbered, self._cells = numbered, cells

    def id(self, row: FileRow, number: int) -> str:
        """Returns the id, or the prefixed row number if the map says so."""
        return f"{self._numbered}-{number}" if self._paths["id"] == ROW_NUMBER else self.text(row, "id")

    def text(self, row: FileRow, name: str, *, needed: bool = True, blank: bool = False) -> str:
        """Returns a single value as text; blank or null ones are refused if `needed`, unless `blank`."""
        value = self._value(row, name, needed)
        if value is NOWHERE or (is_nothing(value) and (blank or not needed)):
            return ""
        text = as_text(value)
        if is_nothing(value) or text is None:
            row.problems.append(f"{self._field_label(name)} is {kind(value)}, a text is needed")
        elif needed and not blank and not text.strip():
            row.problems.append(f"{self._field_label(name)} is empty")
        return text or ""

    def texts(self, row: FileRow, name: str, *, option: str, needed: bool = False) -> tuple[str, ...]:
        """Returns a list of texts, or a single value as a list of one; nulls, NaN and blanks are skipped."""
        value = self._value(row, name, needed)
        if value is NOWHERE:
            return ()
        texts = []
        for item in as_list(value, cells=self._cells, separator=self._options[option]):
            text = "" if is_nothing(item) else as_text(item)
            if text is None:
                row.problems.append(f"{self._field_label(name)} holds {kind(item)}, texts are needed")
            elif text.strip():
                texts.append(text)
        return tuple(texts)

    def group(self, row: FileRow) -> tuple[str, ...]:
        """Returns the values that name the group; lists in cells are those of ids."""
        path = self._options.get(GROUP, "")
        separator = self._options.get("split_ids", "")
        values = group_values(row.values, path, cells=self._cells, separator=separator) if path else ()
        if values is not None:
            self._never.pop(GROUP, None)
        return values or ()

    def rest(self, row: FileRow) -> dict[str, object]:
        """Returns the values that no field is read from, as JSON."""
        values: Any = row.values
        for path in self._paths.values():
            values = drop_path(values, path)
        return {str(name): as_json(value) for name, value in values.items()}

    def never(self) -> list[str]:
        """Returns a problem for every path that the map names and no row has."""
        if self._last is None:
            return []
        end = self._last.values
        return [
            f"`{name}` is read from `{path}`, which no row has: {describe_missing(end, path)}"
            for name, path in self._never.items()
        ]

    def _value(self, row: FileRow, name: str, needed: bool) -> object:
        self._last = row
        path = self._paths[name]
        value = value_at(row.values, path)
        if value is not NOWHERE:
            self._never.pop(name, None)
        elif needed and row.columns and path.partition(".")[0] not in row.columns:
            row.absent.append(path)
        elif needed:
            how = (
                "is not there" if name in self._named else "is missing, and the map does not say where it is"
            )
            row.problems.append(f"{self._field_label(name)} {how}: {describe_missing(row.values, path)}")
        return value

    def _field_label(self, name: str) -> str:
        path = self._paths[name]
        return f"`{name}`" if path == name else f"`{name}`, read from `{path}`,"


MOST_PROBLEMS = 1000
"""The number of problems after which reading stops."""

_Record = TypeVar("_Record", Passage, Question)


class _Skip(Exception):
    """A row is left out by a rule; the message is the rule."""


def read_questions(
    path: str | Path,
    *,
    fields: Mapping[str, str],
    where: Conditions | None = None,
    corpus_ids: Container[str] | None = None,
    limit: int | None = None,
    numbered: str = "row",
    groups: dict[str, tuple[str, ...]] | None = None,
    answered: bool = True,
) -> tuple[tuple[Question, ...], tuple[str, ...]]:
    """Returns the questions of a file, and the location and reason of each row left out; see `questions_of`.

    A `.json` file is read as a whole, every other file row by row.
    """
    path = Path(path)
    return questions_of(
        _rows(path, fields),
        str(path),
        fields=fields,
        where=where,
        corpus_ids=corpus_ids,
        limit=limit,
        numbered=numbered,
        cells=is_table(path),
        groups=groups,
        answered=answered,
    )


def read_corpus(
    path: str | Path, *, fields: Mapping[str, str], limit: int | None = None, numbered: str = "row"
) -> tuple[tuple[Passage, ...], tuple[str, ...]]:
    """Returns the passages of a file, and the location and reason of each row left out; see `passages_of`."""
    path = Path(path)
    return passages_of(_rows(path, fields), str(path), fields=fields, limit=limit, numbered=numbered)


def questions_of(
    rows: Iterable[FileRow],
    name: str,
    *,
    fields: Mapping[str, str],
    where: Conditions | None = None,
    corpus_ids: Container[str] | None = None,
    limit: int | None = None,
    numbered: str = "row",
    cells: bool = False,
    groups: dict[str, tuple[str, ...]] | None = None,
    answered: bool = True,
) -> tuple[tuple[Question, ...], tuple[str, ...]]:
    """Returns the questions in `rows` that pass `where`, in order, and the location and reason of each row
    left out.

    `name` is the origin of the rows in errors; only the first `limit` rows are read. `numbered` is the prefix
    of ids made from row numbers. With `cells`, texts that spell a list are parsed. What the column of groups
    holds is added to `groups`, by the id of the question.

    Answers that are null, NaN, blank or spell "nan" or "NaN" are ignored; a question without other answers is
    left out and counted, unless questions need not be `answered`. With `corpus_ids`, gold and context ids
    must be among them.

    Raises UsageError for an unknown key of the map; DataError with every problem of the rows (the first
    1000), if a path of the map or the filter occurs in no row, and if no question is left.
    """
    row_filter = Where(where or {})
    reader = FieldReader(fields, QUESTION_FIELDS, QUESTION_OPTIONS, numbered=numbered, cells=cells)

    def make(row: FileRow, number: int) -> Question | None:
        if not row_filter.keeps(row.values):
            return None
        question = _question(row, number, reader, corpus_ids, answered)
        if groups is not None:
            groups.setdefault(question.id, reader.group(row))
        return question

    return _collect(
        islice(rows, limit), name, "question", make, lambda: row_filter.problems() or reader.never()
    )


def passages_of(
    rows: Iterable[FileRow],
    name: str,
    *,
    fields: Mapping[str, str],
    limit: int | None = None,
    numbered: str = "row",
) -> tuple[tuple[Passage, ...], tuple[str, ...]]:
    """Returns the passages in `rows`, in order, and the location and reason of each row left out.

    A missing title is "". A row whose title and text are both blank or null is left out and counted. Raises
    as `questions_of` does.
    """
    reader = FieldReader(fields, PASSAGE_FIELDS, PASSAGE_OPTIONS, numbered=numbered)

    def make(row: FileRow, number: int) -> Passage:
        return _passage(row, number, reader)

    return _collect(islice(rows, limit), name, "passage", make, reader.never)


def _rows(path: Path, fields: Mapping[str, str]) -> Iterator[FileRow]:
    named = {name: fields.get(name, "") for name in PASSAGE_OPTIONS}
    if named["delimiter"].lower() == "tab":
        named["delimiter"] = "\t"
    return rows(path, **named)


def _question(
    row: FileRow, number: int, reader: FieldReader, known: Container[str] | None, answered: bool
) -> Question:
    answers = reader.texts(row, "answers", option="split_answers", needed=answered)
    question = Question(
        id=reader.id(row, number),
        question=reader.text(row, "question"),
        answers=tuple(answer for answer in answers if not is_no_answer(answer)),
        split=reader.text(row, "split", needed=False),
        gold_ids=reader.texts(row, "gold_ids", option="split_ids"),
        context_ids=reader.texts(row, "context_ids", option="split_ids"),
        query_time=reader.text(row, "query_time", needed=False),
        extra=reader.rest(row),
    )
    try:
        read_turns(question.extra.get(HISTORY))
    except UsageError as error:
        row.problems.append(str(error))
    for name, ids in (("gold_ids", question.gold_ids), ("context_ids", question.context_ids)):
        lacking = [] if known is None else [one for one in dict.fromkeys(ids) if one not in known]
        if lacking:
            more = f" and {len(lacking) - 3} more" if len(lacking) > 3 else ""
            listed = ", ".join(map(repr, lacking[:3]))
            row.problems.append(f"`{name}` names {listed}{more}, not in the corpus")
    if answered and not question.answers and not row.problems and not row.absent:
        raise _Skip("no answer says anything: each is null, NaN or blank")
    return question


def _passage(row: FileRow, number: int, reader: FieldReader) -> Passage:
    passage = Passage(
        reader.id(row, number),
        reader.text(row, "title", needed=False),
        reader.text(row, "text", blank=True),
    )
    if passage.parent != passage.id:
        row.problems.append(f"`id` {passage.id!r} ends in '#0', which marks a first chunk; rename it")
    if not row.problems and not row.absent and not f"{passage.title}{passage.text}".strip():
        raise _Skip("its title and text are blank")
    return passage


def _collect(
    rows: Iterable[FileRow],
    name: str,
    noun: str,
    make: Callable[[FileRow, int], _Record | None],
    after: Callable[[], list[str]],
) -> tuple[tuple[_Record, ...], tuple[str, ...]]:
    """Returns the records that `make` makes of the rows, without None; `after` returns the problems of the
    whole file.
    """
    records: dict[str, _Record] = {}
    places: dict[str, str] = {}
    problems: list[str] = []
    skipped: list[str] = []
    for number, row in enumerate(rows, 1):
        if not row.problems:
            try:
                record = make(row, number)
            except _Skip as rule:
                skipped.append(f"{row.location}: {rule}")
                continue
            if row.absent:
                problems.append(no_columns(row, noun))
                break
            if record is not None and not row.problems:
                first = places.setdefault(record.id, row.location)
                if record.id in records:
                    row.problems.append(f"`id` {record.id!r} was used on {first} already")
                records.setdefault(record.id, record)
        problems += [f"{row.location}: {problem}" if row.location else problem for problem in row.problems]
        if len(problems) > MOST_PROBLEMS:
            problems.append(f"{row.location}: the reading stopped here, after too many problems")
            break
    else:
        problems = after() + problems
    if problems:
        raise data_error(name, problems)
    if not records:
        raise DataError(name, [_nothing(noun, skipped)])
    return tuple(records.values()), tuple(skipped)


def _nothing(noun: str, skipped: list[str]) -> str:
    if skipped:
        return f"no {noun} is left: {len(skipped)} rows were left out by rule, the first at {skipped[0]}"
    return f"holds no {noun}"
