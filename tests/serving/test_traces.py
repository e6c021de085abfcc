"""The spans of a question join the trace that a client names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from ragc.testing import ScriptedTarget
from tests.programs.telemetry.otlp_server import Collector, collecting
from tests.serving.server import running

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the extra otel is not installed")
    monkeypatch.setenv("RAGC_OTEL", "1")
    from ragc.programs.telemetry import tracer

    with collecting() as received:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", received.address)
        tracer.cache_clear()
        yield received
        tracer().span_processor.shutdown()
        tracer.cache_clear()


def test_traceparent_is_taken_up(colours: Path, collector: Collector) -> None:
    target = ScriptedTarget(lambda request: {"answer": "red"})
    with running([colours], {"main": target}) as served:
        for stream in (False, True):
            question = f"What colour is thing number{7 + stream}?"
            body = {"model": "colours", "stream": stream, "messages": [{"role": "user", "content": question}]}
            headers = {"traceparent": f"00-{TRACE}-{SPAN}-01"}
            httpx.post(f"{served.v1}/chat/completions", json=body, headers=headers).raise_for_status()
    from ragc.programs.telemetry import tracer

    tracer().span_processor.force_flush()
    roots = [span for span in collector.spans if span.kind == "CHAIN"]
    assert [(span.trace, span.parent) for span in roots] == [(TRACE, SPAN)] * 2
    assert {span.trace for span in collector.spans} == {TRACE}
    assert {span.kind for span in collector.spans} == {"CHAIN", "RETRIEVER", "LLM"}
