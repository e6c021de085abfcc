"""A collector that keeps what is sent to it over OTLP/HTTP, read by OpenTelemetry's own protocol classes."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass
class ReceivedSpan:
    """A span as it arrived; times in nanoseconds."""

    name: str
    id: str
    parent: str
    trace: str
    begun: int
    ended: int
    attributes: dict[str, Any]
    error: str
    events: list[tuple[str, dict[str, Any]]]

    @property
    def kind(self) -> str:
        return str(self.attributes.get("openinference.span.kind", ""))


@dataclass
class Collector:
    """What arrived: the spans in their order, and the attributes of who sent them."""

    address: str
    spans: list[ReceivedSpan] = field(default_factory=list)
    resources: list[dict[str, Any]] = field(default_factory=list)

    def receive(self, body: bytes) -> None:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.resources.append(_values(resource.resource.attributes))
            for scope in resource.scope_spans:
                self.spans += [_span(span) for span in scope.spans]

    def named(self, name: str) -> ReceivedSpan:
        """The one span of that name."""
        (span,) = (span for span in self.spans if span.name == name)
        return span


def _span(span: Any) -> ReceivedSpan:
    return ReceivedSpan(
        span.name,
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.trace_id.hex(),
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        _values(span.attributes),
        span.status.message if span.status.code == 2 else "",
        [(event.name, _values(event.attributes)) for event in span.events],
    )


def _values(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector on a free port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            packed = self.headers.get("Content-Encoding") == "gzip"
            collector.receive(gzip.decompress(body) if packed else body)
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector = Collector(f"http://127.0.0.1:{server.server_port}")
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
