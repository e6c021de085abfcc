"""Cost metrics, read from the outcome's counters; lower is better.

An absent counter was not measured; the metric is then None, not 0. `lm_calls` and `tokens` can be restricted
to one role, `searches` to one source: `tokens@proxy`, `searches@web`. An unused role or source costs 0.
`used` and `used_local` are PrefRAG's "Used Num" and "Used Local Num" (appendix A.6); its program and ReAct
count them.
"""

from __future__ import annotations

from ragc.metrics.base import Metric, Unit, incomplete

BY = {"lm_calls": "role", "tokens": "role", "searches": "source"}
"""Costs that can be restricted to a part, and the kind of part."""


def of(name: str, part: str) -> Metric:
    """Returns the metric `name@part`; `name` is a key of `BY`."""
    total, id = {metric.id: metric for metric in METRICS}[name], f"{name}@{part}"
    return Metric(
        id,
        f"{total.about}, {BY[name]} {part!r} only",
        total.unit,
        False,
        lambda outcome: float(outcome.counters.get(id, 0)) if name in outcome.counters else None,
    )


def _counter(id: str, about: str, unit: Unit) -> Metric:
    return Metric(
        id,
        about,
        unit,
        False,
        lambda outcome: float(outcome.counters[id]) if id in outcome.counters else None,
    )


def _part(name: str, about: str, like: str) -> Metric:
    return incomplete(Metric(f"{name}@{BY[name]}", about, "count", False, lambda outcome: None), like)


METRICS = (
    _counter("lm_calls", "calls of language models", "count"),
    _counter("tokens", "tokens read and written by language models", "count"),
    _counter("usd", "price of the calls", "usd"),
    _counter("latency", "time from the question to its answer", "seconds"),
    _counter("searches", "searches in all sources", "count"),
    _counter("used", "searches whose passages the model read; the others were discarded", "count"),
    _counter("used_local", "as used, of the source `local` alone", "count"),
    _part("lm_calls", "calls of the models with one role", "lm_calls@proxy"),
    _part("tokens", "tokens read and written by the models with one role", "tokens@proxy"),
    _part("searches", "searches in one source", "searches@web"),
)
