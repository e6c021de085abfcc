"""Metrics of ranked passages: recall@k, nDCG@k and the reciprocal rank.

They see the outcome's `retrieved`, parent passage ids best first. A repeated id counts once, at its
first rank, and those behind it move up: `k` counts different passages. Gold passages are equally
relevant. A question without gold passages is not scored (None), rather than scored 0.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log2

from ragc.errors import UsageError
from ragc.metrics.outcome import Metric, Outcome

Ranked = Callable[[Outcome, int], float | None]


def recall(outcome: Outcome, k: int) -> float | None:
    """The share of the gold passages among the first `k`."""
    gold = set(outcome.gold_ids)
    if not gold:
        return None
    return sum(id in gold for id in _ranking(outcome)[:k]) / len(gold)


def ndcg(outcome: Outcome, k: int) -> float | None:
    """Discounted gain 1/log2(1 + rank) of the gold among the first `k`, over that of a perfect ranking.

    Järvelin and Kekäläinen 2002, doi:10.1145/582415.582418, with the discount of trec_eval.
    """
    gold = set(outcome.gold_ids)
    if not gold:
        return None
    gain = sum(_discount(rank) for rank, id in enumerate(_ranking(outcome)[:k], 1) if id in gold)
    return gain / sum(_discount(rank) for rank in range(1, min(k, len(gold)) + 1))


def mrr(outcome: Outcome) -> float | None:
    """1/rank of the first gold passage, 0 when none was retrieved."""
    gold = set(outcome.gold_ids)
    if not gold:
        return None
    ranks = (rank for rank, id in enumerate(_ranking(outcome), 1) if id in gold)
    first = next(ranks, None)
    return 1 / first if first else 0.0


def at(name: str, k: int) -> Metric:
    """The metric `name@k`; `name` is a key of `CUT`, `k` at least 1."""
    about, function = CUT[name]

    def of_outcome(outcome: Outcome) -> float | None:
        return function(outcome, k)

    return Metric(f"{name}@{k}", about.format(k=k), "share", True, of_outcome)


def _ranking(outcome: Outcome) -> list[str]:
    return list(dict.fromkeys(outcome.retrieved))


def _discount(rank: int) -> float:
    return 1 / log2(1 + rank)


def _family(name: str) -> Metric:
    def undecided(outcome: Outcome) -> float | None:
        raise UsageError(f"{name}@k scores nothing until k is chosen. Ask for {name}@5, for instance.")

    return Metric(f"{name}@k", CUT[name][0].format(k="k"), "share", True, undecided)


CUT: dict[str, tuple[str, Ranked]] = {
    "recall": ("share of the gold passages that stand in the first {k}", recall),
    "ndcg": ("gain of the gold passages in the first {k}, discounted by rank", ndcg),
}
METRICS = (
    _family("recall"),
    _family("ndcg"),
    Metric("mrr", "reciprocal rank of the first gold passage", "share", True, mrr),
)
