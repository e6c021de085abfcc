"""Calls along a path of searches (RQ-RAG): the next query by kind, the next action, the answer, the score.

RQ-RAG, section 2.3, and appendix B.2 for the kinds of query, where control tokens ask for them.

`trajectory` is one text for each earlier search: its kind, its query and its passages. It is empty where
nothing was searched. The options of a multiple choice stand in the question.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import dspy
from pydantic import Field

_ACTIONS = {
    "rewrite": "search for the question in clearer words",
    "decompose": "search for one part of it",
    "disambiguate": "search for one of its meanings",
    "answer": "no search is needed, or those made suffice",
}


def _describe_actions(actions: Sequence[str]) -> str:
    return "; ".join(f"{action}: {_ACTIONS[action]}" for action in actions)


class RewriteQuery(dspy.Signature):
    """Rewrite the question as one clear search query, using what earlier searches found."""

    question: str = dspy.InputField()
    trajectory: list[str] = dspy.InputField(desc="earlier searches and what they found")
    query: str = dspy.OutputField(desc="a search query")


class DecomposeQuery(dspy.Signature):
    """Write one search query for a single part of the question that earlier searches left open."""

    question: str = dspy.InputField()
    trajectory: list[str] = dspy.InputField(desc="earlier searches and what they found")
    query: str = dspy.OutputField(desc="a search query")


class DisambiguateQuery(dspy.Signature):
    """Write one search query that spells out one exact meaning of the question, not searched for yet."""

    question: str = dspy.InputField()
    trajectory: list[str] = dspy.InputField(desc="earlier searches and what they found")
    query: str = dspy.OutputField(desc="a search query")


class ChooseAction(dspy.Signature):
    """Say what to do next about the question, given what earlier searches found."""

    question: str = dspy.InputField()
    trajectory: list[str] = dspy.InputField(desc="earlier searches and what they found")
    action: Literal["rewrite", "decompose", "disambiguate", "answer"] = dspy.OutputField(
        desc=_describe_actions(list(_ACTIONS))
    )


def choosing(kinds: Sequence[str]) -> Any:
    """`ChooseAction` with no kinds of query but `kinds`."""
    actions = (*kinds, "answer")
    return ChooseAction.with_updated_fields("action", Literal[actions], desc=_describe_actions(actions))


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
