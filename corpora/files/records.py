"""Questions and passages from rows of any shape, by the usual names of their fields or by a map.

    {"qid": 7, "query": "Who?", "gold": [{"text": "Ada", "page": "p1"}], "level": "hard"}
    fields = {"gold_ids": "gold.*.page"}

A field that the map does not name is read from the first of its usual `NAMES` that a row has, in any case.
What was taken for what is logged, once a file. A row without an id gets its number. Keys that no field is
read from go to `extra`. Answers are a text, lists, or objects such as SQuAD's and TriviaQA's. A reply that
people rated down, or left without a vote in a column of votes, is no gold answer.

A filter keeps the rows that have one of the allowed values at each of its dotted paths. Values are compared
as texts, so that numbers, true and false also match the cells of tables. A list in a row matches if one of
its items does.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from glob import glob
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from ragc.core.digest import canonical
from ragc.corpora.files.rows import (
    FileRow,
    Text,
    Texts,
    Words,
    as_json,
    as_list,
    as_text,
    is_nothing,
    kind,
    row_of,
    rows,
    value_at,
    warn_once,
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
    "id": (
        *("id", "_id", "id_", "qid", "question_id", "query_id"),
        *("chunk_id", "passage_id", "pid", "docid", "doc_id"),
    ),
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
_DOWN = (
    "down 0 -1 no false bad negative dislike disliked thumbs_down thumbsdown thumbs-down wrong \U0001f44e "
    "nein schlecht"
)
_VOTES = {**dict.fromkeys(_UP.split(), "up"), **dict.fromkeys(_DOWN.split(), "down"), "": "none"}


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
        self.name, self.fields, self._model, self._numbered = name, fields, model, numbered
        self.places: dict[str, str] = {}
        self._last = FileRow("", {})

    def paths(self, values: Mapping[str, Any]) -> Mapping[str, str]:
        """Returns the path of each field in a row."""
        return _paths(self._model, tuple(self.fields.items()), tuple(values))

    def read(self, row: FileRow, number: int) -> Any:
        """Returns the record of a row; None, with problems added to it, if it is none."""
        self._last, places = row, self.paths(row.values)
        present = ((field, value_at(row.values, path)) for field, path in places.items())
        values = {field: value for field, value in present if not is_nothing(value)}
        self.places |= {field: places[field] for field in values}
        if self.fields.get("id", "#") == "#":
            values.setdefault("id", f"{self._numbered}-{number}" if self._numbered else str(number))
        try:
            return self._model.model_validate(values, context={**self.fields, "cells": row.cells})
        except ValidationError as error:
            for part in error.errors(include_url=False):
                field = str(part["loc"][0])
                message = f"`{places[field]}` {part['msg'].removeprefix('Value error, ')}"
                row.problems.append(self.lacks(field) if part["type"] == "missing" else message)
        return None

    def lacks(self, field: str) -> str:
        """Returns the problem of rows without `field`."""
        listed = ", ".join(f"{key!r:.80}" for key in [*self._last.values][:8]) or "nothing"
        if (path := self.fields.get(field, field)) != field:
            near = nearest(path, self._last.values) or f" The row has {listed}."
            return f"`{field}` is read from `{path}`, and nothing is there.{near}"
        table = "corpus_fields" if self._model is PassageRow else "fields"
        header = ", or add a first line with the names of the columns if there is none" * self._last.cells
        return f"`{field}` is missing: the row has {listed}; name its field in [data.{table}]{header}"

    def never(self, *needed: str) -> list[str]:
        """Returns a problem for each field of the map, and each `needed` one, that no row had."""
        named = [name for name in self._model.model_fields if self.fields.get(name, "#") != "#"]
        return [self.lacks(name) for name in sorted({*named, *needed} - self.places.keys())]

    def say(self) -> None:
        """Logs what was read from where, unless the map or the names of the fields say so."""
        taken = [
            f"`{name}` is read from `{path}`"
            for name, path in self.places.items()
            if path not in (name, self.fields.get(name))
        ]
        if taken:
            warn_once("%s: %s.", self.name, ", ".join(taken))


@lru_cache(maxsize=256)
def _paths(
    model: type[BaseModel], fields: tuple[tuple[str, str], ...], keys: tuple[str, ...]
) -> Mapping[str, str]:
    """Returns the path of each field of `model` in rows with these `keys`."""
    lower = {str(key).strip().casefold(): key for key in reversed(keys)}
    paths: dict[str, str] = {}
    for field in model.model_fields:
        names = NAMES.get(field, (field,))
        usual = next((name for name in names if name in lower or name.partition(".")[0] in lower), field)
        paths[field] = dict(fields).get(field, lower.get(usual, usual))
    return paths


def is_address(text: str) -> bool:
    """Returns whether `text` is the address of a data set on the Hub, rather than a file."""
    return text.startswith(HUB)


def files_named(base: Path, text: str) -> list[Path]:
    """Returns the files and folders that `text` names from `base`, a path or a pattern a line; [] where a
    line names none.
    """
    names = [
        [line] if os.path.lexists(base / line) else sorted(glob(line, root_dir=base, recursive=True))  # noqa: PTH207
        for line in text.splitlines()
    ]
    return [base / name for matches in names for name in matches] if all(names) else []


Source = str | Path | Iterable[FileRow]


def _rows_of(source: Source, fields: Mapping[str, str]) -> Iterable[FileRow]:
    if not isinstance(source, str | Path):
        return source
    return rows(Path(source), **{name: fields.get(name, "") for name in ("under", "delimiter", "encoding")})


Conditions = Mapping[str, str | float | Sequence[str | float]]
"""The value for each dotted path, or several values of which one must match."""


def match_rows(values: Sequence[Mapping[str, Any]], conditions: Conditions, name: str) -> list[bool]:
    """Returns which rows with these `values` meet every condition; a row without values meets none.

    Raises DataError if a path occurs in no row or no row is left; UsageError for a condition without a value,
    or with one that is no text, number or boolean.
    """
    met, filled = [True] * len(values), list(filter(None, values))
    problems, counts = list[str](), list[str]()
    for path, condition in conditions.items():
        choices = condition if isinstance(condition, list | tuple) else [condition]
        if not choices or not all(isinstance(value, str | int | float) for value in choices):
            raise UsageError(
                f"The filter on {path!r} needs a text, a number, true or false, or a list of them, found "
                f"{condition!r}."
            )
        allowed = set(map(_spelled, choices))
        texts = [[_spelled(item) for item in as_list(value_at(row, path))] for row in values]
        met = [before and not allowed.isdisjoint(item) for before, item in zip(met, texts, strict=True)]
        seen = Counter(text[:60] for item in texts for text in item).most_common(5)
        if filled and not seen:
            near = nearest(path, filled[-1]) or f" Found: {', '.join(map(repr, [*filled[-1]][:10]))}."
            problems.append(f"the filter asks for `{path}`, which no row has.{near}")
        shown = ", ".join(f"{text!r} ({n})" for text, n in seen)
        counts.append(f"`{path}` must be {' or '.join(map(repr, sorted(allowed)))}, found {shown}")
    if filled and not any(met):
        problems = problems or [f"the filter leaves none of {len(filled)} rows: {'; '.join(counts)}"]
    if problems:
        raise DataError(name, problems)
    return met


class Questions(NamedTuple):
    """The questions of a file, the location and reason of each row left out, where fields were read from, and
    the values of the column of groups, by the id of the question.
    """

    questions: tuple[Question, ...]
    skipped: tuple[str, ...]
    places: Mapping[str, str]
    groups: Mapping[str, tuple[str, ...]]


def read_questions(
    source: Source,
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
    reader = Reader(QuestionRow, name or str(source), fields or {}, numbered)
    read = list(_rows_of(source, reader.fields))
    votes, met = _votes(read, reader), match_rows([row.values for row in read], where or {}, reader.name)
    questions: dict[str, Question] = {}
    first: dict[str, str] = {}
    groups: dict[str, tuple[str, ...]] = {}
    problems, skipped = list[str](), list[str]()
    for number, (row, vote, is_met) in enumerate(zip(read, votes, met, strict=True), 1):
        if is_met and not row.problems and (record := reader.read(row, number)):
            question = _question(row, record, reader, vote)
            if answered and not question.answers:
                why = "its reply is not rated up" if "thumb" in question.extra else "no answer says anything"
                skipped.append(f"{row.location}: {why}")
                continue
            for field, ids in (("gold_ids", question.gold_ids), ("context_ids", question.context_ids)):
                if lost := [name for name in ids if corpus_ids is not None and name not in corpus_ids]:
                    listed = ", ".join(map(repr, lost[:3])) + f" and {len(lost) - 3} more" * (len(lost) > 3)
                    row.problems.append(f"`{field}` names {listed}, not in the corpus")
            if first.setdefault(record.id, row.location) != row.location:
                row.problems.append(f"`id` {record.id!r} was used on {first[record.id]} already")
            questions[record.id] = question
            if path := reader.fields.get("group"):
                separator = reader.fields.get("split_ids", "")
                values = as_list(value_at(row.values, path), cells=row.cells, separator=separator)
                groups[record.id] = tuple(text for value in values if (text := as_text(value)))
        problems += row.located()
    needed = ("answers",) if answered and skipped and not questions else ()
    if problems := [*(reader.never(*needed) if read else ()), *problems]:
        raise data_error(reader.name, problems)
    if not questions:
        left = f": {len(skipped)} rows were left out, the first at {skipped[0]}" if skipped else ""
        raise DataError(reader.name, [f"holds no question{left}"])
    reader.say()
    return Questions(tuple(questions.values()), tuple(skipped), reader.places, groups)


def _question(row: FileRow, record: QuestionRow, reader: Reader, vote: str) -> Question:
    used = {*reader.paths(row.values).values(), *QuestionRow.model_fields}
    extra = {str(key): as_json(value) for key, value in row.values.items() if key not in used}
    values = record.model_dump()
    if vote != "up" and record.answers:
        extra |= {"reply": record.answers[0], "thumb": vote}
        values["answers"] = ()
    try:
        read_turns(extra.get(HISTORY))
    except UsageError as error:
        row.problems.append(str(error))
    return Question(**values, extra=extra)


def _votes(rows: Sequence[FileRow], reader: Reader) -> list[str]:
    """Returns what people thought of the reply of each row: "up", "down" or "none".

    Columns whose values are all votes count as a whole; in another, only a vote against does.
    """
    columns = dict.fromkeys(key for row in rows for key in row.values)
    read_from = {reader.paths(row.values)["answers"].casefold() for row in rows}
    replies = {str(key).casefold() for key in columns} & _REPLIES
    is_reply = bool(read_from & {"answer", "answers", *replies}) and replies <= read_from
    rated = is_reply and "answers" not in reader.fields
    votes = ["up"] * len(rows)
    for column in columns:
        words = set(re.findall(r"[a-z]+", str(column).casefold()))
        ratings = [_vote(row.values.get(column), against=bool(words & _AGAINST)) for row in rows]
        if words.isdisjoint(_RATINGS) or words & _NO_RATINGS or {*ratings} == {"none"}:
            continue
        all_votes = None not in ratings
        if (not rated and "reply" not in replies) or (rated and not all_votes and not words & _ONLY_VOTES):
            used = "only where it votes against a reply" if rated and "down" in ratings else "not"
            warn_once("%s: `%s` looks like a rating and is %s used.", reader.name, column, used)
        for position, vote in enumerate(ratings if rated else ()):
            if not vote and words & _ONLY_VOTES:
                shown = f"`{column}` is {rows[position].values[column]!r:.80}"
                rows[position].problems.append(f"{shown}, no vote; write up or down")
            if vote and (all_votes or vote == "down"):
                votes[position] = min(vote, votes[position], key=("down", "none", "up").index)
    return votes


def _vote(value: Any, *, against: bool) -> str | None:
    """Returns "up", "down" or "none" for the value of a rating; None for one that is no vote."""
    if isinstance(value, Mapping):
        value = next((inner for key, inner in value.items() if key in _RATINGS or key == "value"), "?")
    text = "" if is_nothing(value) else str(as_text(value))
    vote = _VOTES.get(text.strip(" :").casefold().replace(" ", "_").removesuffix(".0"))
    return {"up": "down", "down": "up"}.get(vote or "", vote) if against else vote


def filter_questions(
    questions: Sequence[Question], conditions: Conditions, name: str
) -> tuple[Question, ...]:
    """Returns the questions that meet the `conditions` on `extra`, `split`, `id` and `query_time`.

    `name` is the origin of the questions in errors. Raises as `match_rows` does.
    """
    values = [{"id": q.id, "split": q.split, "query_time": q.query_time, **q.extra} for q in questions]
    return tuple(q for q, met in zip(questions, match_rows(values, conditions, name), strict=True) if met)


def flat(conditions: Mapping[str, object], before: str = "") -> dict[str, object]:
    """Returns nested tables in `conditions` as dotted paths: in TOML `meta.level = 1` is a table `meta`."""
    out: dict[str, object] = {}
    for name, value in conditions.items():
        out |= flat(value, f"{before}{name}.") if isinstance(value, Mapping) else {f"{before}{name}": value}
    return out


def _spelled(value: object) -> str:
    """Returns how a value is compared: true and false in small letters, whole numbers without a point."""
    text = str(int(value) if isinstance(value, float) and value.is_integer() else value).strip()
    return text.lower() if text.lower() in ("true", "false") else text


def read_corpus(
    source: Source, name: str = "", *, fields: Mapping[str, str] | None = None, numbered: str = "row"
) -> tuple[Passage, ...]:
    """Returns the passages of a file, or of rows that come from `name`, in order.

    Raises DataError with the problems of the rows, or if there is no passage.
    """
    problems: list[str] = []
    passages = tuple(passages_of(source, problems, name, fields, numbered))
    if problems or not passages:
        raise data_error(name or str(source), problems or ["holds no passage"])
    return passages


def passages_of(
    source: Source,
    problems: list[str],
    name: str = "",
    fields: Mapping[str, str] | None = None,
    numbered: str = "row",
) -> Iterator[Passage]:
    """Yields the passages of a file, read lazily; problems are added to `problems`, except duplicate ids."""
    reader, row = Reader(PassageRow, name or str(source), fields or {}, numbered), None
    for number, row in enumerate(_rows_of(source, reader.fields), 1):
        if passage := _passage(row, number, reader):
            yield passage
        problems += row.located()
        if len(problems) > MOST_PROBLEMS or (number == MOST_PROBLEMS and "text" not in reader.places):
            break
    problems[:0] = reader.never("text") if row else []
    reader.say()


def _passage(row: FileRow, number: int, reader: Reader) -> Passage | None:
    if row.problems or not (record := reader.read(row, number)):
        return None
    passage = Passage(record.id, record.title, record.text)
    if passage.parent == passage.id:
        return passage
    row.problems.append(f"`id` {passage.id!r} ends in '#0', which marks a first chunk; rename it")
    return None


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
        wrong = f"{kind(item)} is no passage; pass texts, mappings or ragc.Passage"
        row = row_of(f"item {number}", dict(values) if isinstance(values, Mapping) else wrong)
        if not row.problems and is_nothing(value_at(row.values, reader.paths(row.values)["text"])):
            row.problems.append(f"`text` is missing.{nearest('text', row.values)}")
        if passage := item if isinstance(item, Passage) else _passage(row, number, reader):
            made.append(passage)
        else:
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
    fields = {name: getattr(record, name) for name in type(record).__slots__}
    plain = [dict(v) if isinstance(v, Mapping) else v for name, v in fields.items() if name != "group" or v]
    return canonical([type(record).__name__, *plain]).encode("utf-8", "surrogatepass") + b"\n"


def data_error(where: str, problems: Sequence[str]) -> DataError:
    """Returns the error with all `problems`, whose message has each once, with its first locations, and the
    first `MAX_LISTED`.
    """
    locations: dict[str, list[str]] = {}
    for problem in problems:
        located = re.fullmatch(r"((?:[^:]*, )?(?:line|item) \d+): (.*)", problem, re.DOTALL)
        locations.setdefault(located[2] if located else problem, []).extend(
            located.groups()[:1] if located else ()
        )
    lines = []
    for message, places in locations.items():
        more = f" and {len(places) - 3} more" * (len(places) > 3)
        lines.append(f"{', '.join(places[:3])}{more}: {message}".removeprefix(": "))
    lines[MAX_LISTED:] = [f"and {len(lines) - MAX_LISTED} more"] * (len(lines) > MAX_LISTED)
    error = DataError(where, problems)
    error.args = DataError(where, lines).args
    return error
