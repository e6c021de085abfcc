"""Choosing documents and judging whether they suffice.

GGatrieval, section 3.4, and LLatrieval, on which it builds: `SelectDocuments` runs over a sliding window,
`VerifyDocuments` ends the rounds. Documents are numbered from 1 in the order they are given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import dspy
from pydantic import Field


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


def picked(ids: Sequence[int], n: int, k: int) -> tuple[list[int], int]:
    """Positions from 0 of at most `k` of the `n` documents that `ids` name, and how many ids name none.

    An id that comes twice counts once.
    """
    inside = [i - 1 for i in dict.fromkeys(ids) if 1 <= i <= n]
    return inside[:k], sum(not 1 <= i <= n for i in ids)


def with_sub_questions(question: str, sub_questions: Sequence[str]) -> str:
    """`question` with the narrower ones that it holds listed below it."""
    return "\n- ".join([f"{question}\nIn particular:", *sub_questions]) if sub_questions else question
