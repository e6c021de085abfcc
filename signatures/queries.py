"""The next search query of a path, by kind, and the choice of how to go on.

RQ-RAG (METHODS section 4.3). `trajectory` is one text for each earlier search: its kind, its query
and the passages it found.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import dspy


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
    """Write one search query for a single exact meaning of the question, where it has several."""

    question: str = dspy.InputField()
    trajectory: list[str] = dspy.InputField(desc="earlier searches and what they found")
    query: str = dspy.OutputField(desc="a search query")


class ChooseAction(dspy.Signature):
    """Say what to do next: answer if earlier searches suffice, else the kind of search query to write."""

    question: str = dspy.InputField()
    trajectory: list[str] = dspy.InputField(desc="earlier searches and what they found")
    action: Literal["rewrite", "decompose", "disambiguate", "answer"] = dspy.OutputField()


def choosing(kinds: Sequence[str]) -> Any:
    """`ChooseAction` with no kinds of query but `kinds`."""
    return ChooseAction.with_updated_fields("action", Literal[(*kinds, "answer")])
