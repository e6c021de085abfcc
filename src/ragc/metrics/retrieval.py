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

from functools import lru_cache

from ragc.metrics.base import Metric, Outcome, incomplete, library

CUT = {
    "recall": ("recall", "share of the gold passages that are among the first {k}"),
    "precision": ("P", "share of the first {k} passages that are gold"),
    "ndcg": ("ndcg_cut", "gain of the gold passages in the first {k}, discounted by rank"),
}
"""By metric, the measure of trec_eval and what it is. Missing ranks count as wrong in `precision`. A gain is
1/log2(1 + rank), over the best possible (Järvelin and Kekäläinen 2002, doi:10.1145/582415.582418).
"""


def _metric(id: str, about: str, measure: str) -> Metric:
    """Returns the metric by trec_eval's `measure`, which raises UsageError without pytrec_eval."""

    def score(outcome: Outcome) -> float | None:
        gold = set(outcome.gold_ids)
        hits = tuple(id in gold for id in dict.fromkeys(outcome.retrieved))
        return _trec_score(measure, hits, len(gold)) if gold else None

    return Metric(id, about, "share", True, score, modules=("pytrec_eval",))


@lru_cache(maxsize=4096)
def _trec_score(measure: str, hits: tuple[bool, ...], n_relevant: int) -> float:
    """Returns `measure` of a ranking with relevance `hits`, of `n_relevant` gold passages in total.

    Only these affect the score, so the cache has few misses; each call leaks some memory in trec_eval. Ranks
    replace ids, which may contain characters that its C strings cannot.
    """
    ranks = [str(rank) for rank, hit in enumerate(hits) if hit]
    missing = [f"missing {n}" for n in range(n_relevant - len(ranks))]
    relevant = {"q": dict.fromkeys(ranks + missing, 1)}
    evaluator = library("pytrec_eval", "A ranking metric").RelevanceEvaluator(relevant, {measure})
    run = {str(rank): float(-rank) for rank in range(len(hits))}
    (value,) = evaluator.evaluate({"q": run})["q"].values()
    return float(value)


def at(name: str, k: int) -> Metric:
    """Returns the metric `name@k`; `name` is a key of `CUT`, `k` at least 1."""
    measure, about = CUT[name]
    return _metric(f"{name}@{k}", about.format(k=k), f"{measure}.{k}")


def sp_em(outcome: Outcome) -> float | None:
    """Returns 1 when the retrieved passages are exactly the gold ones, else 0."""
    gold = set(outcome.gold_ids)
    return float(set(outcome.retrieved) == gold) if gold else None


METRICS = (
    *(
        incomplete(_metric(f"{name}@k", about.format(k="k"), measure), f"{name}@5")
        for name, (measure, about) in CUT.items()
    ),
    _metric("mrr", "reciprocal rank of the first gold passage", "recip_rank"),
    Metric("sp_em", "the passages are exactly the gold ones", "share", True, sp_em),
    _metric("sp_f1", "F1 of the passages and the gold ones, as sets", "set_F"),
    _metric("sp_precision", "share of the passages that are gold", "set_P"),
    _metric("sp_recall", "share of the gold passages that were retrieved", "set_recall"),
)
