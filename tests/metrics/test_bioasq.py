"""BioASQ's own metrics: lists with synonyms, ranked factoids, macro-F1 of yes and no; on its golden files."""

from __future__ import annotations

from typing import Any

import pytest

from ragc import metrics
from ragc.metrics import bioasq
from ragc.metrics.base import Outcome
from ragc.metrics.stats.resample import pooled_ci

GROUPS = [["deletions", "gene deletions"], ["point mutations"], ["duplications"], ["IL-2", "interleukin 2"]]


def outcome(prediction: str | None, type: str, exact: Any, answers: tuple[str, ...] = ()) -> Outcome:
    return Outcome(prediction, answers, extra={"type": type, "exact_answer": exact})


def value(metric: str, answered: Outcome) -> float | None:
    return metrics.get(metric).score(answered)


@pytest.mark.parametrize(
    ("prediction", "precision", "recall"),
    [
        ("deletions", 1.0, 0.25),
        ("Deletions, Point mutations, duplications and interleukin 2", 2 / 3, 0.5),
        ("deletions, point mutations, duplications, and interleukin 2.", 1.0, 1.0),
        ("- gene deletions\n- deletions\n- frameshift", 1 / 3, 0.25),
        ("1. IL-2 [1]\n2. point  mutations [2, 3]", 1.0, 0.5),
        ("point mutations; deletions; nonsense", 2 / 3, 0.5),
        ("there is no such list", 0.0, 0.0),
        ("", 0.0, 0.0),
        (None, 0.0, 0.0),
    ],
)
def test_items_are_counted_once_whatever_the_synonym(
    prediction: str | None, precision: float, recall: float
) -> None:
    answered = outcome(prediction, "list", GROUPS)
    assert value("bioasq_list_p", answered) == pytest.approx(precision)
    assert value("bioasq_list_r", answered) == pytest.approx(recall)
    f1 = 2 * precision * recall / (precision + recall) if precision else 0.0
    assert value("bioasq_list_f", answered) == pytest.approx(f1)


@pytest.mark.parametrize(
    ("prediction", "rank"),
    [
        ("BDCA2", 1),
        ("bdca2.", 1),
        ("CD303, BDCA2", 2),
        ("a\nb\nc\nd\nBDCA2", 5),
        ("a\nb\nc\nd\ne\nBDCA2", 0),
        ("blood dendritic cell antigen 2, human", 1),
        (None, 0),
    ],
)
def test_a_factoid_is_scored_by_the_rank_of_its_first_right_candidate(
    prediction: str | None, rank: int
) -> None:
    answered = outcome(prediction, "factoid", ["BDCA2", "Blood dendritic cell antigen 2, human"])
    assert value("bioasq_mrr", answered) == (1 / rank if rank else 0.0)
    assert value("bioasq_sacc", answered) == float(rank == 1)
    assert value("bioasq_lacc", answered) == float(rank > 0)


def test_a_metric_of_one_type_does_not_apply_to_another() -> None:
    for metric in bioasq.METRICS:
        assert metric.score(outcome("yes", "summary", None, ("a summary",))) is None
    assert value("bioasq_list_f", outcome("yes", "yesno", "yes", ("yes",))) is None
    assert value("bioasq_macro_f1", outcome("a", "list", [["a"]], ("a",))) is None


@pytest.mark.parametrize(
    ("answers", "golds", "expected"),
    [
        # yes: precision 2/3, recall 2/2; no: precision 1/1, recall 1/2
        ("yes yes yes no", "yes yes no no", (0.8 + 2 / 3) / 2),
        ("yes maybe no no", "yes yes no yes", (0.5 + 2 / 3) / 2),
        ("yes yes", "yes yes", 0.5),
        ("no maybe", "yes no", 0.0),
    ],
)
def test_the_pooled_figure_is_macro_f1_as_defined(answers: str, golds: str, expected: float) -> None:
    metric = metrics.get("bioasq_macro_f1")
    pairs = zip(answers.split(), golds.split(), strict=True)
    outcomes = [outcome(answer, "yesno", gold, (gold,)) for answer, gold in pairs]
    columns = [[metrics.get(name).score(one) for one in outcomes] for name in metric.pools]
    assert metric.combine
    assert pooled_ci(columns, metric.combine, seed=1).mean == pytest.approx(expected)
