"""Judged answers: does the prediction say the same as a gold answer? Also helpers of all judges.

The finding of the family `judge` is {"verdict": "correct" | "wrong", "by": the deciding check}:

    no prediction, or a blank one                wrong     by "empty"
    no gold answer                               wrong     by "no_gold"
    equal to a gold answer, but for case         correct   by "exact", without a call
    the judge says true, or false                correct, or wrong   by "judge"
    the judge's reply cannot be read             wrong     by "unreadable", counted as dropped

Questions, gold answers and predictions are passed to the judge as data: on one line each, so that none can
imitate another field of the prompt, and with the markers of chat templates defused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from ragc.core import counters
from ragc.errors import ParseFailure, UsageError
from ragc.metrics.base import GraderKind, JudgeCall, Metric, Outcome

FAMILY = "judge"

LONGEST = 6000
"""Maximum characters of a text for a judge, about 1,500 tokens; ALCE's three passages have some 2,000."""

_OPENS_A_MARKER = re.compile(r"[<\[](?=[<\[/|｜]|[^\W\d])")


def as_data(text: str) -> str:
    """Returns `text` on one line, with a space after each bracket that may open a marker (<|im_start|>,
    [INST]).
    """
    return _OPENS_A_MARKER.sub(lambda match: match.group() + " ", " ".join(text.split()))


def same_text(prediction: str, gold: str) -> bool:
    """Returns whether both are equal, ignoring case and outer white space."""
    return prediction.strip().lower() == gold.strip().lower()


def golds(outcome: Outcome) -> tuple[str, ...]:
    """Returns the gold answers as stripped texts, without blank ones and `nan` (no value)."""
    texts = (str(answer).strip() for answer in outcome.answers)
    return tuple(text for text in texts if text and text.lower() != "nan")


def prediction_text(outcome: Outcome) -> str:
    """Returns the prediction, stripped; "" for None. Raises UsageError when it is neither a text nor None."""
    prediction: object = outcome.prediction
    if prediction is None:
        return ""
    if not isinstance(prediction, str):
        received = f"{type(prediction).__name__} {prediction!r:.60}"
        raise UsageError(f"A judged prediction is a text, but got {received}. Pass the answer as a string.")
    return prediction.strip()


def truncate(text: str, longest: float) -> str:
    """Returns `text`, or its first `longest` characters without a word cut in half at the end."""
    if len(text) <= longest:
        return text
    most = int(longest)
    return text[: most + 1].rpartition(" ")[0] or text[:most]


async def ask_judge(
    ask: JudgeCall, signature: Any, longest: float = math.inf, **inputs: str | list[str]
) -> Mapping[str, Any] | None:
    """Returns the outputs of the judge; None, counted as dropped, when its reply cannot be read.

    `inputs` are converted by `as_data`, and cut to their first `longest` characters. Errors of the endpoint
    are raised: they say nothing about the answer.
    """

    def safe(text: str) -> str:
        return truncate(as_data(text), longest)

    try:
        return await ask(
            signature,
            **{
                name: safe(value) if isinstance(value, str) else [safe(item) for item in value]
                for name, value in inputs.items()
            },
        )
    except ParseFailure:
        counters.count(dropped=1)
        return None


class JudgeAssessor:
    """Judges every answer that is not exactly a gold one, against all gold answers in one call.

    Raises UsageError without a judge.
    """

    family = FAMILY

    def __init__(self, ask: JudgeCall | None) -> None:
        if ask is None:
            raise UsageError("The metric judge_acc asks a judge, and there is none; add [targets.judge].")
        self._ask = ask

    @property
    def backend(self) -> str:
        """The judge, and its prompt."""
        return f"judge {self._ask.name}, prompt matches, all gold answers"

    async def assess(self, outcome: Outcome) -> dict[str, str]:
        """Returns the finding for `outcome`; at most one call."""
        prediction, gold_answers = prediction_text(outcome), golds(outcome)
        if not prediction or not gold_answers:
            return {"verdict": "wrong", "by": "no_gold" if prediction else "empty"}
        if any(same_text(prediction, gold) for gold in gold_answers):
            return {"verdict": "correct", "by": "exact"}

        from ragc.signatures.judge import AnswerMatches

        reply = await ask_judge(
            self._ask,
            AnswerMatches,
            question=outcome.question,
            gold_answers=list(gold_answers),
            prediction=prediction,
        )
        return {
            "verdict": "correct" if reply and reply["correct"] else "wrong",
            "by": "unreadable" if reply is None else "judge",
        }


def _correct(outcome: Outcome) -> float:
    return float(outcome.finding(FAMILY)["verdict"] == "correct")


METRICS = (
    Metric("judge_acc", "a judge says that it matches a gold answer", "share", True, _correct, reads=FAMILY),
)

GRADERS = (
    GraderKind(FAMILY, lambda settings, ask, _: JudgeAssessor(ask), lambda settings: "", lambda *_: 1),
)
