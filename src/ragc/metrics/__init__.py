"""Metrics: how an answered question is scored, and whether a difference is significant.

One file per family; each ends in a tuple `METRICS`, and the tuple here joins them in the order of printed
tables. `stats` has the intervals and tests. Importing this package imports neither numpy nor scipy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ragc.core.kinds import Registry
from ragc.core.user_code import is_reference
from ragc.errors import UnknownName, UsageError
from ragc.metrics import (
    alce,
    bioasq,
    citations,
    cost,
    crag,
    judge,
    retrieval,
    rouge,
    short_answer,
    upper_bound,
)
from ragc.metrics import retrieval as supporting
from ragc.metrics import short_answer as short
from ragc.metrics.base import Metric, Outcome, Unit
from ragc.metrics.judged import without_gold
from ragc.metrics.judged.without_gold import NO_GOLD
from ragc.metrics.own import own_metric

__all__ = ["ADDED", "METRICS", "Metric", "Outcome", "Unit", "get", "is_added", "score"]

METRICS: tuple[Metric, ...] = (
    *short.METRICS,
    *short_answer.LENIENT,
    *judge.METRICS,
    *without_gold.METRICS,
    *crag.METRICS,
    *alce.METRICS,
    *citations.METRICS,
    *bioasq.METRICS,
    *rouge.METRICS,
    *retrieval.METRICS,
    *supporting.SUPPORTING,
    *upper_bound.METRICS,
    *cost.METRICS,
)

_BY_ID = {metric.id: metric for metric in (*METRICS, *bioasq.COLUMNS)}

ADDED: Registry[Metric] = Registry("ragc.metrics", "metric", Metric, {})
"""The metrics of other packages, which add them as entry points of the group `ragc.metrics`."""


def is_added(metric_id: str) -> bool:
    """Returns whether another package adds the metric; nothing is imported."""
    return _own(metric_id) is None and ADDED.is_known(metric_id)


def get(metric_id: str, *, load: bool = False) -> Metric:
    """Returns the metric of that id; `recall@5` is cut at the number given, `tokens@proxy` counts the proxy
    only, `upper_bound@f1` is the best F1 of all answers that a program chose among, and `my_metrics:score`
    is a function of the user's own.

    Rows of `METRICS` such as `recall@k` are for listing; scoring with them raises UsageError. A metric of
    another package is imported with `load`, and else known if it was. Raises UnknownName, with the nearest
    id, for an unknown id.
    """
    metric = _own(metric_id) or (ADDED.get(metric_id) if load and ADDED.is_known(metric_id) else None)
    if metric := metric or ADDED.loaded(metric_id):
        return metric
    if ":" in metric_id:
        raise UsageError(
            f"A metric of your own is written module:function, such as my_metrics:score, found {metric_id!r}."
        )
    raise UnknownName("metric", metric_id, (*_BY_ID, *ADDED.about()))


def _own(metric_id: str) -> Metric | None:
    """Returns the metric of ragc, or of a user's module, with that id."""
    if metric := _BY_ID.get(metric_id):
        return metric
    name, _, k = metric_id.partition("@")
    if name in retrieval.CUT and k.isascii() and k.isdigit() and int(k) > 0:
        return retrieval.at(name, int(k))
    if name in cost.BY and k:
        return cost.of(name, k)
    if name == upper_bound.NAME and k in _BY_ID and _BY_ID[k].text:
        return upper_bound.of(_BY_ID[k])
    return own_metric(metric_id) if is_reference(metric_id) else None


def need_answers(metric_ids: Iterable[str]) -> bool:
    """Returns whether any of the metrics compares with gold answers; functions of the user's own may."""
    without = {
        metric.id.partition("@")[0] for metric in (*cost.METRICS, *retrieval.METRICS, *supporting.SUPPORTING)
    }
    return any(one.partition("@")[0] not in without | NO_GOLD for one in metric_ids)


def score(metric_id: str, prediction: str | None, golds: Sequence[str]) -> float:
    """Returns the score of `prediction` against interchangeable gold answers, 0..1; None or no golds score 0.

    Raises UsageError for a metric that needs more than text, such as `recall@5` or `tokens`.
    """
    metric = get(metric_id, load=True)
    if not metric.text:
        listed = ", ".join(text.id for text in METRICS if text.text)
        raise UsageError(f"Metric {metric_id!r} cannot be computed from text alone. These can: {listed}.")
    if isinstance(golds, str):
        raise UsageError("The gold answers must be a list of strings, but got one string. Pass [gold].")
    value = metric.score(Outcome(prediction, tuple(golds)))
    return 0.0 if value is None else value
