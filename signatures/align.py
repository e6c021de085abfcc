"""Alignment of a question's grammatical parts with a passage, and pseudo-documents that would match them.

GGatrieval, sections 3.2 and 3.3. One alignment call covers one passage and all parts; parts are named by
number, from 1. `alignment` leaves out the outputs that a program does not use.

`SyntacticParse` splits a question into its grammatical parts (section 3.2, equation 1). It has eight slots,
each copied from the question or empty. The program drops what is not in the question.

Differs: a question word is aligned with what answers it, of which the paper says nothing.
"""

from __future__ import annotations

from typing import Annotated, Any

import dspy
from pydantic import BaseModel, Field


class Match(BaseModel):
    """A part and the piece of the passage that means the same."""

    component: int = Field(ge=1, le=8)
    segment: str = Field(max_length=200, description="words copied from the passage, not from the question")


class CheckedMatch(Match):
    """A match with the verdict on it. One object each: a reply cut short loses its last match only."""

    same: bool = Field(description="whether the segment, read once more, does mean the same")


class Rewording(BaseModel):
    """A part in other words."""

    component: int = Field(ge=1, le=8)
    wording: str = Field(max_length=80)


class AlignComponent(dspy.Signature):
    """Find the numbered parts of the question in the passage.

    For each part copy, word for word, one short unbroken piece of the passage that means the same; for a
    question word such as who, the piece that answers it. Leave out parts that the passage does not speak of.
    """

    question: str = dspy.InputField()
    components: list[str] = dspy.InputField(desc="parts of the question, numbered from 1")
    passage: str = dspy.InputField()
    aligned: Annotated[list[CheckedMatch], Field(max_length=8)] = dspy.OutputField(
        desc="the parts that the passage speaks of, each with its piece"
    )
    synonyms: Annotated[list[Rewording], Field(max_length=8)] = dspy.OutputField(
        desc="for every other part, the same in other words"
    )


def alignment(*, reflect: bool, reword: bool) -> Any:
    """AlignComponent, with verdicts on its matches if `reflect`, with `synonyms` if `reword`."""
    signature: Any = AlignComponent
    if not reflect:
        plain = Annotated[list[Match], Field(max_length=8)]
        signature = signature.with_updated_fields("aligned", type_=plain)
    return signature if reword else signature.delete("synonyms")


class PseudoDocument(dspy.Signature):
    """Write a short encyclopedia passage that speaks of every part of the query."""

    query: str = dspy.InputField()
    passage: str = dspy.OutputField(desc="two or three sentences")


Part = Annotated[str, Field(max_length=200)]


class SyntacticParse(dspy.Signature):
    """Split the question into its grammatical parts.

    Copy each part word for word. Leave a part empty when the question has none.
    """

    question: str = dspy.InputField()
    subject: Part = dspy.OutputField()
    predicate: Part = dspy.OutputField()
    object: Part = dspy.OutputField()
    predicative: Part = dspy.OutputField()
    attributive: Part = dspy.OutputField()
    adverbial: Part = dspy.OutputField()
    complement: Part = dspy.OutputField()
    apposition: Part = dspy.OutputField()
