"""Claims, queries that check them, and a small proxy model's judgement of whether to search (SlimPLM).

Claims and queries (section 3.3 and Table 8): `ClaimSplit` takes an answer apart into claims with a query
each, `ClaimKnown` judges one of them, and `QuestionSplit` writes queries from the question alone.

Proxy model (sections 3.1 and 3.2): it decides between two answers of the main model, without passages and
with them. `reader` gives the main model's calls (Table 9). `with_judgement` swaps a judgement's yes or no
for a confidence. The proxy's answer has the name `heuristic_answer`, so that it is never taken for the
answer.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import dspy
from pydantic import BaseModel, Field

from ragc.signatures.answer import UNCITED, ClosedBookAnswer, ShortAnswer, apply_format

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


Percent = Literal[0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100]


class ProxyAnswer(dspy.Signature):
    """Answer the question and state the facts that the answer rests on."""

    question: str = dspy.InputField()
    heuristic_answer: str = dspy.OutputField(desc="one to three full sentences")


class JudgeKnown(dspy.Signature):
    """Say whether the question can be answered without a search, judging by a first answer to it.

    It cannot when that answer is vague, evasive, contradicts itself or looks made up.
    """

    question: str = dspy.InputField()
    heuristic_answer: str = dspy.InputField()
    known: Literal["yes", "no"] = dspy.OutputField()


class KnowingAnswer(dspy.Signature):
    """Answer the question from the passages and from what you know in as few words as possible."""

    question: str = dspy.InputField()
    passages: list[str] = dspy.InputField()
    answer: str = dspy.OutputField(desc="a name, number or short phrase")


def with_judgement(signature: Any, by: str) -> Any:
    """`signature` as it is, or with a `confidence` in percent in the place of `known`."""
    if by != "confidence":
        return signature
    sure = dspy.OutputField(desc="how sure you are, in percent, that no search is needed")
    return signature.delete("known").append("confidence", sure, Percent)


def reader(answer_format: str, own_knowledge: bool) -> tuple[Any, Any]:
    """The answering calls for an answer format, without passages and with them, before they are worded.

    Marks of passages say that these support the answer, so formats with marks leave no room for own
    knowledge, and without passages are a paragraph or list without them.
    """
    if answer_format in UNCITED:
        return apply_format(ClosedBookAnswer, UNCITED[answer_format]), ShortAnswer
    read = KnowingAnswer if own_knowledge else ShortAnswer
    if answer_format == "long":
        read = read.with_instructions(f"{read.instructions}\n\nLeave out what you are not sure of.")
    return ClosedBookAnswer, read
