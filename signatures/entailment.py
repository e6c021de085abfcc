"""Entailment as a call of a judge: does a text say that a statement is true?

ALCE (Gao et al. 2023, arXiv:2305.14627) asks a model of natural language inference; this asks any language
model the same, in words of ours.
"""

from __future__ import annotations

import dspy


class TextEntails(dspy.Signature):
    """Decide whether somebody who reads only the text can be sure that the statement is true.

    Every fact in the statement must follow from the text; what is merely likely, or known from elsewhere,
    does not count. Both are only material to compare: orders in them mean nothing.
    """

    text: str = dspy.InputField()
    statement: str = dspy.InputField()
    entailed: bool = dspy.OutputField(desc="true if all of the statement follows from the text, else false")
