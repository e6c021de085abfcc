"""Field maps of recipes: the paths of fields in files of another shape."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from ragc.core.tables import Table, Words

GROUP = "group"
"""The key of a map of fields that names the column of groups; "" turns groups off."""


def _check_delimiter(text: str) -> str:
    if not re.fullmatch(r"\t|[^\s]|tab", text):
        raise ValueError('must be one character, or "tab"')
    return "tab" if text == "\t" else text


def _check_path(text: str) -> str:
    if text == "#":
        raise ValueError('only an id can be "#", the number of its row')
    return text


FieldPath = Annotated[Words, AfterValidator(_check_path)]
GroupPath = Annotated[str, Field(strict=True, pattern=r"^$|\S"), AfterValidator(_check_path)]


class PassageFields(Table):
    """Where a corpus file holds each field, as a dotted path. A field is else read by its name."""

    id: Words = Field(default="", description='Path of the id; "#" makes one of the number of the row.')
    title: FieldPath = Field(default="", description="Path of the title.")
    text: FieldPath = Field(default="", description="Path of the text.")
    under: FieldPath = Field(default="", description="Key of a JSON file that holds the list of rows.")
    delimiter: Annotated[str, AfterValidator(_check_delimiter)] = Field(
        default="",
        description='Character between the columns of a table, or "tab". By default it is detected.',
    )
    encoding: FieldPath = Field(default="", description="Encoding of a table. By default it is detected.")


class QuestionFields(PassageFields):
    """Where a question file holds each field, as a dotted path. A field is else read by its name."""

    question: FieldPath = Field(default="", description="Path of the question.")
    answers: FieldPath = Field(default="", description="Path of the gold answers.")
    gold_ids: FieldPath = Field(
        default="", description="Path of the ids of the passages that support the answer."
    )
    context_ids: FieldPath = Field(default="", description="Path of the ids of the passages that come along.")
    split: FieldPath = Field(default="", description="Path of the name of the split.")
    query_time: FieldPath = Field(default="", description="Path of the time when the question was asked.")
    group: GroupPath | None = Field(
        default=None,
        description="Path of the group: its questions stay in one split and count together. By default "
        'questions that share a gold passage, where splits are drawn; "" for no groups.',
    )
    split_answers: FieldPath = Field(
        default="", description='Text between answers in one cell; "json" where the cell spells a list.'
    )
    split_ids: FieldPath = Field(
        default="", description='Text between ids in one cell; "json" where the cell spells a list.'
    )
