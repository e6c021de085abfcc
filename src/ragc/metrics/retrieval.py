"""Retrieval metrics: recall@k, precision@k, nDCG@k and reciprocal rank by trec_eval; HotpotQA's set scores.

All use the outcome's `retrieved`, ids of parent passages. A repeated id counts once. A question without gold
passages is None, not 0.

Ranked metrics: ids are ordered best first. A repeated id counts at its first rank, and later ones move up:
`k` counts distinct passages. Gold passages are equally relevant. There are no ties: the order of `retrieved`
decides. The computation is trec_eval's (pytrec_eval, Van Gysel and de Rijke 2018,
doi:10.1145/3209978.3210065), which is imported on first use.

Set metrics, without order: whether the set holds all supporting passages and nothing else. They are
HotpotQA's scores of supporting facts (Yang et al. 2018, arXiv:1809.09600) with passages in place of
sentences, as RQ-RAG reports them (Chan et al. 2024, arXiv:2404.00610). A question with nothing retrieved
scores 0.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any

from ragc.errors import UsageError
from ragc.metrics.base import Metric, Outcome

Ranked = Callable[[Outcome, int], float | None]


def recall(outcome: Outcome, k: int) -> float | None:
    """Returns the share of the gold passages among the first `k`."""
    return by_trec_eval(outcome, "recall", k)


def precision(outcome: Outcome, k: int) -> float | None:
    """Returns the gold passages among the first `k`, divided by `k`; missing ranks count as wrong."""
    return by_trec_eval(outcome, "P", k)


def ndcg(outcome: Outcome, k: int) -> float | None:
    """Returns the discounted gain 1/log2(1 + rank) of the gold among the first `k`, over the best possible.

    Järvelin and Kekäläinen 2002, doi:10.1145/582415.582418, with the discount of trec_eval.
    """
    return by_trec_eval(outcome, "ndcg_cut", k)


def mrr(outcome: Outcome) -> float | None:
    """Returns 1/rank of the first gold passage, 0 when none was retrieved."""
    return by_trec_eval(outcome, "recip_rank")


def by_trec_eval(outcome: Outcome, measure: str, k: int | None = None) -> float | None:
    """Returns trec_eval's `measure` of the ranking, cut at `k` if given; None without gold passages.

    Raises UsageError when pytrec_eval is not installed.
    """
    gold = set(outcome.gold_ids)
    if not gold:
        return None
    hits = tuple(id in gold for id in dict.fromkeys(outcome.retrieved))
    return _trec_score(measure if k is None else f"{measure}.{k}", hits, len(gold))


@lru_cache(maxsize=4096)
def _trec_score(measure: str, hits: tuple[bool, ...], n_relevant: int) -> float:
    """Returns `measure` of a ranking with relevance `hits`, of `n_relevant` gold passages in total.

    Only these affect the score, so the cache has few misses; each call leaks some memory in trec_eval. Ranks
    replace ids, which may contain characters that its C strings cannot.
    """
    ranks = [str(rank) for rank, hit in enumerate(hits) if hit]
    missing = [f"missing {n}" for n in range(n_relevant - len(ranks))]
    evaluator = _trec_eval().RelevanceEvaluator({"q": dict.fromkeys(ranks + missing, 1)}, {measure})
    run = {str(rank): float(-rank) for rank in range(len(hits))}
    (value,) = evaluator.evaluate({"q": run})["q"].values()
    return float(value)


def at(name: str, k: int) -> Metric:
    """Returns the metric `name@k`; `name` is a key of `CUT`, `k` at least 1."""
    about, function = CUT[name]

    def of_outcome(outcome: Outcome) -> float | None:
        return function(outcome, k)

    return Metric(f"{name}@{k}", about.format(k=k), "share", True, of_outcome, modules=TREC_EVAL)


TREC_EVAL = ("pytrec_eval",)


def _trec_eval() -> Any:
    try:
        return import_module("pytrec_eval")
    except ImportError as error:
        raise UsageError(
            "Ranking metrics need pytrec_eval, which is not installed; run: pip install pytrec-eval-terrier"
        ) from error


def _family(name: str) -> Metric:
    def raise_incomplete(outcome: Outcome) -> float | None:
        raise UsageError(f"{name}@k scores nothing until k is chosen. Ask for {name}@5, for instance.")

    return Metric(f"{name}@k", CUT[name][0].format(k="k"), "share", True, raise_incomplete, modules=TREC_EVAL)


CUT: dict[str, tuple[str, Ranked]] = {
    "recall": ("share of the gold passages that are among the first {k}", recall),
    "precision": ("share of the first {k} passages that are gold", precision),
    "ndcg": ("gain of the gold passages in the first {k}, discounted by rank", ndcg),
}


def sp_em(outcome: Outcome) -> float | None:
    """Returns 1 when the retrieved passages are exactly the gold ones, else 0."""
    gold = set(outcome.gold_ids)
    return float(set(outcome.retrieved) == gold) if gold else None


def sp_f1(outcome: Outcome) -> float | None:
    """Returns the harmonic mean of `sp_precision` and `sp_recall`, 0 when both are 0."""
    return by_trec_eval(outcome, "set_F")


def sp_precision(outcome: Outcome) -> float | None:
    """Returns the share of the retrieved passages that are gold."""
    return by_trec_eval(outcome, "set_P")


def sp_recall(outcome: Outcome) -> float | None:
    """Returns the share of the gold passages that were retrieved, at any rank."""
    return by_trec_eval(outcome, "set_recall")


SUPPORTING = (
    Metric("sp_em", "the passages are exactly the gold ones", "share", True, sp_em),
    Metric("sp_f1", "F1 of the passages and the gold ones, as sets", "share", True, sp_f1),
    Metric("sp_precision", "share of the passages that are gold", "share", True, sp_precision),
    Metric("sp_recall", "share of the gold passages that were retrieved", "share", True, sp_recall),
)
METRICS = (
    _family("recall"),
    _family("precision"),
    _family("ndcg"),
    Metric("mrr", "reciprocal rank of the first gold passage", "share", True, mrr, modules=TREC_EVAL),
    *SUPPORTING,
)
