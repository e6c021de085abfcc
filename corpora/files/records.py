"""Questions and passages from rows of any shape, by the usual names of their fields or by a map.

    {"qid": 7, "query": "Who?", "gold": [{"text": "Ada", "page": "p1"}], "level": "hard"}
    fields = {"gold_ids": "gold.*.page"}

A field that the map does not name is read from the first of its usual `NAMES` that a row has, in any case.
What was taken for what is logged, once a file. A row without an id gets its number. Keys that no field is
read from go to `extra`. Answers are a text, lists, or objects such as SQuAD's and TriviaQA's. A reply that
people rated down, or left without a vote in a column of votes, is no gold answer.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from glob import glob
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ValidationError, ValidationInfo

from ragc.core.digest import canonical
from ragc.corpora.files.filters import Conditions, Where
from ragc.corpora.files.row import FileRow, kind, short_repr
from ragc.corpora.files.rows import rows as file_rows
from ragc.corpora.files.rows import warn_once
from ragc.corpora.files.values import (
    as_json,
    as_list,
    as_text,
    is_no_answer,
    is_nothing,
    paths,
    texts_of,
    value_at,
)
from ragc.errors import DataError, UsageError, nearest
from ragc.records import HISTORY, Passage, Question, read_turns

HUB = "hf:"
"""What the address of a data set on the Hub begins with (`hub`)."""

MAX_LISTED = 20
"""The most problems in a message; the error's `problems` has all of them."""

MOST_PROBLEMS = 1000
"""The number of problems after which reading stops."""

NAMES: Mapping[str, tuple[str, ...]] = {
    "id": ("id", "_id", "id_", "qid", "docid", "doc_id", "question_id", "query_id", "passage_id", "pid"),
    "question": (
        *("question", "query", "user_input", "prompt", "input", "question_text", "query_text", "frage"),
        "text",
    ),
    "answers": (
        *("answers", "ground_truth", "ground_truths", "gold_answers", "golden_answers", "answer", "gold"),
        *(
            "correct_answer",
            "expected",
            "expected_answer",
            "expected_output",
            "reference",
            "reference_answer",
        ),
        *("generation_gt", "possible_answers", "output", "completion", "response", "reply", "antwort"),
    ),
    "gold_ids": ("gold_ids", "retrieval_gt", "positive_ids", "relevant_ids"),
    "title": ("title", "metadata.title", "kwargs.metadata.title", "heading"),
    "text": (
        *("text", "contents", "content", "page_content", "kwargs.page_content", "passage"),
        *("passage_text", "body", "chunk", "segment", "document"),
    ),
}
"""The usual names of fields, in the order in which they are looked for. Other fields have their own name."""

# The replies of a system that people rate, and the words of columns of ratings.
_REPLIES = frozenset(("output", "completion", "response", "reply", "antwort"))
_RATINGS = frozenset(
    (
        *("rating", "rated", "score", "vote", "thumbs", "thumb", "feedback", "correct", "helpful"),
        *("liked", "like", "disliked", "dislike"),
    )
)
_NO_RATINGS = frozenset(("answer", "answers", "text", "comment", "id", "date", "time"))
_ONLY_VOTES = frozenset(("vote", "thumbs", "thumb", "liked", "like"))
_AGAINST = frozenset(("down", "dislike", "disliked"))
_UP = (
    "up 1 +1 yes true good positive like liked thumbs_up thumbsup thumbs-up helpful correct \U0001f44d ja gut"
)
_DOWN = """
down 0 -1 no false bad negative dislike disliked thumbs_down thumbsdown thumbs-down wrong \U0001f44e nein
schlecht
"""
_VOTES = {**dict.fromkeys(_UP.split(), "up"), **dict.fromkeys(_DOWN.split(), "down"), "": "none"}

# The keys of objects that hold answers.
_LEAVES = ("text", "texts", "answer", "value", "aliases", "normalizedaliases", "humananswers")


def _text(value: object) -> str:
    if (text := as_text(value)) is None:
        raise ValueError(f"is {kind(value)}, a text is needed")
    return text


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    return text


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


def _texts(value: object, info: ValidationInfo) -> tuple[str, ...]:
    how: Mapping[str, Any] = info.context or {}
    separator = how.get("split_answers" if info.field_name == "answers" else "split_ids", "")
    items = as_list(value, cells=how.get("cells", False), separator=separator)
    return tuple(dict.fromkeys(text for text in map(_text, leaves(items)) if not is_no_answer(text)))


Text = Annotated[str, BeforeValidator(_text)]
Words = Annotated[str, BeforeValidator(lambda value: _not_blank(_text(value)))]
Texts = Annotated[tuple[str, ...], BeforeValidator(_texts)]


class PassageRow(BaseModel):
    """A passage as files have it."""

    id: Words
    title: Text = ""
    text: Text = ""


class QuestionRow(BaseModel):
    """A question as files have it."""

    id: Words
    question: Words
    answers: Texts = ()
    gold_ids: Texts = ()
    context_ids: Texts = ()
    split: Text = ""
    query_time: Text = ""


class Reader:
    """Reads the rows of the file `name` as `model`, by the map `fields`; `numbered` begins the ids of rows
    without one.

    `places` has where each field was read from, in the last row that had it.
    """

    def __init__(
        self, model: type[PassageRow | QuestionRow], name: str, fields: Mapping[str, str], numbered: str
    ) -> None:
        self.places: dict[str, str] = {}
        self._model: Any = model
        self.name, self.fields, self._numbered = name, fields, numbered
        self._last: Mapping[str, Any] = {}
        self._paths: dict[tuple[str, ...], dict[str, str]] = {}

    def paths(self, values: Mapping[str, Any]) -> dict[str, str]:
        """Returns the path of each field in a row."""
        keys = tuple(values)
        if keys not in self._paths:
            lower = {str(key).strip().casefold(): key for key in reversed(keys)}
            self._paths[keys] = {}
            for field in self._model.model_fields:
                usual = [n for n in NAMES.get(field, (field,)) if n in lower or n.partition(".")[0] in lower]
                path = lower.get(usual[0], usual[0]) if usual else field
                self._paths[keys][field] = self.fields.get(field, path)
        return self._paths[keys]

    def read(self, row: FileRow, number: int) -> Any:
        """Returns the record of a row; None, with problems added to it, if it is none."""
        self._last, places = row.values, self.paths(row.values)
        values = {field: value_at(row.values, path) for field, path in places.items()}
        values = {field: value for field, value in values.items() if not is_nothing(value)}
        self.places |= {field: places[field] for field in values}
        if self.fields.get("id", "#") == "#":
            values.setdefault("id", f"{self._numbered}-{number}" if self._numbered else str(number))
        try:
            return self._model.model_validate(values, context={**self.fields, "cells": row.cells})
        except ValidationError as error:
            for part in error.errors(include_url=False):
                field = str(part["loc"][0])
                label = f"`{field}`" + f", read from `{places[field]}`," * (places[field] != field)
                message = part["msg"].removeprefix("Value error, ")
                row.problems.append(self.lacks(field) if part["type"] == "missing" else f"{label} {message}")
        return None

    def lacks(self, field: str) -> str:
        """Returns the problem of rows without `field`."""
        listed = ", ".join(map(short_repr, list(self._last)[:8])) or "nothing"
        if (path := self.fields.get(field, field)) != field:
            near = nearest(path, paths(self._last)) or f" The row has {listed}."
            return f"`{field}` is read from `{path}`, and nothing is there.{near}"
        table = "corpus_fields" if self._model is PassageRow else "fields"
        return f"`{field}` is missing: the row has {listed}; name its field in [data.{table}]"

    def never(self, *needed: str) -> list[str]:
        """Returns a problem for each field of the map, and each `needed` one, that no row had."""
        named = {
            name for name, path in self.fields.items() if name in self._model.model_fields and path != "#"
        }
        return [self.lacks(name) for name in sorted({*named, *needed} - self.places.keys())]

    def say(self) -> None:
        """Logs what was read from where, unless the map or the names of the fields say so."""
        taken = {
            name: path for name, path in self.places.items() if path not in (name, self.fields.get(name))
        }
        if taken:
            listed = ", ".join(f"`{name}` is read from `{path}`" for name, path in taken.items())
            warn_once("%s: %s.", self.name, listed)


def is_address(text: str) -> bool:
    """Returns whether `text` is the address of a data set on the Hub, rather than a file."""
    return text.startswith(HUB)


def files_named(base: Path, text: str) -> list[Path]:
    """Returns the files and folders that `text` names from `base`, a path or a pattern a line; [] where a
    line names none.
    """
    places: list[Path] = []
    for line in text.splitlines():
        names = [line] if os.path.lexists(base / line) else sorted(glob(line, root_dir=base, recursive=True))  # noqa: PTH207
        if not names:
            return []
        places += [base / name for name in names]
    return places


def rows_of(path: Path, fields: Mapping[str, str]) -> Iterator[FileRow]:
    """Yields the rows of a file as the map `fields` says."""
    how = {name: fields.get(name, "") for name in ("under", "delimiter", "encoding")}
    return file_rows(path, **(how | {"delimiter": how["delimiter"].replace("tab", "\t")}))


@dataclass(slots=True)
class Questions:
    """The questions of a file, the location and reason of each row left out, where fields were read from, and
    the values of the column of groups, by the id of the question.
    """

    questions: tuple[Question, ...]
    skipped: tuple[str, ...] = ()
    places: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def read_questions(
    source: str | Path | Iterable[FileRow],
    name: str = "",
    *,
    fields: Mapping[str, str] | None = None,
    where: Conditions | None = None,
    corpus_ids: Container[str] | None = None,
    numbered: str = "row",
    answered: bool = True,
) -> Questions:
    """Returns the questions of a file, or of rows that come from `name`, that pass `where`, in order.

    A question without an answer that says something is left out and counted, unless questions need not be
    `answered`; a reply that was not rated up is in `extra` as `reply`, with its `thumb`, "down" or "none".
    With `corpus_ids`, gold and context ids must be among them.

    Raises DataError with the problems of the rows, if a path of the map or the filter occurs in no row, and
    if no question is left.
    """
    fields, row_filter = fields or {}, Where(where or {})
    name = name or str(source)
    read = list(rows_of(Path(source), fields) if isinstance(source, str | Path) else source)
    reader = Reader(QuestionRow, name, fields, numbered)
    votes = _votes(read, reader)
    questions: dict[str, Question] = {}
    first: dict[str, str] = {}
    problems: list[str] = []
    skipped: list[str] = []
    groups: dict[str, tuple[str, ...]] = {}
    for number, row in enumerate(read, 1):
        passes = not row.problems and row_filter.keeps(row.values)
        record = reader.read(row, number) if passes else None
        if record:
            vote = votes.get(number, "up")
            question = _question(row, record, reader, vote)
            if answered and not question.answers:
                why = "its reply is not rated up" if "thumb" in question.extra else "no answer says anything"
                skipped.append(f"{row.location}: {why}")
                continue
            row.problems += _lost(question, corpus_ids)
            if record.id in first:
                row.problems.append(f"`id` {record.id!r} was used on {first[record.id]} already")
            first.setdefault(record.id, row.location)
            questions[record.id] = question
            if path := fields.get("group"):
                value, separator = value_at(row.values, path), fields.get("split_ids", "")
                groups[record.id] = texts_of(value, cells=row.cells, separator=separator)
        problems += row.located()
        if len(problems) > MOST_PROBLEMS:
            problems.append(f"{row.location}: the reading stopped here, after too many problems")
            break
    needed = ("answers",) if answered and skipped and not questions else ()
    lacking = reader.never(*needed) if read else []
    if problems := row_filter.problems() or [*lacking, *problems]:
        raise data_error(name, problems)
    if not questions:
        left = f": {len(skipped)} rows were left out, the first at {skipped[0]}" if skipped else ""
        raise DataError(name, [f"holds no question{left}"])
    reader.say()
    return Questions(tuple(questions.values()), tuple(skipped), reader.places, groups)


def _question(row: FileRow, record: QuestionRow, reader: Reader, vote: str) -> Question:
    used = {*reader.paths(row.values).values(), *QuestionRow.model_fields}
    extra = {str(key): as_json(value) for key, value in row.values.items() if key not in used}
    answers = record.answers
    if vote != "up" and answers:
        extra |= {"reply": answers[0], "thumb": vote}
        answers = ()
    try:
        read_turns(extra.get(HISTORY))
    except UsageError as error:
        row.problems.append(str(error))
    return Question(**record.model_dump() | {"answers": answers, "extra": extra})


def _lost(question: Question, corpus_ids: Container[str] | None) -> Iterator[str]:
    """Yields the problems of ids that are not `known`."""
    for field_name, ids in (("gold_ids", question.gold_ids), ("context_ids", question.context_ids)):
        lost = [] if corpus_ids is None else [name for name in ids if name not in corpus_ids]
        if lost:
            more = f" and {len(lost) - 3} more" * (len(lost) > 3)
            yield f"`{field_name}` names {', '.join(map(repr, lost[:3]))}{more}, not in the corpus"


def _votes(rows: Sequence[FileRow], reader: Reader) -> dict[int, str]:
    """Returns what people thought of the reply of each row, "up", "down" or "none", by its number.

    Columns whose values are all votes count as a whole; in another, only a vote against does.
    """
    keys = dict.fromkeys(key for row in rows for key in row.values)
    read_from = {reader.paths(row.values)["answers"].casefold() for row in rows}
    replies = {str(key).casefold() for key in keys} & _REPLIES
    rated = (
        "answers" not in reader.fields
        and read_from & {"answer", "answers", *replies}
        and replies <= read_from
    )
    votes: dict[int, str] = {}
    for column in keys:
        words = set(re.findall(r"[a-z]+", str(column).casefold()))
        turned = {"up": "down", "down": "up"} if words & _AGAINST else {}
        given = {number: _vote(row.values.get(column), turned) for number, row in enumerate(rows, 1)}
        if words.isdisjoint(_RATINGS) or words & _NO_RATINGS or set(given.values()) == {"none"}:
            continue
        all_votes = None not in given.values()
        if not rated and "reply" not in replies:
            warn_once("%s: `%s` looks like a rating and is not used.", reader.name, column)
        elif rated and not all_votes and words.isdisjoint(_ONLY_VOTES):
            used = "only where it votes against a reply" if "down" in given.values() else "not"
            warn_once("%s: `%s` looks like a rating and is %s used.", reader.name, column, used)
        for number, vote in given.items():
            if rated and not vote and words & _ONLY_VOTES:
                text = short_repr(rows[number - 1].values[column])
                rows[number - 1].problems.append(f"`{column}` is {text}, no vote; write up or down")
            if rated and vote and (all_votes or vote == "down"):
                votes[number] = min(vote, votes.get(number, vote), key=("down", "none", "up").index)
    return votes


def _vote(value: Any, turned: Mapping[str, str]) -> str | None:
    """Returns "up", "down" or "none" for the value of a rating; None for one that is no vote."""
    if isinstance(value, Mapping):
        value = next((inner for key, inner in value.items() if key in _RATINGS or key == "value"), "?")
    text = "" if is_nothing(value) else str(as_text(value))
    vote = _VOTES.get(text.strip(" :").casefold().replace(" ", "_").removesuffix(".0"))
    return turned.get(vote, vote) if vote else vote


def read_corpus(
    source: str | Path | Iterable[FileRow],
    name: str = "",
    *,
    fields: Mapping[str, str] | None = None,
    numbered: str = "row",
) -> tuple[Passage, ...]:
    """Returns the passages of a file, or of rows that come from `name`, in order.

    Raises DataError with the problems of the rows, or if there is no passage.
    """
    name, problems = name or str(source), list[str]()
    rows = rows_of(Path(source), fields or {}) if isinstance(source, str | Path) else source
    passages = tuple(_passages(rows, Reader(PassageRow, name, fields or {}, numbered), problems))
    if problems or not passages:
        raise data_error(name, problems or ["holds no passage"])
    return passages


def passages_of(path: Path, problems: list[str]) -> Iterator[Passage]:
    """Yields the passages of a file, read lazily; problems are added to `problems`, except duplicate ids."""
    return _passages(file_rows(path), Reader(PassageRow, str(path), {}, "row"), problems)


def _passage(row: FileRow, number: int, reader: Reader) -> Passage | None:
    record = None if row.problems else reader.read(row, number)
    passage = Passage(record.id, record.title, record.text) if record else None
    if passage and passage.parent != passage.id:
        row.problems.append(f"`id` {passage.id!r} ends in '#0', which marks a first chunk; rename it")
    return None if row.problems else passage


def _passages(rows: Iterable[FileRow], reader: Reader, problems: list[str]) -> Iterator[Passage]:
    row: FileRow | None = None
    for number, row in enumerate(rows, 1):
        if passage := _passage(row, number, reader):
            yield passage
        problems += row.located()
        if len(problems) > MOST_PROBLEMS or (number == MOST_PROBLEMS and "text" not in reader.places):
            break
    if row is not None and (lacking := reader.never("text")):
        problems[:0] = lacking
    reader.say()


def read_passages(items: Iterable[Passage | Mapping[str, Any] | str]) -> tuple[Passage, ...]:
    """Returns the passages of `items` in memory: `Passage` records, mappings with `text`, or texts.

    A missing id becomes the item's number, from 0. Raises DataError with every problem.
    """
    if isinstance(items, Mapping):  # whose keys would be taken for texts
        raise DataError(
            "corpus", ["is a mapping; pass a list of passages, each a text or {'id': …, 'text': …}"]
        )
    made, problems, reader = list[Passage](), list[str](), Reader(PassageRow, "corpus", {}, "")
    for number, item in enumerate(items):
        values = {"text": item} if isinstance(item, str) else item
        row = FileRow(f"item {number}", dict(values) if isinstance(values, Mapping) else {})
        if isinstance(item, Passage):
            made.append(item)
        elif not isinstance(values, Mapping):
            row.problems.append(f"{kind(item)} is no passage; pass texts, mappings or ragc.Passage")
        elif is_nothing(value_at(values, reader.paths(values)["text"])):
            row.problems.append(f"`text` is missing.{nearest('text', row.values)}")
        elif passage := _passage(row, number, reader):
            made.append(passage)
        problems += row.located()
    if problems:
        raise data_error("corpus", problems)
    return tuple(made)


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


def data_error(where: str, problems: Sequence[str]) -> DataError:
    """Returns the error with all `problems`, whose message has each once, with its first locations, and the
    first `MAX_LISTED`.
    """
    locations: dict[str, list[str]] = {}
    for problem in problems:
        location, _, message = problem.partition(": ")
        is_located = re.fullmatch(r"(.*, )?(line|item) \d+", location)
        locations.setdefault(message if is_located else problem, []).extend([location] if is_located else [])
    lines = []
    for message, rows in locations.items():
        more = f" and {len(rows) - 3} more" if len(rows) > 3 else ""
        lines.append(f"{', '.join(rows[:3])}{more}: {message}" if rows else message)
    if len(lines) > MAX_LISTED:
        lines[MAX_LISTED:] = [f"and {len(lines) - MAX_LISTED} more"]
    error = DataError(where, problems)
    error.args = DataError(where, lines).args
    return error
