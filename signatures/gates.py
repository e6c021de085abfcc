"""Asking the model whether a search is needed at all.

`NeedInfo` is the Self-Eval baseline's question (METHODS section 6).
"""

from __future__ import annotations

import dspy


class NeedInfo(dspy.Signature):
    """Say whether you need more information than you have to answer the question correctly."""

    question: str = dspy.InputField()
    need: bool = dspy.OutputField(desc="false if you know the answer")
