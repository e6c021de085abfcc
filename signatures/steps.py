"""Step-by-step calls: what to do or ask next, the answer to one follow-up, the answer at the end.

`ReactStep` and `ReactConcatStep` are the thought and action of ReAct with one tool for each source and
with one tool for both (PrefRAG, section 5.3). `SelfAskStep` and `IntermediateAnswer` are Self-Ask's two
calls (SlimPLM, Table 10). `AnswerFromSteps` answers when the steps gave no answer. An intermediate answer
has a field name of its own: it must never be taken for the answer to the question.
"""

from __future__ import annotations

from typing import Literal

import dspy


class ReactStep(dspy.Signature):
    """Work towards the answer step by step: search for what the steps so far have not shown, or finish."""

    question: str = dspy.InputField()
    steps: list[str] = dspy.InputField()
    thought: str = dspy.OutputField(desc="one sentence: what is known and what is missing")
    action: Literal["local", "web", "finish"] = dspy.OutputField(
        desc="local searches a fixed collection of documents, web searches the web, finish answers"
    )
    action_input: str = dspy.OutputField(desc="what to search for; to finish, the answer in a few words")


class ReactConcatStep(dspy.Signature):
    """Work towards the answer step by step: search for what the steps so far have not shown, or finish."""

    question: str = dspy.InputField()
    steps: list[str] = dspy.InputField()
    thought: str = dspy.OutputField(desc="one sentence: what is known and what is missing")
    action: Literal["search", "finish"] = dspy.OutputField(
        desc="search looks in a fixed collection of documents and on the web, finish answers"
    )
    action_input: str = dspy.OutputField(desc="what to search for; to finish, the answer in a few words")


class SelfAskStep(dspy.Signature):
    """Ask the one follow-up question that is still needed to answer the question, or answer it."""

    question: str = dspy.InputField()
    steps: list[str] = dspy.InputField(desc="follow-up questions so far with their answers")
    kind: Literal["follow_up", "answer"] = dspy.OutputField()
    text: str = dspy.OutputField(desc="the follow-up question, or the answer in a few words")


class IntermediateAnswer(dspy.Signature):
    """Answer the question in one brief sentence that says nothing beyond the passages."""

    question: str = dspy.InputField()
    passages: list[str] = dspy.InputField()
    intermediate_answer: str = dspy.OutputField(desc="one brief sentence")


class AnswerFromSteps(dspy.Signature):
    """Answer the question now, in as few words as possible, from what the steps have shown."""

    question: str = dspy.InputField()
    steps: list[str] = dspy.InputField()
    answer: str = dspy.OutputField(desc="a name, number or short phrase")
