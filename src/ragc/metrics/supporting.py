"""Metrics of the set of passages, order aside: does it hold all that supports the answer, and nothing else?

They are HotpotQA's scores of supporting facts (Yang et al. 2018, arXiv:1809.09600) with passages in place of
sentences, as RQ-RAG reports them (Chan et al. 2024, arXiv:2404.00610). A passage retrieved twice counts
once. A question without gold passages is not scored (None); one for which nothing was retrieved scores 0.
"""

from __future__ import annotations

from ragc.metrics.outcome import Metric, Outcome
from ragc.metrics.retrieval import by_trec_eval


def sp_em(outcome: Outcome) -> float | None:
    """1 when the passages are the gold ones, all of them and no other, else 0."""
    gold = set(outcome.gold_ids)
    return float(set(outcome.retrieved) == gold) if gold else None


def sp_f1(outcome: Outcome) -> float | None:
    """The harmonic mean of `sp_precision` and `sp_recall`, 0 when both are."""
    return by_trec_eval(outcome, "set_F")


def sp_precision(outcome: Outcome) -> float | None:
    """The share of the passages that are gold."""
    return by_trec_eval(outcome, "set_P")


def sp_recall(outcome: Outcome) -> float | None:
    """The share of the gold passages that were retrieved, at any rank."""
    return by_trec_eval(outcome, "set_recall")


METRICS = (
    Metric("sp_em", "the passages are exactly the gold ones", "share", True, sp_em),
    Metric("sp_f1", "F1 of the passages and the gold ones, as sets", "share", True, sp_f1),
    Metric("sp_precision", "share of the passages that are gold", "share", True, sp_precision),
    Metric("sp_recall", "share of the gold passages that were retrieved", "share", True, sp_recall),
)
