"""What a question cost: lower is better, and each is read from the outcome's counters.

A counter that is absent was not measured, and the question is left out (None) rather than called free.
`lm_calls` and `tokens` may be asked for one role, `searches` for one source: `tokens@proxy`,
`searches@web`. A role or source that was not used cost 0.
"""

from __future__ import annotations

from ragc.errors import UsageError
from ragc.metrics.base import Metric, Outcome, Unit

BY = {"lm_calls": "role", "tokens": "role", "searches": "source"}
"""Costs that can be asked for a part, and what the part is."""


def of(name: str, part: str) -> Metric:
    """The metric `name@part`; `name` is a key of `BY`."""
    whole, id = {metric.id: metric for metric in METRICS}[name], f"{name}@{part}"

    def read(outcome: Outcome) -> float | None:
        return None if name not in outcome.counters else float(outcome.counters.get(id, 0))

    return Metric(id, f"{whole.about}, {BY[name]} {part!r} only", whole.unit, False, read)


def _counter(id: str, about: str, unit: Unit) -> Metric:
    def read(outcome: Outcome) -> float | None:
        value = outcome.counters.get(id)
        return None if value is None else float(value)

    return Metric(id, about, unit, False, read)


def _family(name: str, about: str) -> Metric:
    def raise_incomplete(outcome: Outcome) -> float | None:
        raise UsageError(
            f"{name}@{BY[name]} counts nothing until the {BY[name]} is named, as in {_LIKE[name]}."
        )

    return Metric(f"{name}@{BY[name]}", about, "count", False, raise_incomplete)


_LIKE = {"lm_calls": "lm_calls@proxy", "tokens": "tokens@proxy", "searches": "searches@web"}

METRICS = (
    _counter("lm_calls", "calls of language models", "count"),
    _counter("tokens", "tokens read and written by language models", "count"),
    _counter("usd", "price of the calls", "usd"),
    _counter("latency", "time from the question to its answer", "seconds"),
    _counter("searches", "searches in all sources", "count"),
    _family("lm_calls", "calls of the models with one role"),
    _family("tokens", "tokens read and written by the models with one role"),
    _family("searches", "searches in one source"),
)
