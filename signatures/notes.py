"""Reading notes: one short note for each passage, then the answer, in one call."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Literal

import dspy
import pydantic

UNKNOWN = "unknown"


class Note(pydantic.BaseModel):
    """What one passage says about the question. `passage` is its number, counted from 1."""

    passage: int = pydantic.Field(ge=1, le=30)
    note: str = pydantic.Field(max_length=160)
    kind: Literal["answers", "context", "irrelevant"]


class Notes(pydantic.BaseModel):
    """The notes in the order of the passages."""

    notes: list[Note] = pydantic.Field(max_length=30)


class ReadingNotes(dspy.Signature):
    """Note what each passage says about the question, then answer it in as few words as possible."""

    question: str = dspy.InputField()
    passages: list[str] = dspy.InputField()
    reading: Notes = dspy.OutputField(
        desc="a short note for each passage: it answers, gives only context, or is irrelevant"
    )
    answer: str = dspy.OutputField(desc="a name, number or short phrase")


def limited_to(signature: Any, most: int) -> Any:
    """`signature` whose schema allows `most` notes; a reply with more is still read."""
    return signature.with_updated_fields("reading", type_=_notes(most))


@cache
def _notes(most: int) -> type[pydantic.BaseModel]:
    notes = Annotated[list[Note], pydantic.Field(max_length=30, json_schema_extra={"maxItems": most})]
    return pydantic.create_model("Notes", __doc__=Notes.__doc__, notes=notes)


def abstaining(signature: Any) -> Any:
    """`signature` with an answer that says `unknown` when nothing supports one."""
    return signature.with_updated_fields(
        "answer", desc=f"a name, number or short phrase; {UNKNOWN} when no passage supports one"
    )
