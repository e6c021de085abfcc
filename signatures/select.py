"""Document selection: ranking, condensing, choosing, checking sufficiency, and searching for what is missing.

RankGPT: `RankPassages` ranks a window of passages at a time; `ranking` asks for the best of a pool (RAG-X).

LLatrieval: each document is condensed before the choice, and a further search aims at what the chosen ones do
not say.

GGatrieval, section 3.4, which builds on LLatrieval: `SelectDocuments` runs over a sliding window,
`VerifyDocuments` ends the rounds. Documents are numbered from 1 in the order they are given.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import dspy
from pydantic import Field

from ragc.signatures.wording import brief, change_texts, derived, describe, input_field

MAX_WINDOW = 40
"""The most passages that one ranking names."""

_IRRELEVANT = re.compile(
    r"\W*(?:(?:(?:the|this) (?:document|passage|text) is )?(?:irrelevant|not relevant)(?:\W*$|[.:,;(]| to )"
    r"|no relevant (?:information|facts?|details?|content)\b|nothing relevant\b"
    r"|(?:n/?a|none|null|nothing)\W*$)",
    re.IGNORECASE,
)


@brief(
    "Put the passages in order, the one that helps most to answer the question first.",
    passages="numbered from 1",
    order="the number of every passage once, best first",
)
class RankPassages(dspy.Signature):
    """Put the passages in order, the one that helps most to answer the question first.

    First come those that state the answer, then those with a fact that leads to it, then those that are only
    on the subject, last those about something else. The order in which they are given means nothing.
    """

    question: str = dspy.InputField(desc="what is to be answered")
    passages: list[str] = dspy.InputField(desc="texts that a search brought, numbered from 1")
    order: Annotated[list[int], Field(max_length=MAX_WINDOW)] = dspy.OutputField(
        desc="the number of every passage once, best first"
    )


_RANK = "Put the passages in order, the one that helps most to answer the question first."


@derived
def ranking(n: int) -> Any:
    """Returns RankPassages that asks only for the best `n` passages."""
    task, order = (
        "Pick the passage that helps most to answer the question.",
        "the number of that passage alone",
    )
    if n > 1:
        task = f"Pick the {n} passages that help most to answer the question, the best first."
        order = f"the numbers of the {n} passages that help most, best first"
    picked = change_texts(RankPassages, lambda text: text.replace(_RANK, task), names=())
    return describe(picked, "order", order, brief=order)


@brief(
    "Keep only what the document says about the question, in at most 50 words.\n\n"
    "If it says nothing about the question, write the single word irrelevant.",
    summary="at most 50 words, or irrelevant",
)
class CondenseDocument(dspy.Signature):
    """Keep only what the document says about the question, in at most 50 words.

    Keep every fact that helps to answer the question or a part of it, with its names, numbers and dates as
    they are written. Add nothing and do not answer from memory. If it says nothing about the question, write
    the single word irrelevant.
    """

    question: str = dspy.InputField(desc="what is to be answered")
    document: str = dspy.InputField(desc="the text to shorten, its title first")
    summary: str = dspy.OutputField(desc="at most 50 words, or irrelevant")


@brief(
    "Answer the question from the document alone, in at most 50 words.\n\n"
    "If the document does not help to answer it, write the single word irrelevant.",
    summary="the answer in at most 50 words, or irrelevant",
)
class AnswerFromDocument(CondenseDocument):
    """Answer the question from the document alone, in at most 50 words.

    Say what the document contributes to an answer, also where it is only a part. Add nothing from memory. If
    the document does not help to answer it, write the single word irrelevant.
    """

    document: str = dspy.InputField(desc="the text to answer from, its title first")
    summary: str = dspy.OutputField(desc="the answer in at most 50 words, or irrelevant")


@brief(
    "Write a search question for what the documents do not yet tell about the question.",
    documents="found so far",
    new_question="one question that asks for what is missing",
)
class UpdateQuestion(dspy.Signature):
    """Write a search question for what the documents do not yet tell about the question.

    Find the fact that a full answer needs and no document has, and ask for it alone. The question goes into a
    search engine: it must be understood alone, with full names and no pronouns, and must not ask again for
    what the documents already say.
    """

    question: str = dspy.InputField(desc="what is to be answered in the end")
    documents: list[str] = dspy.InputField(desc="what was found so far, numbered from 1")
    new_question: str = dspy.OutputField(desc="one question that asks for what is missing")


@brief(
    "Write a short passage with the facts that the question needs and the documents lack.",
    documents="found so far",
    missing="two or three sentences",
)
class MissingPassage(dspy.Signature):
    """Write a short passage with the facts that the question needs and the documents lack.

    The passage is used to search for a real one that resembles it. Write it as an article on the subject
    would put it, in plain statements with full names; where you do not know a fact, write a plausible one.
    Leave out what the documents already say.
    """

    question: str = dspy.InputField(desc="what is to be answered in the end")
    documents: list[str] = dspy.InputField(desc="what was found so far, numbered from 1")
    missing: str = dspy.OutputField(desc="two or three sentences")


def condensing(form: str) -> Any:
    """Returns the call that shortens a document to a `summary` or to an `answer`."""
    return AnswerFromDocument if form == "answer" else CondenseDocument


def updating(form: str) -> Any:
    """Returns the call that writes the next search query: a `question` or a `passage`."""
    return MissingPassage if form == "passage" else UpdateQuestion


def irrelevant(summary: str) -> bool:
    """Returns whether a condensed document is empty or only says that the document is irrelevant."""
    return _IRRELEVANT.match(summary) is not None


@brief(
    "Pick the k documents that answer the question best together.\n\n"
    "Prefer documents that add to each other over ones that repeat. Their order means nothing.",
    k="how many to pick",
    documents="numbered from 1",
    ids="numbers of the picked documents",
)
class SelectDocuments(dspy.Signature):
    """Pick the k documents that answer the question best together.

    Each should support a part of a full answer that the others do not: another fact, another reading of the
    question, another item of a list. Of documents that say the same, pick the clearest. Their order and their
    numbers mean nothing. Leave out documents about something else, and pick fewer than k where fewer are of
    use.
    """

    question: str = dspy.InputField(desc="what is to be answered, perhaps with narrower questions below it")
    k: int = dspy.InputField(desc="how many documents to pick at most")
    documents: list[str] = dspy.InputField(desc="the documents to pick from, numbered from 1")
    ids: Annotated[list[int], Field(max_length=10)] = dspy.OutputField(desc="numbers of the picked documents")


@brief(
    "Say whether the documents hold all that a direct and correct answer to the question needs.",
    sufficient="YES if they hold all of it, else NO",
)
class VerifyDocuments(dspy.Signature):
    """Say whether the documents hold all that a direct and correct answer to the question needs.

    They do when somebody who reads only them could answer every part and every reading of the question with
    support for each statement. They do not when a fact would have to be remembered or guessed, or when they
    are on the subject but never come to the point.
    """

    question: str = dspy.InputField(desc="what is to be answered, perhaps with narrower questions below it")
    documents: list[str] = dspy.InputField(desc="the documents picked so far, numbered from 1")
    sufficient: Literal["YES", "NO"] = dspy.OutputField(desc="YES if nothing is missing, else NO")


@derived
def verifying(*, examples: bool) -> Any:
    """Returns VerifyDocuments; with `examples` it may be shown questions with answers of the wanted kind.

    A call without examples does not mention them.
    """
    if not examples:
        return VerifyDocuments
    field = input_field(
        "other questions, each with an answer that is as direct and as full as the one that is wanted",
        brief="other questions, each with an answer as full as the one that is wanted",
        optional=True,
    )
    return VerifyDocuments.prepend("examples", field, list[str])


def pick_positions(ids: Sequence[int], n: int, k: int) -> tuple[list[int], int]:
    """Positions from 0 of at most `k` of the `n` documents that `ids` name, and how many ids name none.

    An id that comes twice counts once.
    """
    inside = [i - 1 for i in dict.fromkeys(ids) if 1 <= i <= n]
    return inside[:k], sum(not 1 <= i <= n for i in ids)


def with_sub_questions(question: str, sub_questions: Sequence[str]) -> str:
    """Returns `question` with the narrower ones that it holds listed below it."""
    return "\n- ".join([f"{question}\nIn particular:", *sub_questions]) if sub_questions else question
