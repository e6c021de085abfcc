"""Answering from a path of searches, and scoring the path.

RQ-RAG, section 2.3. `trajectory` is one text for each search: its kind, its query and the passages it
found; it is empty where nothing was searched. The options of a multiple choice stand in the question.
"""

from __future__ import annotations

from typing import Annotated, Any

import dspy
from pydantic import Field

Percent = Annotated[int, Field(ge=0, le=100)]


class AnswerPath(dspy.Signature):
    """Answer the question in as few words as possible, from the searches if they help, else from memory."""

    question: str = dspy.InputField()
    trajectory: list[str] = dspy.InputField(desc="searches and what they found")
    answer: str = dspy.OutputField(desc="a name, number or short phrase")


class TrajectoryJudge(dspy.Signature):
    """Score how well the searches support this answer to the question."""

    question: str = dspy.InputField()
    trajectory: list[str] = dspy.InputField(desc="searches and what they found")
    answer: str = dspy.InputField()
    score: Percent = dspy.OutputField(desc="0 (not at all) to 100 (fully)")


def with_confidence(signature: Any) -> Any:
    """`signature` with the answer's `confidence` in percent as its last output."""
    field = dspy.OutputField(desc="how sure you are that the answer is right, 0 to 100")
    return signature.append("confidence", field, Percent)
