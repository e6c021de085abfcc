"""The metrics of a server for Prometheus: `/metrics`.

    ragc_requests_total    questions, by model, interface and status
    ragc_tokens_total      tokens of answered questions, by model and kind (prompt, completion)
    ragc_searches_total    searches, by model
    ragc_replays_total     replies that were replayed, by model
    ragc_usd_total         cost in US dollars, by model
    ragc_seconds           time to the whole answer, by model
    ragc_in_flight         questions that are being answered

Labels hold nothing that a client wrote: the model of a request that names none of the server's is "".
"""

from __future__ import annotations

import os
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from ragc.task.answering import Row

WORKERS_ENV = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable with the folder that workers share; the client reads it when it is imported."""

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
"""Upper bounds of times, in seconds."""


class Metrics:
    """The counters of one server, or of one of its workers."""

    def __init__(self) -> None:
        self._series: dict[tuple[Any, tuple[str, ...]], Any] = {}
        self._registry = registry = CollectorRegistry()
        self._requests = Counter(
            "ragc_requests", "Questions.", ("model", "interface", "status"), registry=registry
        )
        self._tokens = Counter("ragc_tokens", "Tokens of all calls.", ("model", "kind"), registry=registry)
        self._searches = Counter("ragc_searches", "Searches.", ("model",), registry=registry)
        self._replays = Counter("ragc_replays", "Replies replayed.", ("model",), registry=registry)
        self._usd = Counter("ragc_usd", "Cost in US dollars.", ("model",), registry=registry)
        self._seconds = Histogram(
            "ragc_seconds", "Seconds to the whole answer.", ("model",), registry=registry, buckets=BUCKETS
        )
        self.in_flight = Gauge(
            "ragc_in_flight",
            "Questions being answered.",
            registry=registry,
            multiprocess_mode="livesum",
        )

    def count(self, model: str, interface: str, status: int) -> None:
        """Counts a request that ended with `status`; of a stream, the status at its end."""
        self._of(self._requests, model, interface, str(status)).inc()

    def answered(self, model: str, row: Row, seconds: float) -> None:
        """Adds the cost of the answer `row`."""
        amounts, of = row.counters.get, self._of
        for kind in ("prompt", "completion"):
            _add(of(self._tokens, model, kind), amounts(f"{kind}_tokens", 0))
        _add(of(self._searches, model), amounts("searches", 0))
        _add(of(self._replays, model), amounts("replayed", 0))
        _add(of(self._usd, model), amounts("usd", 0))
        of(self._seconds, model).observe(seconds)

    def _of(self, metric: Any, *labels: str) -> Any:
        """Returns the series of `metric` with `labels`, which Prometheus's client looks up slowly."""
        known = (metric, labels)
        if known not in self._series:
            self._series[known] = metric.labels(*labels)
        return self._series[known]

    def text(self) -> bytes:
        """Returns all metrics in Prometheus's text format, those of all workers summed up."""
        if WORKERS_ENV not in os.environ:
            return generate_latest(self._registry)
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)


def _add(series: Any, amount: float) -> None:
    if amount:  # to add nothing takes as long
        series.inc(amount)
