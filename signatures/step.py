"""Step-by-step calls: ReAct, Self-Ask and a graded search agent, and the answer when no step is left.

`ReactStep` and `ReactConcatStep` are the thought and action of ReAct with one tool for each source and with
one tool for both (PrefRAG, section 5.3). `SelfAskStep` and `IntermediateAnswer` are Self-Ask's two calls
(SlimPLM, Table 10). `AnswerFromSteps` answers when the steps gave no answer. An intermediate answer has a
field name of its own: it must never be taken for the answer to the question.

`AgentStep` plans and acts, `Reflect` grades the agent's own answer, `ForcedAnswer` answers when no step is
left. `agent_step` builds the variants that a program's tools ask for.

Names that a reply must choose from stand in the schema of the reply. A reply with another name is still read,
so that the program decides what an unknown one means.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import dspy

from ragc.signatures.answer import limit_options, one_of


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
    """Ask the one follow-up question that is still needed to answer the question, or answer it.

    Answer when the steps show the answer, not from memory; while they do not, ask.
    """

    question: str = dspy.InputField()
    steps: list[str] = dspy.InputField(desc="follow-up questions so far with their answers")
    kind: Literal["follow_up", "answer"] = dspy.OutputField()
    text: str = dspy.OutputField(
        desc="a follow-up question that can be read alone: names, no pronouns; or the answer in a few words"
    )


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


GRADES = ("CORRECT", "PARTIALLY CORRECT", "INCORRECT")
FINISH = "finish"
Grade: Any = one_of(GRADES)


class AgentStep(dspy.Signature):
    """Take the next step towards answering the question: search for one fact that no result shows yet, or
    finish when the results in the trajectory show the answer. Answer from the results, not from memory;
    without any, search. Take at most max_step steps.
    """

    tools: list[str] = dspy.InputField()
    max_step: int = dspy.InputField()
    question: str = dspy.InputField()
    trajectory: str = dspy.InputField()
    thought: str = dspy.OutputField(desc="what the results show and what is missing, in one or two sentences")
    action: str = dspy.OutputField(desc="a tool, or finish")
    action_input: str = dspy.OutputField(
        desc="a short query for one fact, unlike those before; empty when you finish"
    )
    answer: str = dspy.OutputField(
        desc="the final answer: a name, number or short phrase; empty when you search"
    )
    grade: str = dspy.OutputField(
        desc="of your answer by the results: CORRECT if they show it, PARTIALLY CORRECT if in part, "
        "INCORRECT if not; none when you search"
    )
    explanation: str = dspy.OutputField(desc="why this grade, in a sentence; empty when you search")
    improvement: str = dspy.OutputField(
        desc="what should be found to better the answer, in a sentence; empty if nothing"
    )


class Reflect(dspy.Signature):
    """Grade the answer to the question by the results in the trajectory."""

    question: str = dspy.InputField()
    trajectory: str = dspy.InputField()
    answer: str = dspy.InputField()
    grade: Grade = dspy.OutputField(
        desc="CORRECT if the results show it, PARTIALLY CORRECT if in part, INCORRECT if not"
    )
    explanation: str = dspy.OutputField(desc="why this grade, in a sentence")
    improvement: str = dspy.OutputField(
        desc="what should be found to better the answer, in a sentence; empty if nothing"
    )


class ForcedAnswer(dspy.Signature):
    """Answer the question from the trajectory in as few words as possible."""

    question: str = dspy.InputField()
    trajectory: str = dspy.InputField()
    answer: str = dspy.OutputField(desc="a name, number or short phrase; your best guess if not found")


def agent_step(actions: Sequence[str], *, graded: bool) -> Any:
    """AgentStep that may take `actions` or finish; without its grade unless `graded`."""
    names = (*actions, FINISH)
    step = limit_options(AgentStep, "action", names, f"one of: {', '.join(names)}")
    if graded:
        return limit_options(step, "grade", ("none", *GRADES))
    return step.delete("grade").delete("explanation").delete("improvement")
