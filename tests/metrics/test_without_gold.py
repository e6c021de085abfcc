"""Scores by Ragas' definitions: formulas, what the judge is asked, and what cannot be read."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from ragc import metrics
from ragc.core.counters import Counters, counting
from ragc.errors import ParseFailure, UsageError
from ragc.metrics import make_graders, most_judge_calls, without_gold
from ragc.metrics.base import Outcome, grade
from ragc.metrics.settings import GraderSettings
from ragc.records import Passage, Question
from ragc.signatures.judge import MOST_FACTS

PASSAGES = (Passage("a", "Ada", "Ada wrote the first program."), Passage("b", "", "Rain fell in 1843."))


class Ask:
    """A judge that replies by signature: outputs, an error, or a function of the inputs."""

    name = "scripted"

    def __init__(self, **replies: Any) -> None:
        self.replies, self.calls = replies, list[tuple[str, Mapping[str, Any]]]()

    async def __call__(self, signature: Any, /, **inputs: Any) -> Mapping[str, Any]:
        self.calls.append((signature.__name__, inputs))
        reply = self.replies[signature.__name__]
        reply = reply(inputs) if callable(reply) else reply
        if isinstance(reply, Exception):
            raise reply
        return dict(reply)


class Embedder:
    """Vectors of the first letters of texts."""

    model = "letters"

    def embed(self, texts: Sequence[str]) -> Any:
        return np.array([[1.0, 0.0] if text.startswith("W") else [0.6, 0.8] for text in texts])


@pytest.fixture(autouse=True)
def letters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragc.corpora.embed.make", Embedder)


def scored(
    metric: str,
    ask: Ask,
    *,
    answer: str | None = "Ada",
    gold: tuple[str, ...] = (),
    entailment: str = "judge",
    passages: tuple[Passage, ...] = PASSAGES,
) -> tuple[float | None, Any]:
    graders = make_graders([metric], GraderSettings(entailment=entailment), ask)
    outcome = Outcome(answer, gold, question="Who?", passages=passages)
    graded = asyncio.run(grade(outcome, graders.values()))
    return metrics.get(metric).score(graded), graded.findings[metric]


def facts(*claims: str) -> dict[str, Any]:
    return {"facts": list(claims)}


def entailed_if(*words: str) -> Any:
    return lambda inputs: {"entailed": any(word in inputs["statement"] for word in words)}


def test_faithfulness_is_the_share_of_supported_claims() -> None:
    ask = Ask(StateFacts=facts("Ada wrote it.", " ", "Bob did."), TextEntails=entailed_if("Ada"))
    score, finding = scored("faithfulness", ask)
    assert score == 0.5
    assert finding.value["claims"] == ["Ada wrote it.", "Bob did."]
    assert finding.backend.startswith("judge scripted, prompt facts; entailment judge scripted")
    assert "Ada wrote the first program. Rain fell" in " ".join(ask.calls[1][1]["text"].split())


def test_a_rule_or_a_model_may_decide_what_is_supported() -> None:
    ask = Ask(StateFacts=facts("Ada wrote a program.", "Bob wrote a poem in 1844."))
    score, finding = scored("faithfulness", ask, entailment="lexical")
    assert (score, len(ask.calls)) == (0.5, 1)
    assert "entailment lexical" in finding.backend


def test_context_recall_is_of_the_first_gold_answer() -> None:
    ask = Ask(StateFacts=facts("Ada.", "Bob.", "Ada too."), TextEntails=entailed_if("Ada"))
    score, _ = scored("context_recall", ask, answer=None, gold=("gold text", "other"))
    assert score == pytest.approx(2 / 3)
    assert ask.calls[0][1]["text"] == "gold text"


def test_context_precision_asks_about_each_passage() -> None:
    ask = Ask(PassageHelps=lambda inputs: {"useful": "Rain" in inputs["passage"]})
    score, finding = scored("context_precision", ask)
    assert score == 0.5
    assert finding.value["useful"] == [False, True]
    assert scored("context_precision", ask, passages=())[0] == 0.0


@pytest.mark.parametrize(("evasive", "expected"), [(False, 0.8), (True, 0.0)])
def test_relevancy_is_the_mean_cosine_and_0_for_an_evasive_answer(evasive: bool, expected: float) -> None:
    ask = Ask(GuessQuestions={"questions": ["Who?", "Ada?"], "evasive": evasive})
    score, finding = scored("answer_relevancy", ask)
    assert score == pytest.approx(expected)
    assert finding.backend.endswith("embedder letters")


def test_correctness_weighs_claims_and_cosine() -> None:
    texts = {"Ada": facts("right", "wrong"), "W gold": facts("held right", "lacking")}
    ask = Ask(StateFacts=lambda inputs: texts[inputs["text"]], TextEntails=entailed_if("right"))
    score, _ = scored("answer_correctness", ask, gold=("W gold",))
    assert score == pytest.approx(0.75 * 0.5 + 0.25 * 0.6)


@pytest.mark.parametrize("metric", ["context_recall", "answer_correctness"])
def test_without_a_reference_there_is_no_score_and_no_call(metric: str) -> None:
    ask = Ask()
    score, finding = scored(metric, ask, gold=(" ", "nan"))
    assert (score, finding.value, ask.calls) == (None, {"by": "no_reference"}, [])
    assert without_gold.unscored([{metric: finding}, {}]) == [
        f"{metric} has no score for 1 of 1 questions: it needs a gold answer, and these have none."
    ]


LOST = ParseFailure("no verdict")


@pytest.mark.parametrize(
    ("metric", "replies"),
    [
        ("faithfulness", {"StateFacts": LOST}),
        ("faithfulness", {"StateFacts": facts("a", "b"), "TextEntails": LOST}),
        ("context_recall", {"StateFacts": LOST}),
        ("context_precision", {"PassageHelps": LOST}),
        ("answer_relevancy", {"GuessQuestions": LOST}),
        ("answer_relevancy", {"GuessQuestions": {"questions": [" "], "evasive": False}}),
        ("answer_correctness", {"StateFacts": LOST}),
        ("answer_correctness", {"StateFacts": facts("a"), "TextEntails": LOST}),
    ],
)
def test_what_cannot_be_read_is_no_score_and_said(metric: str, replies: dict[str, Any]) -> None:
    with counting(Counters()) as spent:
        score, finding = scored(metric, Ask(**replies), gold=("gold",))
    assert (score, finding.value["by"]) == (None, "unreadable")
    if LOST in replies.values():
        assert spent.to_json()["dropped"] >= 1


@pytest.mark.parametrize("metric", ["faithfulness", "answer_correctness"])
def test_without_a_claim_there_is_no_score(metric: str) -> None:
    # Their F1 would be 1, whatever the answers say: a wrong answer scored .9 by a model that lists nothing.
    score, finding = scored(metric, Ask(StateFacts=facts()), gold=("Bob",))
    assert (score, finding.value["by"]) == (None, "no_claims")


def test_claims_of_the_gold_answer_alone_leave_the_cosine() -> None:
    texts = {"Ada": facts(), "Bob": facts("Bob did.")}
    ask = Ask(StateFacts=lambda inputs: texts[inputs["text"]], TextEntails={"entailed": False})
    assert scored("answer_correctness", ask, gold=("Bob",))[0] == pytest.approx(0.25)


def test_a_claim_that_is_repeated_counts_once() -> None:
    ask = Ask(StateFacts=facts("Ada.", "Bob.", "Bob.", "Bob. "), TextEntails=entailed_if("Ada"))
    assert scored("faithfulness", ask)[0] == 0.5


@pytest.mark.parametrize("metric", [metric.id for metric in without_gold.METRICS])
def test_calls_are_bounded_and_a_judge_is_needed(metric: str) -> None:
    replies: dict[str, Any] = {
        "StateFacts": lambda inputs: facts(*(f"{inputs['text']} {n}" for n in range(MOST_FACTS))),
        "TextEntails": {"entailed": True},
        "PassageHelps": {"useful": True},
        "GuessQuestions": {"questions": ["Who?"], "evasive": False},
    }
    ask = Ask(**replies)
    many = tuple(Passage(str(n), "", f"text {n}") for n in range(30))
    scored(metric, ask, gold=("gold",), passages=many)
    settings = GraderSettings(entailment="judge")
    most = most_judge_calls([metric], settings, Question("", "Who?", ("gold",)))
    assert len(ask.calls) == most < math.inf
    with pytest.raises(UsageError, match=rf"{metric} asks a judge.*targets\.judge"):
        make_graders([metric], settings, None)
