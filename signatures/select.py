"""Document selection: ranking, condensing, choosing, checking sufficiency, and searching for what is missing.

RankGPT: `RankPassages` ranks a window of passages at a time.

LLatrieval: each document is condensed before the choice, and a further search aims at what the chosen ones do
not say.

GGatrieval, section 3.4, which builds on LLatrieval: `SelectDocuments` runs over a sliding window,
`VerifyDocuments` ends the rounds. Documents are numbered from 1 in the order they are given.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import dspy
from pydantic import Field

LONGEST_WINDOW = 40
"""The most passages that one ranking names."""

_IRRELEVANT = re.compile(r"\W*((the|this) document is )?irrelevant(\W*$|[.:,;(]| to )", re.IGNORECASE)


class RankPassages(dspy.Signature):
    """Put the passages in order, the one that helps most to answer the question first."""

    question: str = dspy.InputField()
    passages: list[str] = dspy.InputField(desc="numbered from 1")
    order: Annotated[list[int], Field(max_length=LONGEST_WINDOW)] = dspy.OutputField(
        desc="the number of every passage once, best first"
    )


class CondenseDocument(dspy.Signature):
    """Keep only what the document says about the question, in at most 50 words.

    If it says nothing about the question, write the single word irrelevant.
    """

    question: str = dspy.InputField()
    document: str = dspy.InputField()
    summary: str = dspy.OutputField(desc="at most 50 words, or irrelevant")


class AnswerFromDocument(dspy.Signature):
    """Answer the question from the document alone, in at most 50 words.

    If the document does not help to answer it, write the single word irrelevant.
    """

    question: str = dspy.InputField()
    document: str = dspy.InputField()
    summary: str = dspy.OutputField(desc="the answer in at most 50 words, or irrelevant")


class UpdateQuestion(dspy.Signature):
    """Write a search question for what the documents do not yet tell about the question."""

    question: str = dspy.InputField()
    documents: list[str] = dspy.InputField(desc="found so far")
    new_question: str = dspy.OutputField(desc="one question that asks for what is missing")


class MissingPassage(dspy.Signature):
    """Write a short passage with the facts that the question needs and the documents lack."""

    question: str = dspy.InputField()
    documents: list[str] = dspy.InputField(desc="found so far")
    missing: str = dspy.OutputField(desc="two or three sentences")


def condensing(form: str) -> Any:
    """The call that shortens a document to a `summary` or to an `answer`."""
    return AnswerFromDocument if form == "answer" else CondenseDocument


def updating(form: str) -> Any:
    """The call that writes what to search for next: a `question` or a `passage`."""
    return MissingPassage if form == "passage" else UpdateQuestion


def irrelevant(summary: str) -> bool:
    """Whether a condensed document says no more than that the document is irrelevant."""
    return _IRRELEVANT.match(summary) is not None


class SelectDocuments(dspy.Signature):
    """Pick the k documents that answer the question best together.

    Prefer documents that add to each other over ones that repeat. Their order means nothing.
    """

    question: str = dspy.InputField()
    k: int = dspy.InputField(desc="how many to pick")
    documents: list[str] = dspy.InputField(desc="numbered from 1")
    ids: Annotated[list[int], Field(max_length=10)] = dspy.OutputField(desc="numbers of the picked documents")


class VerifyDocuments(dspy.Signature):
    """Say whether the documents hold all that a direct and correct answer to the question needs."""

    question: str = dspy.InputField()
    documents: list[str] = dspy.InputField()
    sufficient: Literal["YES", "NO"] = dspy.OutputField()


def verifying(*, examples: bool) -> Any:
    """VerifyDocuments; with `examples` it is shown questions with answers such as the one that is wanted."""
    if not examples:
        return VerifyDocuments
    field = dspy.InputField(desc="other questions, each with an answer as full as the one that is wanted")
    return VerifyDocuments.prepend("examples", field, list[str])


def pick_positions(ids: Sequence[int], n: int, k: int) -> tuple[list[int], int]:
    """Positions from 0 of at most `k` of the `n` documents that `ids` name, and how many ids name none.

    An id that comes twice counts once.
    """
    inside = [i - 1 for i in dict.fromkeys(ids) if 1 <= i <= n]
    return inside[:k], sum(not 1 <= i <= n for i in ids)


def with_sub_questions(question: str, sub_questions: Sequence[str]) -> str:
    """`question` with the narrower ones that it holds listed below it."""
    return "\n- ".join([f"{question}\nIn particular:", *sub_questions]) if sub_questions else question
