"""Judging calls: is a passage relevant, is an answer supported and useful, is a search needed at all.

Also the two calls that follow a bad grade: search words for the web, and a better query.
"""

from __future__ import annotations

from typing import Literal

import dspy
import pydantic


class Grade(pydantic.BaseModel):
    """How relevant a passage is, in points."""

    points: int = pydantic.Field(ge=-100, le=100)


class Chance(pydantic.BaseModel):
    """How likely something is, in percent."""

    percent: int = pydantic.Field(ge=0, le=100)


class RelevanceGrade(dspy.Signature):
    """Grade how much the passage helps to answer the question."""

    question: str = dspy.InputField()
    passage: str = dspy.InputField()
    grade: Grade = dspy.OutputField(desc="100 it holds the answer, 0 unclear, -100 another topic")


class RelevanceCheck(dspy.Signature):
    """Decide whether the passage helps to answer the question."""

    question: str = dspy.InputField()
    passage: str = dspy.InputField()
    relevant: bool = dspy.OutputField(desc="true if it is about what the question asks")


class SupportGrade(dspy.Signature):
    """Decide how far the passages back up the answer to the question."""

    question: str = dspy.InputField()
    passages: list[str] = dspy.InputField()
    answer: str = dspy.InputField()
    support: Literal["fully", "partially", "none"] = dspy.OutputField(desc="how much of it they state")


class Utility(dspy.Signature):
    """Rate how useful the answer is to somebody who asked the question."""

    question: str = dspy.InputField()
    answer: str = dspy.InputField()
    utility: Literal[1, 2, 3, 4, 5] = dspy.OutputField(desc="5 complete and to the point, 1 useless")


class NeedRetrieval(dspy.Signature):
    """Estimate whether facts must be looked up to answer the question."""

    question: str = dspy.InputField()
    need: Chance = dspy.OutputField(desc="how likely a search is needed")


class SearchWords(dspy.Signature):
    """Name the few words to type into a web search for the question."""

    question: str = dspy.InputField()
    query: str = dspy.OutputField(desc="at most three keywords or names")


class BetterQuery(dspy.Signature):
    """Reword the search query, which did not find what the question needs."""

    question: str = dspy.InputField()
    query: str = dspy.InputField()
    better_query: str = dspy.OutputField(desc="one line")
