"""Scores by Ragas' definitions, most of them without a gold answer: what is judged is claims and passages.

Es et al. 2024, arXiv:2309.15217, and the formulas of Ragas 0.4; the prompts are our own. A judge lists the
claims; the entailment backend of the recipe decides whether a text supports each.

    faithfulness         claims of the answer that the passages support / claims
    answer_relevancy     mean cosine of the question with questions written from the answer; 0 if
                         that is evasive
    context_precision    average precision of the passages, by whether each is of use for the answer
    context_recall       claims of the gold answer that the passages support / claims
    answer_correctness   0.75 F1 of the claims of answer and gold answer + 0.25 cosine of both

A claim that the judge repeats counts once. Each finding has a `by`. Where it is "unreadable" (a reply of the
judge, or a verdict, could not be read), "no_claims" or "no_reference" (no gold answer), the metric is None
for the question, and `ragc eval` counts these beside the backend. A question without an answer ("empty")
scores 0 in all but context_recall.

Differs: Ragas has one call classify all claims, we ask about each; the questions of answer_relevancy are
written in one call; of several gold answers the first is the reference; where neither answer states a claim,
answer_correctness is None, while Ragas takes their F1 as 1.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from statistics import mean
from typing import TYPE_CHECKING, Any, NamedTuple

from ragc.errors import UsageError
from ragc.metrics.alce import harmonic
from ragc.metrics.base import Entailer, Finding, GraderKind, JudgeCall, Metric, Outcome
from ragc.metrics.citations import entail_pairs
from ragc.metrics.judge import LONGEST, ask_judge, golds, prediction_text
from ragc.records import Passage, Question

if TYPE_CHECKING:
    from ragc.corpora.embed import Embedder
    from ragc.metrics.settings import GraderSettings

WEIGHT = 0.75
"""The share of the claims in answer_correctness; the cosine has the rest."""

MOST_PASSAGES = 20
"""Passages that are judged for context_precision, at most, from the first."""

Found = dict[str, Any]


def average_precision(useful: Sequence[bool]) -> float:
    """Returns the mean, over the useful passages, of the precision down to each; 0 without one."""
    precisions = [sum(useful[:rank]) / rank for rank, is_useful in enumerate(useful, 1) if is_useful]
    return sum(precisions) / len(precisions) if precisions else 0.0


def correctness(answer: Sequence[bool], reference: Sequence[bool], cosine: float) -> float:
    """Returns the weighted mean of the claims' F1 and `cosine`.

    True are the claims of the answer that the reference supports (true positives; the others are false
    positives); false claims of the `reference` are those that the answer lacks (false negatives).
    """
    hits, lacking = sum(answer), len(reference) - sum(reference)
    precision = hits / len(answer) if answer else 0.0
    recall = hits / (hits + lacking) if hits + lacking else 0.0
    f1 = harmonic(precision, recall) if answer or reference else 1.0
    return WEIGHT * f1 + (1 - WEIGHT) * cosine


class _Assessor:
    """What the graders share: the judge, the entailment backend and the embedder."""

    def __init__(
        self,
        family: str,
        ask: JudgeCall | None,
        entailer: Callable[[], Entailer],
        embedder: Callable[[], Embedder],
    ) -> None:
        if ask is None:
            raise UsageError(f"The metric {family} asks a judge, and there is none; add [targets.judge].")
        self.family, self._ask, self._entailer, self._embedder = family, ask, entailer, embedder

    @property
    def backend(self) -> str:
        """The judge, and what else decides."""
        kind = _FAMILIES[self.family]
        entailment = f"; entailment {self._entailer().name}" if kind.sides else ""
        embedder = f"; embedder {self._embedder().model}" if self.family in EMBEDDED else ""
        return f"judge {self._ask.name}, prompt {kind.prompt}{entailment}{embedder}"

    async def assess(self, outcome: Outcome) -> Found:
        """Returns the finding for `outcome`."""
        if self.family != "context_recall" and not prediction_text(outcome):
            return {"by": "empty"}
        if self.family not in NO_GOLD and not golds(outcome):
            return {"by": "no_reference"}
        return {"by": "judge"} | await _FAMILIES[self.family].find(self, outcome)

    async def faithfulness(self, outcome: Outcome) -> Found:
        """Returns the claims of the answer, and which of them the passages support."""
        return await self._claims(outcome, prediction_text(outcome), _shown(outcome))

    async def context_recall(self, outcome: Outcome) -> Found:
        """Returns the claims of the gold answer, and which of them the passages support."""
        return await self._claims(outcome, golds(outcome)[0], _shown(outcome))

    async def context_precision(self, outcome: Outcome) -> Found:
        """Returns whether each passage is of use for the answer."""
        from ragc.signatures.judge import PassageHelps

        shown = outcome.passages[:MOST_PASSAGES]
        replies = await asyncio.gather(
            *(
                ask_judge(
                    self._ask,
                    PassageHelps,
                    LONGEST,
                    question=outcome.question,
                    answer=prediction_text(outcome),
                    passage=_text(passage),
                )
                for passage in shown
            )
        )
        useful = [None if reply is None else bool(reply["useful"]) for reply in replies]
        return {"useful": useful} | ({"by": "unreadable"} if None in useful else {})

    async def answer_relevancy(self, outcome: Outcome) -> Found:
        """Returns the questions that the answer would answer, and their cosines with the one asked."""
        from ragc.signatures.judge import GuessQuestions

        reply = await ask_judge(self._ask, GuessQuestions, LONGEST, text=prediction_text(outcome))
        questions = [text for text in reply["questions"] if text.strip()] if reply else []
        if reply is None or not questions:
            return {"by": "unreadable"}
        cosines = await self._cosines(outcome.question, questions)
        return {"questions": questions, "cosines": cosines, "evasive": bool(reply["evasive"])}

    async def answer_correctness(self, outcome: Outcome) -> Found:
        """Returns the claims of the answer and the gold answer, which the other supports, and their
        cosine.
        """
        text, gold = prediction_text(outcome), golds(outcome)[0]
        sides = [await self._claims(outcome, text, gold), await self._claims(outcome, gold, text)]
        (cosine,) = await self._cosines(gold, [text])
        reasons = [side["by"] for side in sides]
        why = "unreadable" if "unreadable" in reasons else "judge" if "judge" in reasons else "no_claims"
        return {"answer": sides[0], "reference": sides[1], "cosine": cosine, "by": why}

    async def _claims(self, outcome: Outcome, text: str, support: str) -> Found:
        from ragc.signatures.judge import StateFacts

        reply = await ask_judge(self._ask, StateFacts, LONGEST, question=outcome.question, text=text)
        if reply is None:
            return {"by": "unreadable"}
        claims = list(dict.fromkeys(claim.strip() for claim in reply["facts"] if claim.strip()))
        verdicts = await entail_pairs(self._entailer(), [(support, claim) for claim in claims])
        supported = [verdicts[support, claim] for claim in claims]
        why = "no_claims" if not claims else "unreadable" if None in supported else "judge"
        return {"claims": claims, "supported": supported, "by": why}

    async def _cosines(self, text: str, others: Sequence[str]) -> list[float]:
        vectors = await asyncio.to_thread(self._embedder().embed, [text, *others])
        return [float(vectors[0] @ vector) for vector in vectors[1:]]


def _shown(outcome: Outcome) -> str:
    return "\n".join(map(_text, outcome.passages))


def _text(passage: Passage) -> str:
    return f"{passage.title}\n{passage.text}" if passage.title.strip() else passage.text


class _Family(NamedTuple):
    """One metric: what is asked for it and how its finding is scored.

    `sides` is the number of texts whose claims are listed and decided, `gold` whether a gold answer is
    needed. `embeds` metrics compare texts by the default embedder.
    """

    find: Callable[[_Assessor, Outcome], Awaitable[Found]]
    score: Callable[[Found], float]
    about: str
    prompt: str = "facts"
    sides: int = 0
    gold: bool = False
    embeds: bool = False


_FAMILIES = {
    "faithfulness": _Family(
        _Assessor.faithfulness,
        lambda finding: mean(finding["supported"]),
        "Ragas: share of the answer's claims that the passages support",
        sides=1,
    ),
    "answer_relevancy": _Family(
        _Assessor.answer_relevancy,
        lambda finding: 0.0 if finding["evasive"] else mean(finding["cosines"]),
        "Ragas: cosine of the question with questions written from the answer",
        prompt="guess",
        embeds=True,
    ),
    "context_precision": _Family(
        _Assessor.context_precision,
        lambda finding: average_precision(finding["useful"]),
        "Ragas: average precision of the passages, by use for the answer",
        prompt="helps",
    ),
    "context_recall": _Family(
        _Assessor.context_recall,
        lambda finding: mean(finding["supported"]),
        "Ragas: share of the gold answer's claims that the passages support",
        sides=1,
        gold=True,
    ),
    "answer_correctness": _Family(
        _Assessor.answer_correctness,
        lambda finding: correctness(
            finding["answer"].get("supported", ()),
            finding["reference"].get("supported", ()),
            finding["cosine"],
        ),
        "Ragas: F1 of the claims of answer and gold answer, and their cosine",
        sides=2,
        gold=True,
        embeds=True,
    ),
}
EMBEDDED = frozenset(name for name, family in _FAMILIES.items() if family.embeds)
"""The metrics that compare texts by the default embedder."""
NO_GOLD = frozenset(name for name, family in _FAMILIES.items() if not family.gold)
"""The metrics that need no gold answer."""


def _metric(name: str, family: _Family) -> Metric:
    def score(outcome: Outcome) -> float | None:
        finding = outcome.finding(name)
        if finding["by"] == "judge":
            return family.score(finding)
        return 0.0 if finding["by"] == "empty" else None

    modules = ("onnxruntime", "tokenizers") if family.embeds else ()
    return Metric(
        name, family.about, "balance" if family.embeds else "share", True, score, name, modules=modules
    )


METRICS = tuple(_metric(name, family) for name, family in _FAMILIES.items())


def _grader(name: str, family: _Family) -> GraderKind:
    def build(settings: GraderSettings, ask: JudgeCall | None, entailer: Callable[[], Entailer]) -> _Assessor:
        from ragc.corpora.embed import make

        return _Assessor(name, ask, entailer, cache(make))

    def calls(settings: GraderSettings, question: Question) -> float:
        from ragc.signatures.judge import MOST_FACTS

        if not family.sides:
            return 1 if family.embeds else MOST_PASSAGES
        return family.sides * (1 + (MOST_FACTS if settings.entailment == "judge" else 0))

    return GraderKind(name, build, lambda settings: "", calls, entails=bool(family.sides))


GRADERS = tuple(_grader(name, family) for name, family in _FAMILIES.items())


def unscored(findings: Sequence[Mapping[str, Finding]]) -> list[str]:
    """Returns a sentence for each metric of this file that some questions have no score of, and why.

    `findings` are those of each question, by family.
    """
    sentences = []
    for metric in METRICS:
        values = [families[metric.reads].value for families in findings if metric.reads in families]
        by = Counter(value.get("by") for value in values)
        sentences += [
            f"{metric.id} has no score for {by[reason]:,} of {len(values):,} questions: {why}."
            for reason, why in _UNSCORED.items()
            if by[reason]
        ]
    return sentences


_UNSCORED = {
    "no_reference": "it needs a gold answer, and these have none",
    "no_claims": "these state no claim",
    "unreadable": "replies of the judge, or verdicts, could not be read",
    "failed": "a request of the judge failed",
}
