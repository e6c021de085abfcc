"""Asking the model whether a search is needed at all: the gate of Self-Eval."""

from __future__ import annotations

import dspy


class NeedInfo(dspy.Signature):
    """Decide whether you need additional information before you can answer the question.

    You need none when the answer is common knowledge. For names, dates, numbers and facts that few people
    know by heart, you do. Examples:
    How many days does a week have? false
    Who was the mayor of Gouda in 1962? true
    Which river is longer, the Vils or the Naab? true
    """

    question: str = dspy.InputField()
    need: bool = dspy.OutputField(
        desc="true if you need additional information, false if you are sure of the answer without it"
    )
