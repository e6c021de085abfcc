"""Grading calls: passage relevance, answer support and utility, need for retrieval, gain from a source.

Two calls follow a bad grade: search words for the web, and a better query.

`NeedInfo` is the gate of Self-Eval: the model says whether a search is needed at all.

`CompareSources` decides whether the preferred source's passages add anything, or another source is needed.
"""

from __future__ import annotations

from typing import Any, Literal

import dspy
import pydantic

from ragc.signatures.claims import Percent


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
    grade: Grade = dspy.OutputField(
        desc="100 it states the answer, 50 a part of what is needed, 0 unclear, -100 it is about other things"
    )


class RelevanceCheck(dspy.Signature):
    """Decide whether the passage helps to answer the question."""

    question: str = dspy.InputField()
    passage: str = dspy.InputField()
    relevant: bool = dspy.OutputField(
        desc="true if it tells at least a part of what is needed; false if it is about something else"
    )


class SupportGrade(dspy.Signature):
    """Check the answer to the question against the passages."""

    question: str = dspy.InputField()
    passages: list[str] = dspy.InputField()
    answer: str = dspy.InputField()
    support: Literal["fully", "partially", "none"] = dspy.OutputField(
        desc="fully if the passages state it, partially if they state a part of it, none if they do not"
    )


class Utility(dspy.Signature):
    """Rate how well the answer serves somebody who asked the question."""

    question: str = dspy.InputField()
    answer: str = dspy.InputField()
    utility: Literal[1, 2, 3, 4, 5] = dspy.OutputField(
        desc="5 it answers all of the question, however briefly; 3 a part of it; 1 nothing of it"
    )


class NeedRetrieval(dspy.Signature):
    """Estimate whether facts must be looked up before the question can be answered."""

    question: str = dspy.InputField()
    need: Chance = dspy.OutputField(desc="0 you know the answer for sure, 100 it must be looked up")


class SearchWords(dspy.Signature):
    """Pick what to type into a web search that will find the answer to the question."""

    question: str = dspy.InputField()
    query: str = dspy.OutputField(
        desc="one to three names or keywords of the question, with commas between them"
    )


class BetterQuery(dspy.Signature):
    """Reword the search query, which did not find what the question needs."""

    question: str = dspy.InputField()
    query: str = dspy.InputField()
    better_query: str = dspy.OutputField(desc="one line in other words, still about the whole question")


class NeedInfo(dspy.Signature):
    """Decide whether you need additional information before you can answer the question.

    You need none when the answer is common knowledge. For names, dates, numbers and facts that few people
    know by heart, you do. Examples:
    How many days does a week have? false
    Who was the mayor of Gouda in 1962? true
    Which river is longer, the Vils or the Naab? true
    """

    question: str = dspy.InputField()
    need: bool = dspy.OutputField(
        desc="true if you need additional information, false if you are sure of the answer without it"
    )


class CompareSources(dspy.Signature):
    """Decide whether the new passages bring facts that help with the question and are not known yet."""

    question: str = dspy.InputField()
    known: list[str] = dspy.InputField()
    new: list[str] = dspy.InputField()
    analysis: str = dspy.OutputField(desc="what the new passages add, or why they add nothing, in a sentence")
    status: bool = dspy.OutputField(
        desc="true if they add something relevant; false if they are off the point or repeat what is known"
    )


def comparison(by: str) -> Any:
    """CompareSources with its `status`, or by `confidence` with one in percent in its place."""
    if by == "status":
        return CompareSources
    sure = dspy.OutputField(
        desc="how sure you are, in percent, that they add something relevant; low if they are off the point "
        "or repeat what is known"
    )
    return CompareSources.delete("status").append("confidence", sure, Percent)
