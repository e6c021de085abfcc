"""What a data set is to ragc: a card, and a reader of one row of its official files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragc.corpora.readers import data_error
from ragc.corpora.row import Row, no_columns, shown
from ragc.corpora.rows import UTF_8, rows
from ragc.errors import DataError
from ragc.records import Passage, Question


@dataclass(frozen=True, slots=True)
class Card:
    """What a user should know of a data set.

    `file` says which official file to give. `splits` are the official numbers of questions. `metrics` are
    the ids of those that its papers report, and `answer_format` the value of that knob which suits it.
    `under` is the key of the list in a JSON file that holds an object.
    """

    id: str
    about: str
    file: str
    licence: str
    home: str
    citation: str
    splits: Mapping[str, int] = field(default_factory=dict)
    metrics: tuple[str, ...] = ("em", "f1")
    answer_format: str = "short"
    under: str = ""

    def to_json(self) -> dict[str, Any]:
        """A JSON object for `ragc list datasets --json`."""
        return {name: getattr(self, name) for name in self.__slots__} | {
            "splits": dict(self.splits),
            "metrics": list(self.metrics),
        }


class Skip(Exception):
    """Raised by a reader for a row that is left out by a rule of the data set; the message is the rule."""


Item = tuple[Question, tuple[Passage, ...]]
"""A question and the passages that come with it."""

ReadRow = Callable[[Row], Item]
"""Reads one row; notes what is wrong in the row's `problems`, raises Skip where a rule leaves it out."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A data set's file as read: its questions, all passages that come with them, and what was left out."""

    questions: tuple[Question, ...]
    passages: tuple[Passage, ...]
    skipped: tuple[str, ...] = ()


def passage_of(dataset: str, title: str, text: str) -> Passage:
    """The passage with an id made of its content, so that equal passages of several questions are one."""
    mark = hashlib.sha256(f"{title}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return Passage(f"{dataset}-{mark}", title, text)


def load(card: Card, read: ReadRow, path: Path) -> Loaded:
    """Everything in the official file at `path`. Raises DataError with every problem of it."""
    questions: dict[str, Question] = {}
    passages: dict[str, Passage] = {}
    problems: list[str] = []
    skipped: list[str] = []
    for row in rows(path, under=card.under, encoding=UTF_8):
        made = None
        if not row.problems:
            try:
                made = read(row)
            except Skip as rule:
                skipped.append(f"{row.place}: {rule}")
                continue
        if row.absent:
            problems.append(no_columns(row))
            break
        if made is not None and not row.problems:
            question, own = made
            if question.id in questions:
                row.problems.append(f"the id {shown(question.id)} was used before")
            questions[question.id] = question
            passages |= {passage.id: passage for passage in own}
        problems += [f"{row.place}: {problem}" if row.place else problem for problem in row.problems]
    if problems:
        raise data_error(str(path), problems)
    if not questions:
        raise DataError(str(path), [f"the file holds no question of {card.id}; give {card.file}"])
    return Loaded(tuple(questions.values()), tuple(passages.values()), tuple(skipped))
