"""The loader of the official files of data sets, by the map of a card or by a module that reads one row."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from pydantic import Field, create_model

from ragc.core.tables import Flag
from ragc.corpora.datasets.cards import Card
from ragc.corpora.files.records import QuestionRow, data_error
from ragc.corpora.files.rows import FileRow, Text, as_json, as_list, as_text, is_nothing, rows, value_at
from ragc.errors import DataError
from ragc.records import Passage, Question


class Skip(Exception):
    """Raised by a reader for a row that a rule of the data set leaves out; the message is the rule."""


Item = tuple[Question, tuple[Passage, ...]]
"""A question and the passages that come with it."""

ReadRow = Callable[[FileRow], Item | None]
"""Reads one row; None, with problems added to the row's `problems`, for a wrong one. Raises Skip if a rule
leaves it out.
"""


@dataclass(frozen=True, slots=True)
class Dataset:
    """The content of a data set's file: its questions, their passages, and the rows left out."""

    questions: tuple[Question, ...]
    passages: tuple[Passage, ...]
    skipped: tuple[str, ...] = ()


def passage_of(dataset: str, title: str, text: str) -> Passage:
    """Returns a passage with an id derived from its content, so that equal passages of several questions are
    one. White space around `title` and `text` is dropped.
    """
    title, text = title.strip(), text.strip()
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
        if item and not row.problems:
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
    paths = {name: card.fields.get(name, name).split() for name in QuestionRow.model_fields}
    places = {name: named[0] for name, named in paths.items()}
    separators = {name: value for name, value in card.fields.items() if name not in paths}
    listed = card.passages.get("under", "").split()
    used = {path for named in paths.values() for path in named} | {*QuestionRow.model_fields, *listed}
    text, gold = card.passages.get("text") or "text", card.passages.get("gold", "")
    item: Any = create_model(
        "Item",
        title=(Text, ""),
        text=(Text, Field(validation_alias=text)),
        supports=(Flag, Field(gold == "*", validation_alias=gold or None)),
    )
    items_row: Any = create_model("Items", items=(list[item], ...))
    numbers = count(1)

    def read(row: FileRow) -> Item | None:
        number = next(numbers)
        for path, value in card.skip.items():
            if value_at(row.values, path) == value:
                raise Skip(f"`{path}` is {value}")
        values: dict[str, Any] = {}
        for name, named in paths.items():
            if present := [value for path in named if not is_nothing(value := value_at(row.values, path))]:
                values[name] = present if name == "answers" and len(named) > 1 else present[0]
        if isinstance(values.get("question"), list):
            raise Skip("it is a conversation of several turns")
        if card.id_from and "id" not in values:
            values["id"] = f"row-{number}"
            if card.id_from == "question":
                sha = hashlib.sha256((as_text(values.get("question")) or "").encode())
                values["id"] = f"{card.id}-{sha.hexdigest()[:12]}"
        record = row.read(QuestionRow, values, places, **separators)
        under = next((name for name in listed if name in row.values), "")
        items = as_list(row.values.get(under), cells=row.cells)
        if not card.passages.get("text"):
            items = [{"text": value} if isinstance(value, str) else value for value in items]
        found = row.read(items_row, {"items": items}, {"items": under})
        if not record or not found:
            return None
        if not record.answers:
            raise Skip("no answer says anything")
        pairs = [(passage_of(card.id, part.title, part.text), part.supports) for part in found.items]
        passages = {passage.id: passage for passage, _ in pairs if passage.text}
        gold = dict.fromkeys(passage.id for passage, supports in pairs if supports and passage.text)
        extras = card.extra or {name: name for name in row.values if name not in used}
        extra = {name: as_json(value_at(row.values, path)) for name, path in extras.items()}
        filled = {name: value for name, value in extra.items() if value not in (None, "", [], {})}
        more = {"gold_ids": tuple(gold), "context_ids": tuple(passages), "extra": filled}
        return Question(**record.model_dump() | more), tuple(passages.values())

    return read
