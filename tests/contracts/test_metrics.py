"""Every metric: its range and direction, any answer, questions without a gold answer, and judgements."""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragc.metrics import retrieval, rouge
from tests.examples import examples
from tests.support.embedders import WordEmbedder
from tests.support.kinds import (
    METRICS,
    Counters,
    GraderSettings,
    Metric,
    Outcome,
    ParseFailure,
    Passage,
    SchemaReplies,
    UsageError,
    counting,
    grade,
    metrics,
    reply_schema,
)

FAMILIES = {
    "recall@k": "recall@5",
    "precision@k": "precision@5",
    "ndcg@k": "ndcg@5",
    "upper_bound@metric": "upper_bound@f1",
    "lm_calls@role": "lm_calls@main",
    "tokens@role": "tokens@main",
    "searches@source": "searches@local",
}
"""A member of each family of metrics that is listed by its name alone."""

LISTED = [metrics.get(FAMILIES.get(metric.id, metric.id)) for metric in METRICS]
COUNTERS = (
    "lm_calls",
    "tokens",
    "usd",
    "latency",
    "searches",
    "used",
    "used_local",
    "lm_calls@main",
    "tokens@main",
    "searches@local",
)
PASSAGES = (
    Passage("p1", "Ada", "Ada wrote the first program. It was red."),
    Passage("p2", "", "Rain fell in 1843."),
)
GOLD = ("Ada Lovelace", "Ada")
EXTRA: dict[str, Any] = {
    "qa_pairs": [{"question": "Who?", "short_answers": ["Ada"]}],
    "claims": ["Ada wrote it."],
    "answers": [["Ada", "Lady"], ["Bob"]],
    "long_answers": ["Ada wrote the first program."],
    "type": "list",
    "exact_answer": [["Ada"], ["Bob"]],
}
"""What the metrics of ALCE, QAMPARI and BioASQ read of a question."""

OF_PASSAGES = (
    "context_precision",
    "context_recall",
    "recall@5",
    "precision@5",
    "ndcg@5",
    "mrr",
    "sp_em",
    "sp_f1",
    "sp_precision",
    "sp_recall",
)
"""Metrics of what was found, not of the answer."""

every = pytest.mark.parametrize("metric", LISTED, ids=lambda metric: metric.id)


class Judge:
    """Replies that fit the signature of each call; `texts` have words of their inputs."""

    name = "scripted"

    def __init__(self, *, last: bool = False, lost: bool = False) -> None:
        self.last, self.lost, self.calls = last, lost, 0

    async def __call__(self, signature: Any, /, **inputs: Any) -> Mapping[str, Any]:
        self.calls += 1
        if self.lost:
            raise ParseFailure("no verdict")
        reply: Mapping[str, Any] = SchemaReplies(last=self.last, text="Ada wrote it.").example(
            reply_schema(signature)
        )
        return reply


@pytest.fixture(autouse=True)
def words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragc.corpora.embed.make", lambda *_: WordEmbedder("words", "Ada"))


def scored(metric: Metric, judge: Judge | None = None, **fields: Any) -> float | None:
    """The score of an answer to a question about Ada, with what a judge finds."""
    values: dict[str, Any] = {
        "prediction": "Ada [1].",
        "answers": GOLD,
        "retrieved": ("p1", "p2"),
        "gold_ids": ("p1",),
        "passages": PASSAGES,
        "counters": dict.fromkeys(COUNTERS, 3.0),
        "extra": EXTRA,
        "question": "Who wrote it?",
    }
    outcome = Outcome(**{**values, **fields})
    graders = metrics.make_graders([metric.reads] if metric.reads else [], GraderSettings(), judge or Judge())
    return metric.score(asyncio.run(grade(outcome, graders.values())))


def check(metric: Metric, score: float | None) -> None:
    low, high = metric.bounds or (0.0, math.inf)
    if score is not None:
        assert isinstance(score, float | int)
        assert not isinstance(score, bool)
        assert math.isfinite(score)
        assert low <= score <= high + 1e-12


@every
def test_the_listing_says_its_unit_and_which_way_is_better(metric: Metric) -> None:
    worse = (*COUNTERS, "crag_halluc", "crag_miss")
    assert metric.about
    assert metric.higher_is_better == (metric.id not in worse)
    assert (metric.unit in ("count", "usd", "seconds")) == (metric.id in COUNTERS)
    assert metric.bounds == {"share": (0.0, 1.0), "balance": (-1.0, 1.0)}.get(metric.unit)


@every
@pytest.mark.parametrize("last", [False, True])
def test_a_score_is_a_number_in_its_range(metric: Metric, last: bool) -> None:
    score = scored(metric, Judge(last=last))
    check(metric, score)
    assert score is not None or metric.id.startswith("bioasq_")  # of factoids, and of yes or no
    if metric.id in COUNTERS:
        assert score == 3.0
        assert scored(metric, counters={**dict.fromkeys(COUNTERS, 0.0)}) == 0.0


@every
@pytest.mark.parametrize("prediction", [None, "", " \n"])
def test_no_answer_is_never_right_and_asks_no_judge(metric: Metric, prediction: str | None) -> None:
    judge = Judge()
    score = scored(metric, judge, prediction=prediction)
    check(metric, score)
    if metric.id in OF_PASSAGES or metric.id in COUNTERS:
        assert score is not None
    else:
        assert score in (None, float(metric.id == "crag_miss"))
        assert judge.calls == 0


@every
def test_without_a_gold_answer_there_is_no_score_or_none_that_is_right(metric: Metric) -> None:
    """Unless the metric reads no gold answer; a counter that was not measured is no score either."""
    score = scored(metric, answers=(), gold_ids=(), extra={}, counters={})
    check(metric, score)
    reads_none = ("faithfulness", "context_precision", "crag_halluc")
    assert score in (None, 0.0, -1.0) or metric.id in reads_none or "cite" in metric.id


@every
@settings(max_examples=examples(20), deadline=None)
@given(
    prediction=st.text(max_size=30),
    golds=st.lists(st.text(max_size=12), max_size=3),
    retrieved=st.lists(st.sampled_from("abcd"), max_size=8),
    gold_ids=st.sets(st.sampled_from("abcde"), max_size=4),
)
def test_any_texts_and_passages_are_scored(
    metric: Metric, prediction: str, golds: list[str], retrieved: list[str], gold_ids: set[str]
) -> None:
    found: dict[str, Any] = {"retrieved": tuple(retrieved), "gold_ids": tuple(gold_ids)}
    check(metric, scored(metric, prediction=prediction, answers=tuple(golds), **found))


@pytest.mark.parametrize("metric", [m for m in LISTED if m.text], ids=lambda metric: metric.id)
@pytest.mark.parametrize("wrong", [3, 1.5, True, ["x"], {"a": 1}], ids=str)
def test_what_is_no_text_is_refused_by_name(metric: Metric, wrong: Any) -> None:
    for outcome in (Outcome(wrong, ("x",)), Outcome("x", (wrong,))):
        with pytest.raises(UsageError, match="compares texts, but got"):
            metric.score(outcome)


@every
def test_what_a_judge_says_and_nobody_can_read_is_counted_and_no_right_answer(metric: Metric) -> None:
    judge = Judge(lost=True)
    with counting(Counters()) as spent:
        score = scored(metric, judge)
    check(metric, score)
    if judge.calls:
        assert score in (None, 0.0, -1.0) or metric.id == "crag_halluc"
        assert spent.dropped == judge.calls


@pytest.mark.parametrize(
    ("name", "library", "says"),
    [
        ("rougeLsum", "rouge_score", r'ROUGE needs rouge_score.*pip install "ragc\[metrics\]"'),
        ("rqrag_f1", "ftfy", r'RQ-RAG\'s F1 needs ftfy.*pip install "ragc\[metrics\]"'),
        ("mrr", "pytrec_eval", "pip install pytrec-eval-terrier"),
    ],
)
def test_without_its_library_a_metric_says_what_to_install(
    name: str, library: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    rouge._scorer.cache_clear()
    retrieval._trec_score.cache_clear()
    with pytest.raises(UsageError, match=says):
        scored(metrics.get(name))
