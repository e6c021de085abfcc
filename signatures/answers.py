"""Answering calls: from the passages, or from what the model knows.

`ShortAnswer` and `ClosedBookAnswer` are the reader of every baseline (METHODS, Answer and
ClosedBook). `reasoned` and `with_question` make the variants that the knobs `cot` and `query_pos`
ask for.
"""

from __future__ import annotations

from typing import Any

import dspy


class ShortAnswer(dspy.Signature):
    """Answer the question from the passages in as few words as possible."""

    question: str = dspy.InputField()
    passages: list[str] = dspy.InputField()
    answer: str = dspy.OutputField(desc="a name, number or short phrase")


class ClosedBookAnswer(dspy.Signature):
    """Answer the question from what you know in as few words as possible."""

    question: str = dspy.InputField()
    answer: str = dspy.OutputField(desc="a name, number or short phrase")


def reasoned(signature: Any) -> Any:
    """`signature` with a step-by-step `reasoning` before its other outputs."""
    return signature.prepend(
        "reasoning", dspy.OutputField(desc="one or two short steps that lead to the answer"), str
    )


def with_question(signature: Any, position: str) -> Any:
    """`signature` with its `question` `before` or `after` its other inputs, or `both`.

    With `both` an input `question_again` echoes it at the end; the predictor fills it in.
    """
    field = signature.input_fields["question"]
    if position == "before":
        return signature
    if position == "after":
        return signature.delete("question").insert(len(signature.input_fields) - 1, "question", field, str)
    again = dspy.InputField()
    again.json_schema_extra["echo"] = "question"
    return signature.insert(len(signature.input_fields), "question_again", again, str)
