"""Calls that write an answer sentence by sentence and say how sure each sentence is."""

from __future__ import annotations

import dspy
import pydantic


class UncertainSpan(pydantic.BaseModel):
    """Words of a sentence and how sure they are, in percent."""

    span: str = pydantic.Field(max_length=80)
    confidence: int = pydantic.Field(ge=0, le=100)


class Doubts(pydantic.BaseModel):
    """The doubtful parts of a sentence."""

    spans: list[UncertainSpan] = pydantic.Field(max_length=4)


class NextSentence(dspy.Signature):
    """Write the next sentence of an answer to the question, using the passages."""

    question: str = dspy.InputField()
    passages: list[str] = dspy.InputField()
    so_far: str = dspy.InputField(desc="the answer up to here")
    sentence: str = dspy.OutputField(desc='one new sentence; "" when the answer is complete')


class UncertainSpans(dspy.Signature):
    """Find the names, numbers and dates in the sentence that may be wrong."""

    question: str = dspy.InputField()
    sentence: str = dspy.InputField()
    doubts: Doubts = dspy.OutputField(
        desc="words copied from the sentence, each with how sure you are of it; an empty list if all is sure"
    )


class SpanQuestion(dspy.Signature):
    """Ask the question that the doubtful words of the sentence would answer."""

    question: str = dspy.InputField(desc="what the sentence helps to answer")
    sentence: str = dspy.InputField()
    doubtful: str = dspy.InputField()
    query: str = dspy.OutputField(desc="one question of one line that does not use the doubtful words")


class Conclude(dspy.Signature):
    """Give the answer that the draft comes to, in as few words as possible."""

    question: str = dspy.InputField()
    draft: str = dspy.InputField()
    answer: str = dspy.OutputField(desc="a name, number or short phrase")
