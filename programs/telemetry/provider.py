"""The tracer provider of spans: the application's, else one of ours that sends them over OTLP/HTTP."""

from __future__ import annotations

import atexit
import logging
import os
import sys
from functools import cache
from typing import Any

from ragc.core.redact import shorten
from ragc.errors import UsageError

ATTRIBUTES = 4096
"""Maximum number of attributes of a span that our provider sends; OpenTelemetry's default is 128."""


@cache
def tracer() -> Any:
    """Returns the tracer of the application's provider, else ours. Raises UsageError without the library."""
    try:
        from opentelemetry import trace as api

        provider = api.get_tracer_provider()
        if isinstance(provider, api.ProxyTracerProvider):
            provider = _provider()
    except ImportError as error:
        raise UsageError(
            f"RAGC_OTEL asks for traces, which need OpenTelemetry ({error}); run: pip install 'ragc[otel]', "
            "or take RAGC_OTEL out of the environment."
        ) from None
    return provider.get_tracer("ragc")


def _provider() -> Any:
    """Returns a provider that sends spans in the background, and the last ones when Python ends."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import SpanLimits, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    variables = os.environ.get("OTEL_SERVICE_NAME"), os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    named = variables[0] or "service.name" in variables[1]
    limited = os.environ.get("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT")
    provider = TracerProvider(
        resource=Resource.create({} if named else {"service.name": "ragc"}),
        span_limits=SpanLimits() if limited else SpanLimits(max_span_attributes=ATTRIBUTES),
    )
    exporter = OTLPSpanExporter()
    provider.add_span_processor(BatchSpanProcessor(exporter))
    reports = logging.getLogger("opentelemetry")
    watching = SdkWarnings(exporter, speaks=not reports.handlers and not logging.getLogger().handlers)
    reports.addHandler(watching)
    reports.propagate = not watching.speaks
    atexit.register(watching.end)
    return provider


class SdkWarnings(logging.Handler):
    """Reports the first of OpenTelemetry's warnings on stderr, and stops sending when Python ends.

    Otherwise an `exporter` whose collector is away delays the end of the process by its retries.
    """

    def __init__(self, exporter: Any, *, speaks: bool) -> None:
        super().__init__(logging.WARNING)
        self.speaks, self._exporter = speaks, exporter
        self._failed = self._ending = self._over = False

    def emit(self, record: logging.LogRecord) -> None:
        """Handles a record, see `logging.Handler`: warns once, and gives up sending if Python is ending."""
        first, self._failed = not self._failed, True
        if self._ending:
            self._give_up()
        if first and self.speaks and sys.stderr is not None:
            problem = shorten(record.getMessage(), 200)
            sys.stderr.write(f"ragc: Traces, which RAGC_OTEL asks for, may be incomplete: {problem}.\n")

    def end(self) -> None:
        """Notes that Python ends; what could not be sent so far is given up."""
        self._ending = True
        if self._failed:
            self._give_up()

    def _give_up(self) -> None:
        if not self._over:
            self._over = True  # a second shutdown would be reported to this handler
            self._exporter.shutdown()
