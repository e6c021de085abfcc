"""The loader of official files: the map of the card of a data set reads its rows, which may be prepared."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic import Field, StrictBool, TypeAdapter, ValidationError, create_model

from ragc.corpora.files.records import QuestionRow, read_questions
from ragc.corpora.files.rows import FileRow, as_list, is_nothing, rows, value_at
from ragc.errors import DataError, nearest
from ragc.records import Passage, Question

if TYPE_CHECKING:
    from ragc.corpora.datasets import Card

Prepare = Callable[[dict[str, Any], str], dict[str, Any]]
"""Returns a row as the map of its card reads it, given the row and the id of the data set.

Raises Skip if a rule leaves the row out, and ValueError, such as pydantic's, with what is wrong in it.
"""

_FIELDS = {
    "id": "id _id",
    "question": "question",
    "answers": "answer",
    **{name: name for name in ("gold_ids", "context_ids", "split", "query_time")},
}
"""The paths of the fields that a card does not name."""


class Skip(Exception):
    """A row that a rule of the data set leaves out; the message is the rule."""


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
    title, text = title.strip(), text.strip()
    sha = hashlib.sha256(f"{title}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()
    return Passage(f"{dataset}-{sha[:12]}", title, text)


def load(card: Card, path: Path, prepare: Prepare | None = None, corpus: tuple[Passage, ...] = ()) -> Dataset:
    """Returns everything in the official file at `path`; a question without an answer is left out.

    With a `corpus` its passages are these, and gold passages, which must be among them, are answer enough.

    Raises DataError with every problem of the file.
    """
    # A row that is prepared has none of the values that are not wanted.
    empty: list[Any] = [None] if prepare else [None, "", [], {}]
    flat, skipped = list[FileRow](), list[str]()
    context: dict[str, Passage] = {}
    for number, row in enumerate(rows(path, under=card.under), 1):
        try:
            if not row.problems:
                values = prepare(row.values, card.id) if prepare else row.values
                row.values = _read_fields(card, values, number, empty)
                passages, gold = _read_passages(card, values, cells=row.cells)
                row.values |= {"context_ids": list(passages)} | ({"gold_ids": gold} if gold else {})
                context |= passages
        except Skip as rule:
            skipped.append(f"{row.location}: {rule}")
            continue
        except ValueError as error:
            row.problems += problems_of(error)
        flat.append(row)
    if not any(row.problems or corpus or row.values["answers"] is not None for row in flat):
        raise DataError(str(path), [f"holds no question of {card.id}; give {card.file}", *skipped[:1]])
    read = read_questions(
        flat,
        str(path),
        fields={name: value for name, value in card.fields.items() if name not in _FIELDS},
        corpus_ids={passage.id for passage in corpus} or None,
        answered=not corpus,
    )
    questions = tuple(
        replace(question, extra=cast(Any, question.extra)["extra"]) for question in read.questions
    )
    shown = {id: context[id] for question in questions for id in question.context_ids if id in context}
    return Dataset(questions, corpus or tuple(shown.values()), (*skipped, *read.skipped))


def _read_fields(card: Card, values: dict[str, Any], number: int, empty: list[Any]) -> dict[str, Any]:
    """Returns the fields of the question in a row, and its other values as `extra`, without `empty` ones."""
    for path, value in card.skip.items():
        if value_at(values, path) == value:
            raise Skip(f"`{path}` is {value}")
    paths = {name: card.fields.get(name, usual).split() for name, usual in _FIELDS.items()}
    fields: dict[str, Any] = {}
    for name, named in paths.items():
        present = [value for path in named if not is_nothing(value := value_at(values, path))]
        fields[name] = present if name == "answers" and len(present) > 1 else next(iter(present), None)
    if isinstance(question := fields["question"], list):
        raise Skip("it is a conversation of several turns")
    if fields["id"] is None and card.id_from:
        digits = hashlib.sha256(str(question).encode()).hexdigest()[:12]
        fields["id"] = f"row-{number}" if card.id_from == "#" else f"{card.id}-{digits}"
    for path, value in ((paths[name][0], fields[name]) for name in ("id", "question")):
        if value is None:
            raise ValueError(f"`{path}` is missing.{nearest(path, [key for key in values if key != path])}")
    used = {*QuestionRow.model_fields, *chain(*paths.values()), *card.passages.get("under", "").split()}
    extra = card.extra or {name: name for name in values if name not in used}
    others = ((name, value_at(values, path)) for name, path in extra.items())
    return fields | {"extra": {name: value for name, value in others if value not in empty}}


@cache
def _items(text: str, gold: str) -> TypeAdapter[Any]:
    """Returns the reader of passages with a `text`; those support the answer whose `gold` is true."""
    item: Any = create_model(
        "Passage",
        title=(str | None, ""),
        text=(str, Field(alias=text)),
        gold=(StrictBool, Field(gold == "*", alias=gold)),
    )
    return TypeAdapter(dict[str, list[item]])


def _read_passages(
    card: Card, values: dict[str, Any], *, cells: bool
) -> tuple[dict[str, Passage], list[str]]:
    """Returns the passages in a row by id, and the ids of those that support the answer."""
    under = next((name for name in card.passages.get("under", "").split() if name in values), "")
    text, gold = card.passages.get("text", ""), card.passages.get("gold", "")
    items = (
        {"text": item} if isinstance(item, str) and not text else item
        for item in as_list(values.get(under), cells=cells)
    )
    read = _items(text or "text", gold).validate_python({under: list(items)})[under]
    passages = [(passage_of(card.id, item.title or "", item.text), item.gold) for item in read]
    gold_ids = dict.fromkeys(passage.id for passage, supports in passages if supports and passage.text)
    return {passage.id: passage for passage, _ in passages if passage.text}, list(gold_ids)


def problems_of(error: ValueError) -> list[str]:
    """Returns what is wrong with a row: pydantic's sentences, each with its place, or the message."""
    if not isinstance(error, ValidationError):
        return [str(error)]
    problems = []
    for part in error.errors(include_url=False)[:20]:
        keys = (f"[{key}]" if isinstance(key, int) else f".{key}" for key in part["loc"])
        what = re.sub(r"^(Input|List|Value error,) | or instance of \w+", "", part["msg"])
        what = "is missing" if part["type"] == "missing" else f"{what}, found {part['input']!r:.80}"
        problems.append(f"`{''.join(keys).lstrip('.')}` {what}")
    return problems
