"""Claims and what to search for (SlimPLM, section 3.3 and Table 8).

`ClaimSplit` takes an answer apart into claims with a query each, `ClaimKnown` judges one of them, and
`QuestionSplit` makes queries from the question alone.
"""

from __future__ import annotations

from typing import Annotated, Literal

import dspy
from pydantic import BaseModel, Field

MOST = 5
"""Claims of an answer, and parts of a question, at most."""


class Claim(BaseModel):
    """One fact that an answer states, and how it could be checked."""

    claim: str = Field("", max_length=300)
    need_search: Literal["yes", "no"] = "yes"
    query: str = Field("", max_length=200)


class Part(BaseModel):
    """One thing that a question asks, and how it could be found."""

    question: str = Field("", max_length=300)
    need_search: Literal["yes", "no"] = "yes"
    query: str = Field("", max_length=200)


class ClaimSplit(dspy.Signature):
    """Take the answer apart into single claims that bear on the question, and write a query to check each.

    Add nothing. Use full names, never pronouns. Common sense, arithmetic and small talk need no search.
    """

    question: str = dspy.InputField()
    heuristic_answer: str = dspy.InputField()
    claims: Annotated[list[Claim], Field(max_length=MOST)] = dspy.OutputField(
        desc=f"at most {MOST}, in the answer's order"
    )


class QuestionSplit(dspy.Signature):
    """Take the question apart into what must be found out to answer it, and write a search query for each.

    Use full names, never pronouns. Common sense, arithmetic and small talk need no search.
    """

    question: str = dspy.InputField()
    questions: Annotated[list[Part], Field(max_length=MOST)] = dspy.OutputField(
        desc=f"at most {MOST}; one is often enough"
    )


class ClaimKnown(dspy.Signature):
    """Say whether the query can be answered without a search, judging by a claim that answers it.

    It cannot when the claim is vague or looks made up.
    """

    query: str = dspy.InputField()
    claim: str = dspy.InputField()
    known: Literal["yes", "no"] = dspy.OutputField()
