"""The loader of the official files of data sets, by the map of a card or by a module that reads one row."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ragc.corpora.datasets.cards import Card
from ragc.corpora.files.records import QuestionRow, Reader, data_error
from ragc.corpora.files.row import FileRow, kind
from ragc.corpora.files.rows import rows
from ragc.corpora.files.values import as_json, as_list, is_nothing, value_at
from ragc.errors import DataError
from ragc.records import Passage, Question


class Skip(Exception):
    """Raised by a reader for a row that a rule of the data set leaves out; the message is the rule."""


Item = tuple[Question, tuple[Passage, ...]]
"""A question and the passages that come with it."""

ReadRow = Callable[[FileRow], Item | None]
"""Reads one row; adds problems to the row's `problems`, raises Skip if a rule leaves it out."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """The content of a data set's file: its questions, their passages, and the rows left out."""

    questions: tuple[Question, ...]
    passages: tuple[Passage, ...]
    skipped: tuple[str, ...] = ()


def passage_of(dataset: str, title: str, text: str) -> Passage:
    """Returns a passage with an id derived from its content, so that equal passages of several questions are
    one.
    """
    mark = hashlib.sha256(f"{title}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return Passage(f"{dataset}-{mark}", title, text)


def load(card: Card, path: Path, read: ReadRow | None = None) -> Dataset:
    """Returns everything in the official file at `path`, by `read` or by the map of the card.

    Raises DataError with every problem of the file.
    """
    read = read or _by_card(card)
    questions: dict[str, Question] = {}
    passages: dict[str, Passage] = {}
    problems: list[str] = []
    skipped: list[str] = []
    for row in rows(path, under=card.under):
        try:
            item = None if row.problems else read(row)
        except Skip as rule:
            skipped.append(f"{row.location}: {rule}")
            continue
        if item is not None and not row.problems:
            if item[0].id in questions:
                row.problems.append(f"the id {item[0].id!r} was used before")
            questions[item[0].id] = item[0]
            passages |= {passage.id: passage for passage in item[1]}
        problems += row.located()
    if problems:
        raise data_error(str(path), problems)
    if not questions:
        raise DataError(str(path), [f"the file holds no question of {card.id}; give {card.file}"])
    return Dataset(tuple(questions.values()), tuple(passages.values()), tuple(skipped))


def _by_card(card: Card) -> ReadRow:
    """Returns the reader of rows that the map of `card` describes."""
    options = {name: value for name, value in card.fields.items() if name not in QuestionRow.model_fields}
    paths = {name: value.split() for name, value in card.fields.items() if name not in options}
    reader = Reader(QuestionRow, card.id, {**options, **{name: name for name in paths}}, "row")
    number = 0

    def read(row: FileRow) -> Item | None:
        nonlocal number
        number += 1
        for path, value in card.skip.items():
            if value_at(row.values, path) == value:
                raise Skip(f"`{path}` is {value}")
        values = dict(row.values)
        for name, named in paths.items():
            present = [value for path in named if not is_nothing(value := value_at(row.values, path))]
            single = present[0] if present else None
            values[name] = present if len(named) > 1 and name == "answers" else single
        places = reader.paths(values)
        if isinstance(values.get(places["question"]), list):
            raise Skip("it is a conversation of several turns")
        for name in ("question",) if card.id_from else ("id", "question"):
            if is_nothing(value_at(values, places[name])):
                row.text(paths.get(name, [places[name]])[0])
        if row.problems:
            return None
        record = reader.read(FileRow(row.location, values, row.problems, row.cells), number)
        passages, gold = _passages(card, row)
        if record is None:
            return None
        if not record.answers:
            raise Skip("no answer says anything")
        if card.id_from == "question" and is_nothing(value_at(values, places["id"])):
            record.id = f"{card.id}-{hashlib.sha256(record.question.encode()).hexdigest()[:12]}"
        used = {*places.values(), *QuestionRow.model_fields, *card.passages.get("under", "").split()}
        extras = card.extra or {name: name for name in row.values if name not in used}
        extra = {name: value_at(row.values, path) for name, path in extras.items()}
        extra = {name: as_json(value) for name, value in extra.items() if value not in (None, "", [], {})}
        question = record.model_dump() | {"gold_ids": gold, "context_ids": tuple(passages), "extra": extra}
        return Question(**question), tuple(passages.values())

    return read


def _passages(card: Card, row: FileRow) -> tuple[dict[str, Passage], tuple[str, ...]]:
    """Returns the passages in `row` by id, and the ids of those that support the answer."""
    under = next((path for path in card.passages.get("under", "").split() if path in row.values), "")
    name, support = card.passages.get("text", ""), card.passages.get("gold", "")
    passages: dict[str, Passage] = {}
    gold: dict[str, None] = {}
    for index, item in row.enumerate_items(as_list(row.values.get(under), cells=row.cells)):
        values = {"text": item} if isinstance(item, str) and not name else item
        if not isinstance(values, dict):
            row.problems.append(f"`{under}[{index}]` is {kind(item)}, an object is needed")
            continue
        inner = FileRow("", values)
        title = inner.text("title", needed=False, blank=True).strip()
        text = inner.text(name or "text", blank=True).strip()
        supports = support == "*" or (values.get(support) if support else False)
        if not isinstance(supports, bool):
            inner.problems.append(f"`{support}` is {kind(supports)}, true or false is needed")
        row.problems += [f"`{under}[{index}]`: {problem}" for problem in inner.problems]
        passage = passage_of(card.id, title, text)
        if text:
            passages[passage.id] = passage
            gold |= {passage.id: None} if supports is True else {}
    return passages, tuple(gold)


_Part = TypeVar("_Part")


def read_parts(
    row: FileRow, name: str, read: Callable[[FileRow], _Part], *, needed: bool = False
) -> list[_Part]:
    """Returns the results of `read` on every object in the list `name`; at least one object if `needed`.

    Its problems are added to `row`, prefixed with the place.
    """
    parts = []
    for index, value in row.enumerate_items(row.items(name, needed=needed)):
        if not isinstance(value, dict):
            row.problems.append(f"`{name}[{index}]` is {kind(value)}, an object is needed")
            continue
        inner = FileRow(row.location, value)
        parts.append(read(inner))
        row.problems += [f"`{name}[{index}]`: {problem}" for problem in inner.problems]
    return parts
