"""What a small proxy model decides, and the two answers it decides between (SlimPLM, section 3).

`judged` swaps a judgement's yes or no for a confidence; `reader` gives the main model's calls. The
proxy's answer is called `heuristic_answer`, so that it is never taken for the answer.
"""

from __future__ import annotations

from typing import Any, Literal

import dspy

from ragc.signatures.answers import ClosedBookAnswer, ShortAnswer

Percent = Literal[0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100]


class ProxyAnswer(dspy.Signature):
    """Answer the question and state the facts that the answer rests on."""

    question: str = dspy.InputField()
    heuristic_answer: str = dspy.OutputField(desc="one to three full sentences")


class JudgeKnown(dspy.Signature):
    """Say whether the question can be answered without a search, judging by a first answer to it.

    Say no when that answer is vague, evasive, contradicts itself or looks made up.
    """

    question: str = dspy.InputField()
    heuristic_answer: str = dspy.InputField()
    known: Literal["yes", "no"] = dspy.OutputField()


class PlainAnswer(dspy.Signature):
    """Answer the question."""

    question: str = dspy.InputField()
    answer: str = dspy.OutputField()


class EveryAnswer(dspy.Signature):
    """Answer the question from the passages and from what you know.

    Give every answer that may be right.
    """

    question: str = dspy.InputField()
    passages: list[str] = dspy.InputField(desc="some may not matter")
    answer: str = dspy.OutputField(desc="all answers that may be right")


class LongAnswer(dspy.Signature):
    """Answer the question in a paragraph, from the passages and from what you know.

    Leave out what you are not sure of.
    """

    question: str = dspy.InputField()
    passages: list[str] = dspy.InputField(desc="some may not matter")
    answer: str = dspy.OutputField(desc="a paragraph")


def judged(signature: Any, by: str) -> Any:
    """`signature` with its `known` (by `text`), or with a `confidence` in percent in its place."""
    if by == "text":
        return signature
    sure = dspy.OutputField(desc="how sure you are, in percent, that no search is needed")
    return signature.delete("known").append("confidence", sure, Percent)


def reader(answer_format: str) -> tuple[Any, Any]:
    """The answering calls for an answer format: without passages, and with them."""
    open_ended = {"list": EveryAnswer, "long": LongAnswer}
    if answer_format in open_ended:
        return PlainAnswer, open_ended[answer_format]
    return ClosedBookAnswer, ShortAnswer
