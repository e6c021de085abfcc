"""Comparing sources: is what the preferred source found worth keeping, or should another be asked?"""

from __future__ import annotations

from typing import Any

import dspy

from ragc.signatures.proxy import Percent


class CompareSources(dspy.Signature):
    """Decide whether the new passages bring facts that help with the question and are not known yet."""

    question: str = dspy.InputField()
    known: list[str] = dspy.InputField()
    new: list[str] = dspy.InputField()
    analysis: str = dspy.OutputField(desc="what the new passages add, or why they add nothing, in a sentence")
    status: bool = dspy.OutputField(
        desc="true if they add something relevant; false if they are off the point or repeat what is known"
    )


def comparison(by: str) -> Any:
    """CompareSources with its `status`, or by `confidence` with one in percent in its place."""
    if by == "status":
        return CompareSources
    sure = dspy.OutputField(
        desc="how sure you are, in percent, that they add something relevant; low if they are off the point "
        "or repeat what is known"
    )
    return CompareSources.delete("status").append("confidence", sure, Percent)
