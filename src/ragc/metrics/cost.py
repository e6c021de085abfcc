"""What a question cost: lower is better, and each is read from the outcome's counters.

A counter that is absent was not measured, and the question is left out (None) rather than called free.
"""

from __future__ import annotations

from ragc.metrics.outcome import Metric, Outcome, Unit


def _counter(id: str, about: str, unit: Unit) -> Metric:
    def read(outcome: Outcome) -> float | None:
        value = outcome.counters.get(id)
        return None if value is None else float(value)

    return Metric(id, about, unit, False, read)


METRICS = (
    _counter("lm_calls", "calls of language models", "count"),
    _counter("tokens", "tokens read and written by language models", "count"),
    _counter("usd", "price of the calls", "usd"),
    _counter("latency", "time from the question to its answer", "seconds"),
    _counter("searches", "searches in all sources", "count"),
)
