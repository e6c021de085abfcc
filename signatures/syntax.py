"""Splitting a question into its grammatical parts (GGatrieval, section 3.2, equation 1).

Eight slots, each copied from the question or empty. The program drops what is not in the question.
"""

from __future__ import annotations

from typing import Annotated

import dspy
from pydantic import Field

Part = Annotated[str, Field(max_length=200)]


class SyntacticParse(dspy.Signature):
    """Split the question into its grammatical parts.

    Copy each part word for word. Leave a part empty when the question has none.
    """

    question: str = dspy.InputField()
    subject: Part = dspy.OutputField()
    predicate: Part = dspy.OutputField()
    object: Part = dspy.OutputField()
    predicative: Part = dspy.OutputField()
    attributive: Part = dspy.OutputField()
    adverbial: Part = dspy.OutputField()
    complement: Part = dspy.OutputField()
    apposition: Part = dspy.OutputField()
