"""Putting documents in order, shortening them, and asking for what they lack.

RankGPT ranks a window of passages at a time (METHODS section 6); LLatrieval condenses each document
before it chooses, and asks again for what the chosen ones do not say (METHODS section 3).
"""

from __future__ import annotations

from typing import Annotated

import dspy
from pydantic import Field

LONGEST_WINDOW = 40
"""The most passages that one ranking names."""


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
