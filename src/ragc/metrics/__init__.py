"""Metrics: how an answered question is scored, and whether a difference is real.

One file per family; each ends in a tuple `METRICS`, and the tuple here joins them in the order in which
tables print them. `significance` holds the intervals and tests. Importing this package imports neither
numpy nor scipy.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragc.core.user_code import is_reference
from ragc.errors import UnknownName, UsageError
from ragc.metrics import alce, citations, cost, crag, judge, retrieval, rouge, short_answer
from ragc.metrics import retrieval as supporting
from ragc.metrics import short_answer as short
from ragc.metrics.base import Metric, Outcome, Unit
from ragc.metrics.own import own_metric

__all__ = ["METRICS", "Metric", "Outcome", "Unit", "get", "score"]

METRICS: tuple[Metric, ...] = (
    *short.METRICS,
    *short_answer.LENIENT,
    *judge.METRICS,
    *crag.METRICS,
    *alce.METRICS,
    *citations.METRICS,
    *rouge.METRICS,
    *retrieval.METRICS,
    *supporting.SUPPORTING,
    *cost.METRICS,
)

_BY_ID = {metric.id: metric for metric in METRICS}
_TEXT = frozenset(metric.id for metric in (*short.METRICS, *short_answer.LENIENT, *rouge.METRICS))


def get(metric_id: str) -> Metric:
    """The metric of that id; `my_metrics:score` is a function of the user's own.

    `recall@5` is cut at the number given, `tokens@proxy` counts the proxy only.

    Rows of `METRICS` such as `recall@k` are for listing, and scoring with them raises UsageError.
    Raises UnknownName, with the nearest id, when nothing answers to `metric_id`.
    """
    if metric := _BY_ID.get(metric_id):
        return metric
    name, _, k = metric_id.partition("@")
    if name in retrieval.CUT and k.isascii() and k.isdigit() and int(k) > 0:
        return retrieval.at(name, int(k))
    if name in cost.BY and k:
        return cost.of(name, k)
    if is_reference(metric_id):
        return own_metric(metric_id)
    if ":" in metric_id:
        raise UsageError(
            f"A metric of your own is written module:function, such as my_metrics:score, found {metric_id!r}."
        )
    raise UnknownName("metric", metric_id, _BY_ID)


def score(metric_id: str, prediction: str | None, golds: Sequence[str]) -> float:
    """The score of `prediction` against interchangeable gold answers, 0..1; None or no golds score 0.

    Raises UsageError for a metric that needs more than text, such as `recall@5` or `tokens`.
    """
    metric = get(metric_id)
    if metric.id not in _TEXT:
        listed = ", ".join(text.id for text in METRICS if text.id in _TEXT)
        raise UsageError(f"Metric {metric_id!r} cannot be computed from text alone. These can: {listed}.")
    if isinstance(golds, str):
        raise UsageError("The gold answers must be a list of strings, but got one string. Pass [gold].")
    value = metric.score(Outcome(prediction, tuple(golds)))
    return 0.0 if value is None else value
