"""Field maps of recipes: the paths of fields in files of another shape."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ragc.core.tables import Table, Words

GROUP = "group"
"""The key of a map of fields that names the column of groups; "" turns groups off."""


class PassageFields(Table):
    """Where a corpus file holds each field, as a dotted path. A field is else read by its name."""

    id: Words = Field(default="", description='Path of the id; "#" makes one of the number of the row.')
    title: Words = Field(default="", description="Path of the title.")
    text: Words = Field(default="", description="Path of the text.")
    under: Words = Field(default="", description="Key of a JSON file that holds the list of rows.")
    delimiter: Words = Field(
        default="",
        description='Character between the columns of a table, or "tab". By default it is detected.',
    )
    encoding: Words = Field(default="", description="Encoding of a table. By default it is detected.")


class QuestionFields(PassageFields):
    """Where a question file holds each field, as a dotted path. A field is else read by its name."""

    question: Words = Field(default="", description="Path of the question.")
    answers: Words = Field(default="", description="Path of the gold answers.")
    gold_ids: Words = Field(
        default="", description="Path of the ids of the passages that support the answer."
    )
    context_ids: Words = Field(default="", description="Path of the ids of the passages that come along.")
    split: Words = Field(default="", description="Path of the name of the split.")
    query_time: Words = Field(default="", description="Path of the time when the question was asked.")
    group: Annotated[str, Field(strict=True)] | None = Field(
        default=None,
        description="Path of the group: its questions stay in one split and count together. By default "
        'questions that share a gold passage, where splits are drawn; "" for no groups.',
    )
    split_answers: Words = Field(
        default="", description='Text between answers in one cell; "json" where the cell spells a list.'
    )
    split_ids: Words = Field(
        default="", description='Text between ids in one cell; "json" where the cell spells a list.'
    )
