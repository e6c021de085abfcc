"""Comparing sources: is what the preferred source found worth keeping, or should another be asked?"""

from __future__ import annotations

import dspy


class CompareSources(dspy.Signature):
    """Decide whether the new passages bring facts that help with the question and are not known yet."""

    question: str = dspy.InputField()
    known: list[str] = dspy.InputField()
    new: list[str] = dspy.InputField()
    analysis: str = dspy.OutputField(desc="what the new passages add, or why they add nothing, in a sentence")
    status: bool = dspy.OutputField(
        desc="true if they add something relevant; false if they are off the point or repeat what is known"
    )
