"""Where spans go: the application's tracer provider, else one of ours that sends them over OTLP/HTTP."""

from __future__ import annotations

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
    """The tracer of the application's provider, else of ours. Raises UsageError without the library."""
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
    """A provider that sends spans in the background, and the last ones when Python ends."""
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
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    reports = logging.getLogger("opentelemetry")
    if not reports.handlers and not logging.getLogger().handlers:
        reports.addHandler(_FirstProblem())
        reports.propagate = False
    return provider


class _FirstProblem(logging.Handler):
    """Says on stderr, in one sentence and once, that spans do not arrive."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._silent = False

    def emit(self, record: logging.LogRecord) -> None:
        if self._silent or sys.stderr is None:
            return
        self._silent = True
        problem = shorten(record.getMessage())
        sys.stderr.write(f"ragc: Traces, which RAGC_OTEL asks for, may be incomplete: {problem}.\n")
