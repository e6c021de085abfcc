"""Searching step by step: plan and act, grade the own answer, answer when no step is left.

Names that a reply must choose from stand in the schema of the reply; a reply with another name is still
read, so that the program decides what an unknown one means. `agent_step` and `forced_answer` make the
variants that a program's tools and answer format ask for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dspy

from ragc.signatures.answers import FORMATS, limited, one_of

GRADES = ("CORRECT", "PARTIALLY CORRECT", "INCORRECT")
FINISH = "finish"
Grade: Any = one_of(GRADES)


class AgentStep(dspy.Signature):
    """Take the next step towards answering the question: search for one fact that is still missing, or
    finish as soon as the trajectory holds the answer. There are at most max_step steps.
    """

    answer_format: str = dspy.InputField()
    tools: list[str] = dspy.InputField()
    max_step: int = dspy.InputField()
    question: str = dspy.InputField()
    trajectory: str = dspy.InputField()
    thought: str = dspy.OutputField(desc="what is known and what is missing, in one or two sentences")
    action: str = dspy.OutputField(desc="a tool, or finish")
    action_input: str = dspy.OutputField(desc="a short query for one fact; empty when you finish")
    answer: str = dspy.OutputField(desc="the final answer in the answer format; empty when you search")
    grade: str = dspy.OutputField(
        desc="your answer is CORRECT, PARTIALLY CORRECT or INCORRECT judging by the results; "
        "none when you search"
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
    grade: Grade = dspy.OutputField(desc="CORRECT, PARTIALLY CORRECT or INCORRECT")
    explanation: str = dspy.OutputField(desc="why this grade, in a sentence")
    improvement: str = dspy.OutputField(
        desc="what should be found to better the answer, in a sentence; empty if nothing"
    )


class ForcedAnswer(dspy.Signature):
    """Answer the question from the trajectory, with the answer alone and no other words."""

    answer_format: str = dspy.InputField()
    question: str = dspy.InputField()
    trajectory: str = dspy.InputField()
    answer: str = dspy.OutputField(desc="the answer in the answer format; your best guess if not found")


def agent_step(actions: Sequence[str], *, graded: bool, answer_format: str) -> Any:
    """AgentStep that may take `actions` or finish; without its grade unless `graded`."""
    names = (*actions, FINISH)
    step = limited(AgentStep, "action", names, f"one of: {', '.join(names)}")
    if graded:
        step = limited(step, "grade", ("none", *GRADES))
    else:
        step = step.delete("grade").delete("explanation").delete("improvement")
    options = FORMATS[answer_format].options
    return limited(step, "answer", ("", *options)) if options else step


def forced_answer(answer_format: str) -> Any:
    """ForcedAnswer in `answer_format`."""
    options = FORMATS[answer_format].options
    return limited(ForcedAnswer, "answer", options) if options else ForcedAnswer
