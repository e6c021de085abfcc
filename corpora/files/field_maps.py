"""Field maps of recipes: the paths of fields in files of another shape."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field
from pydantic_core import CoreSchema, core_schema

from ragc.core.validation import Checked, Model, Text, sentence, wrong
from ragc.errors import UsageError

GROUP = "group"
"""The key of a map of fields that names the column of groups; "" turns groups off."""

QUESTION_FIELDS = ("id", "question", "answers", "gold_ids", "context_ids", "split", "query_time")
PASSAGE_FIELDS = ("id", "title", "text")

PASSAGE_OPTIONS = ("under", "delimiter", "encoding")
QUESTION_OPTIONS = ("split_answers", "split_ids", GROUP, *PASSAGE_OPTIONS)
"""Keys of a map that are no fields of a record.

The path of the group of a question, which may be that of a field too, the separators of texts ("json": texts
that spell a list), the key of the list in a JSON file, and for tables the delimiter ("tab" for a tab) and the
encoding, if they cannot be detected.
"""


class _Delimiter(Checked):
    """The character between the columns of a table."""

    expected = 'one character, or "tab"'

    def schema(self) -> CoreSchema:
        """Returns a text."""
        return core_schema.str_schema(strict=True, pattern=r"^(.|\t|tab)$", regex_engine="python-re")

    def accept(self, value: object) -> object:
        """Normalises a tab to "tab"; refuses other blanks."""
        if value != "\t" and not str(value).strip():
            raise wrong("a text that is not empty")
        return "tab" if value == "\t" else value


class _FieldPath(Checked):
    """The dotted path of a field other than an id."""

    expected = "a text that is not empty"

    def schema(self) -> CoreSchema:
        """Returns a text."""
        return core_schema.str_schema(strict=True, pattern=r"\S")

    def accept(self, value: object) -> object:
        """Refuses "#", the number of a row."""
        if value == "#":
            raise sentence(UsageError('only an id can be "#", the number of its row'))
        return value


class _GroupPath(_FieldPath):
    """The dotted path of the group, "" for no groups."""

    expected = 'a text; "" divides groups'

    def schema(self) -> CoreSchema:
        """Returns a text."""
        return core_schema.str_schema(strict=True, pattern=r"^(.*\S.*)?$")


FieldPath = Annotated[str, _FieldPath()]


class PassageFields(Model):
    """Where a corpus file holds each field, as a dotted path. A field is else read by its name."""

    id: Annotated[str, Text()] = Field(
        default="", description='Path of the id; "#" makes one of the number of the row.'
    )
    title: FieldPath = Field(default="", description="Path of the title.")
    text: FieldPath = Field(default="", description="Path of the text.")
    under: FieldPath = Field(default="", description="Key of a JSON file that holds the list of rows.")
    delimiter: Annotated[str, _Delimiter()] = Field(
        default="",
        description='Character between the columns of a table, or "tab". By default it is detected.',
    )
    encoding: FieldPath = Field(default="", description="Encoding of a table. By default it is detected.")

    order: ClassVar[tuple[str, ...]] = (*PASSAGE_FIELDS, *PASSAGE_OPTIONS)


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
    group: Annotated[str, _GroupPath()] | None = Field(
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

    order: ClassVar[tuple[str, ...]] = (*QUESTION_FIELDS, *QUESTION_OPTIONS)
