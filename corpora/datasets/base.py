"""Base of the data sets: the card of each, the loader of its official files, and readers of parts of a row.

A data set consists of a card and a reader of one row. The parts of a row are objects in a list, texts in
lists of lists, and documents.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from ragc.corpora.files.records import data_error
from ragc.corpora.files.row import FileRow, kind, no_columns, short_repr
from ragc.corpora.files.rows import UTF_8, rows
from ragc.errors import DataError
from ragc.records import Passage, Question


@dataclass(frozen=True, slots=True)
class Card:
    """The facts about a data set for users.

    `file` names the official files to use. `splits` are the official numbers of questions. `metrics` are the
    ids of the metrics in its papers, and `answer_format` the suitable value of that knob. `under` is the key
    of the list in a JSON file that holds an object.
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
        """Returns a JSON object for `ragc list datasets --json`."""
        return {name: getattr(self, name) for name in self.__slots__} | {
            "splits": dict(self.splits),
            "metrics": list(self.metrics),
        }


class Skip(Exception):
    """Raised by a reader for a row that a rule of the data set leaves out; the message is the rule."""


Item = tuple[Question, tuple[Passage, ...]]
"""A question and the passages that come with it."""

ReadRow = Callable[[FileRow], Item]
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


def load(card: Card, read: ReadRow, path: Path) -> Dataset:
    """Returns everything in the official file at `path`. Raises DataError with every problem of the file."""
    questions: dict[str, Question] = {}
    passages: dict[str, Passage] = {}
    problems: list[str] = []
    skipped: list[str] = []
    for row in rows(path, under=card.under, encoding=UTF_8):
        item = None
        if not row.problems:
            try:
                item = read(row)
            except Skip as rule:
                skipped.append(f"{row.location}: {rule}")
                continue
        if row.absent:
            problems.append(no_columns(row))
            break
        if item is not None and not row.problems:
            question, own = item
            if question.id in questions:
                row.problems.append(f"the id {short_repr(question.id)} was used before")
            questions[question.id] = question
            passages |= {passage.id: passage for passage in own}
        problems += [f"{row.location}: {problem}" if row.location else problem for problem in row.problems]
    if problems:
        raise data_error(str(path), problems)
    if not questions:
        raise DataError(str(path), [f"the file holds no question of {card.id}; give {card.file}"])
    return Dataset(tuple(questions.values()), tuple(passages.values()), tuple(skipped))


_Part = TypeVar("_Part")


def read_part(row: FileRow, name: str, value: object, read: Callable[[FileRow], _Part]) -> _Part | None:
    """Returns the result of `read` on the object `value`, at `name` in `row`; None if it is no object.

    Its problems are added to `row`, prefixed with `name`.
    """
    if not isinstance(value, dict):
        row.problems.append(f"`{name}` is {kind(value)}, an object is needed")
        return None
    inner = FileRow(row.location, value)
    result = read(inner)
    row.problems += [f"`{name}`: {problem}" for problem in inner.problems]
    return result


def read_parts(
    row: FileRow, name: str, read: Callable[[FileRow], _Part], *, needed: bool = False
) -> list[_Part]:
    """Returns the results of `read` on every object in the list `name`; at least one object if `needed`."""
    values = row.enumerate_items(row.items(name, needed=needed))
    parts = [read_part(row, f"{name}[{at}]", value, read) for at, value in values]
    return [item for item in parts if item is not None]


def leaves(value: object) -> list[object]:
    """Returns the items of a list, or of the lists in it, in order; any other value as the only item."""
    items = [value]
    for _ in range(2):
        items = [leaf for item in items for leaf in (item if isinstance(item, list) else [item])]
    return items


def read_texts(row: FileRow, name: str) -> list[str]:
    """Returns the texts of a field with a text, a list of texts or a list of lists, without blank texts."""
    if name not in row.values:
        row.text(name)
        return []
    items = leaves(row.values[name])
    if wrong := [leaf for leaf in items if not isinstance(leaf, str)]:
        row.problems.append(f"`{name}` holds {kind(wrong[0])}, a string or lists of strings are needed")
    return [leaf for leaf in items if isinstance(leaf, str) and leaf.strip()]


def documents(row: FileRow, name: str, dataset: str) -> tuple[Passage, ...]:
    """Returns the passages in the list `name` of objects with `title` and `text`.

    A title may be missing or blank. Documents without text and duplicates are left out.
    """
    passages = read_parts(row, name, lambda inner: _document(inner, dataset))
    return tuple({passage.id: passage for passage in passages if passage.text}.values())


def _document(row: FileRow, dataset: str) -> Passage:
    title = row.text("title", needed=False, blank=True).strip()
    return passage_of(dataset, title, row.text("text", blank=True).strip())
