"""ARC-Challenge and OpenBookQA: school science questions with options."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, AliasChoices, BaseModel, BeforeValidator, Field

from ragc.corpora.datasets.base import Item, passage_of
from ragc.corpora.files.rows import FileRow, Text, Words, as_json
from ragc.records import Question

LETTERS = ("A", "B", "C", "D", "E")
"""The labels of options; labels from 1 to 5 are converted to letters."""


def _letter(label: str) -> str:
    letter = dict(zip("12345", LETTERS, strict=True)).get(label.strip(), label.strip())
    if letter not in LETTERS:
        raise ValueError(f"is {label!r:.80}, a letter from A to E or a number from 1 to 5 is needed")
    return letter


def _options(value: Any) -> Any:
    """Returns options as a list of objects, where they are an object of lists."""
    texts, labels = (value.get("text"), value.get("label")) if isinstance(value, dict) else (None, None)
    if not isinstance(texts, list) or not isinstance(labels, list):
        return value
    if len(texts) != len(labels):
        raise ValueError("has other numbers of texts and of labels")
    return [{"text": text, "label": label} for text, label in zip(texts, labels, strict=True)]


Letter = Annotated[Words, AfterValidator(_letter)]


class Option(BaseModel):
    """An option as files have it."""

    label: Letter
    text: Words


class Context(BaseModel):
    """A passage as Self-RAG's files have it."""

    title: Text = ""
    text: Text


class Row(BaseModel):
    """A row; in the official form `stem` and `choices` are in the object `question`."""

    id: Words
    stem: Words = Field(validation_alias=AliasChoices("stem", "question_stem", "question"))
    choices: Annotated[list[Option], BeforeValidator(_options), Field(min_length=1)]
    answerKey: Letter  # noqa: N815
    ctxs: list[Context] = []


def read(row: FileRow, dataset: str) -> Item | None:
    """Returns a question whose text ends in its options, one a line as `A. text`; the answer is a letter.

    The official form and that of Hugging Face, with lists of `text` and `label` in `choices`, are read.
    Passages come from `ctxs`, as in Self-RAG's files. `extra` has the options as `choices`, by letter, and
    the other fields of the row.
    """
    asked = row.values.get("question")
    values = row.values | {"question": None} | asked if isinstance(asked, dict) else row.values
    if not (found := row.read(Row, values)):
        return None
    options = {option.label: option.text for option in found.choices}
    if len(options) < len(found.choices):
        row.problems.append("two options have the same label")
    elif found.answerKey not in options:
        row.problems.append(
            f"`answerKey` is option {found.answerKey}, and the options are {', '.join(options)}"
        )
    contexts = (passage_of(dataset, context.title, context.text) for context in found.ctxs)
    passages = {passage.id: passage for passage in contexts if passage.text}
    rest = row.values.keys() - {*Row.model_fields, "question", "question_stem"}
    question = Question(
        found.id,
        "\n".join([found.stem.strip(), *(f"{letter}. {text}" for letter, text in options.items())]),
        (found.answerKey,),
        context_ids=tuple(passages),
        extra={"choices": options} | {name: as_json(row.values[name]) for name in row.values if name in rest},
    )
    return question, tuple(passages.values())
