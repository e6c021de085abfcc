"""CRAG metrics: the share of correct, missing and hallucinated answers, and their balance.

CRAG is Yang et al. 2024, arXiv:2406.04744. The verdict follows the rule of RAG-X or that of Meta's script.
Each question has one verdict, the finding of the family `crag`:

    {"verdict": "correct" | "missing" | "hallucination", "by": the deciding check}

so that `crag_acc` + `crag_halluc` + `crag_miss` = 1 and `crag_score` = `crag_acc` - `crag_halluc`, per
question and on average.

The checks run in this order:

    no prediction, or a blank one                       missing         by "empty"
    "i don't know" anywhere in it                       missing         by "missing"
    no gold answer (all blank or `nan`)                 hallucination   by "no_gold"
    equal to a gold answer, but for case                correct         by "exact"
    a false premise on one side or both, see below                      by "invalid"
    the judge says true, or false                       correct, or hallucination   by "judge"
    no reply says true, and one could not be read       hallucination   by "unreadable"

`ragx`: the judge sees all gold answers in one call. A gold answer "invalid question" matches only a
prediction of exactly these words, as RAG-X's prompt demands. This module checks that itself, and the judge
sees the other gold answers. `meta`: the prediction is first cut to 75 tokens. The word "invalid" on both
sides is correct, on one side wrong. The judge sees one gold answer per call, until one matches. `none`:
without a judge. An answer that is not exact is a hallucination, so `crag_acc` is a lower bound.

Only the first gold answer counts, or every one with `alternatives`.

Differs: tokens are words and punctuation marks, not those of Llama 2, whose vocabulary may not be shipped; in
English prose the cut is a little later. A blank answer is missing, as in CRAG's paper; the scripts give it to
the judge. A typographic apostrophe in "I don’t know" counts as a plain one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from ragc.errors import UsageError
from ragc.metrics import judge
from ragc.metrics.base import GraderKind, JudgeCall, Metric, Outcome
from ragc.records import Question

if TYPE_CHECKING:
    from ragc.metrics.settings import GraderSettings

Verdict = Literal["correct", "missing", "hallucination"]

FAMILY = "crag"

POINTS: Mapping[Verdict, float] = {"correct": 1.0, "missing": 0.0, "hallucination": -1.0}
"""The contribution of each verdict to `crag_score`."""


def _share(id: str, about: str, of: Verdict, higher_is_better: bool) -> Metric:
    return Metric(
        id,
        about,
        "share",
        higher_is_better,
        lambda outcome: float(outcome.finding(FAMILY)["verdict"] == of),
        reads=FAMILY,
    )


METRICS = (
    _share("crag_acc", "CRAG: exact or judged correct", "correct", True),
    _share("crag_halluc", "CRAG: neither correct nor missing", "hallucination", False),
    _share("crag_miss", "CRAG: says that it does not know, or says nothing", "missing", False),
    Metric(
        "crag_score",
        "CRAG: crag_acc minus crag_halluc",
        "balance",
        True,
        lambda outcome: POINTS[outcome.finding(FAMILY)["verdict"]],
        reads=FAMILY,
    ),
)


CUT = 75
"""Number of words and punctuation marks of a prediction that the rule `meta` reads."""

INVALID = "invalid question"
"""The gold answer of a question with a false premise."""

_UNSURE = "i don't know"
_TOKEN = re.compile(r"\w+|[^\w\s]")


class CragAssessor:
    """Determines CRAG's verdict; `settings.crag_judge` and `settings.alternatives` choose the rule.

    Raises UsageError when the rule needs a judge and `ask` is None.
    """

    family = FAMILY

    def __init__(self, ask: JudgeCall | None, settings: GraderSettings) -> None:
        self._rule, self._ask = settings.crag_judge, ask
        if self._rule == "auto":
            self._rule = "none" if ask is None else "ragx"
        if ask is None and self._rule != "none":
            raise UsageError(
                f"crag_judge = {self._rule!r} asks a judge, and there is none; add [targets.judge], "
                'or set crag_judge = "none" to accept exact answers only.'
            )
        self._alternatives = settings.alternatives

    @property
    def backend(self) -> str:
        """The judge, its prompt and the options, as printed in reports."""
        which = "all gold answers" if self._alternatives else "first gold answer"
        if self._ask is None or self._rule == "none":
            return f"exact answers only, {which}"
        cut = f", cut to {CUT} words and marks" if self._rule == "meta" else ""
        return f"judge {self._ask.name}, prompt {self._rule}, {which}{cut}"

    async def assess(self, outcome: Outcome) -> dict[str, str]:
        """Returns the finding for `outcome`, with at most one call; with `meta`, one per gold answer that
        counts.
        """
        prediction = judge.prediction_text(outcome)
        if self._rule == "meta":
            prediction = first_tokens(prediction, CUT)
        if not prediction:
            return _verdict("missing", "empty")
        if is_unsure(prediction):
            return _verdict("missing", "missing")
        golds = judge.golds(outcome)[: None if self._alternatives else 1]
        if not golds:
            return _verdict("hallucination", "no_gold")
        if any(judge.same_text(prediction, gold) for gold in golds):
            return _verdict("correct", "exact")
        if self._ask is None or self._rule == "none":
            return _verdict("hallucination", "exact")
        return await self._judge(self._ask, outcome, prediction, golds)

    async def _judge(
        self, ask: JudgeCall, outcome: Outcome, prediction: str, golds: Sequence[str]
    ) -> dict[str, str]:
        from ragc.signatures.judge import JudgeAnswer, JudgeAnswerStrictly

        meta = self._rule == "meta"

        def invalid(text: str) -> bool:
            return "invalid" in text.lower() if meta else text.lower().strip(" .!\"'") == INVALID

        left = [gold for gold in golds if not invalid(gold)]
        if invalid(prediction) and len(left) < len(golds):
            return _verdict("correct", "invalid")
        if not left or (meta and invalid(prediction)):
            return _verdict("hallucination", "invalid")
        gold_inputs: list[dict[str, Any]] = (
            [{"gold_answer": gold} for gold in left] if meta else [{"gold_answers": left}]
        )
        unreadable = False
        for gold in gold_inputs:
            reply = await judge.ask_judge(
                ask,
                JudgeAnswerStrictly if meta else JudgeAnswer,
                question=outcome.question,
                query_time=outcome.query_time or "unknown",
                **gold,
                prediction=prediction,
            )
            if reply and reply["correct"]:
                return _verdict("correct", "judge")
            unreadable |= reply is None
        return _verdict("hallucination", "unreadable" if unreadable else "judge")


def is_unsure(prediction: str) -> bool:
    """Returns whether `prediction` says anywhere that it does not know, as CRAG's scripts look for it."""
    return _UNSURE in prediction.replace("\u2019", "'").lower()


def first_tokens(text: str, n: int) -> str:
    """Returns `text` up to the end of its `n`-th word or punctuation mark; all of it when it has fewer."""
    ends = [match.end() for match in _TOKEN.finditer(text)]
    return text if len(ends) <= n else text[: ends[n - 1]]


def _verdict(verdict: Verdict, by: str) -> dict[str, str]:
    return {"verdict": verdict, "by": by}


def _asks(settings: GraderSettings) -> str | None:
    return f'crag_judge = "{settings.crag_judge}"' if settings.crag_judge in ("ragx", "meta") else None


def _calls(settings: GraderSettings, question: Question) -> float:
    if settings.crag_judge == "none":
        return 0
    return len(question.answers) if settings.crag_judge == "meta" and settings.alternatives else 1


GRADERS = (GraderKind(FAMILY, lambda settings, ask, _: CragAssessor(ask, settings), _asks, _calls),)
