"""Answers that may refuse: `INVALID` for a false premise, `UNSURE` for not knowing.

RAG-X, prompts of Appendix D. `settled` gives a reply those exact words where it means them.
"""

from __future__ import annotations

import dspy

INVALID = "invalid question"
UNSURE = "I don't know"


class KnownAnswer(dspy.Signature):
    """Answer the question from what you know, in as few words as possible.

    If the question assumes something false, answer exactly: invalid question
    If you are not sure, answer exactly: I don't know
    """

    question: str = dspy.InputField()
    query_time: str = dspy.InputField(desc="when the question was asked")
    answer: str = dspy.OutputField(desc="a name, number or short phrase")


class OpenAnswer(dspy.Signature):
    """Answer the question from the passages and from what you know, in as few words as possible.

    If the question assumes something false, answer exactly: invalid question
    If you are not sure, answer exactly: I don't know
    """

    question: str = dspy.InputField()
    query_time: str = dspy.InputField(desc="when the question was asked")
    passages: list[str] = dspy.InputField()
    answer: str = dspy.OutputField(desc="a name, number or short phrase")


class ReferenceAnswer(dspy.Signature):
    """Answer the question from the passages alone, in as few words as possible.

    If the question assumes something false, answer exactly: invalid question
    If the passages do not hold the answer, answer exactly: I don't know
    """

    question: str = dspy.InputField()
    query_time: str = dspy.InputField(desc="when the question was asked")
    passages: list[str] = dspy.InputField()
    answer: str = dspy.OutputField(desc="a name, number or short phrase")


def settled(text: str) -> str:
    """`text`, or `INVALID` or `UNSURE` where it says so in other spelling; nothing said is unsure."""
    plain = text.replace("\u2019", "'").strip(" \n\"'.!").casefold().replace("do not know", "don't know")
    if not plain or UNSURE.casefold() in plain:
        return UNSURE
    return INVALID if plain.startswith(INVALID) else text
