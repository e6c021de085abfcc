"""Putting passages in order of use for a question, all at once (RAG-X, the rerank step)."""

from __future__ import annotations

import dspy
from pydantic import BaseModel, Field


class Ranking(BaseModel):
    """Numbers of passages, the most useful first."""

    ids: list[int] = Field(max_length=20)


class RankPassages(dspy.Signature):
    """Order the passages by how much they help to answer the question, the most useful first."""

    question: str = dspy.InputField()
    passages: list[str] = dspy.InputField(desc="numbered from 1")
    ranking: Ranking = dspy.OutputField()
