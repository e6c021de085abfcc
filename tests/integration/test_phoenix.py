"""Arize Phoenix, an OTLP collector that knows OpenInference, receives a question and shows what it was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.consumers import missing, serving, tool
from tests.paths import ROOT
from tests.support.postgres import free_port

PHOENIX = "phoenix"
LIBRARY = "opentelemetry.exporter"


def _lacking() -> str:
    try:
        there = find_spec(LIBRARY) is not None
    except ModuleNotFoundError:
        there = False
    return "" if there else "OpenTelemetry is not installed (extra otel)"


pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(bool(missing(PHOENIX)), reason=missing(PHOENIX)),
    pytest.mark.skipif(bool(_lacking()), reason=_lacking()),
    pytest.mark.timeout(900),
]

ASK = """
import ragc
from ragc.testing import ScriptedTarget
passage = {"id": "stop", "title": "Iterators", "text": "StopIteration ends an iterator."}
local = ragc.source("bm25", corpus=[passage])
target = ScriptedTarget(lambda request: {"answer": "StopIteration"})
program = ragc.program("vanilla", main=target, local=local)
print(program(question="Which exception ends an iterator?", id="q1").answer)
"""


def spans_in(client: httpx.Client, least: int) -> dict[str, dict[str, Any]]:
    """The spans of the project `default` by name, once there are `least`."""
    end = time.monotonic() + 120
    while True:
        reply = client.get("/v1/projects/default/spans")
        spans = reply.json().get("data", []) if reply.status_code == 200 else []
        if len(spans) >= least:
            return {span["name"]: span for span in spans}
        assert time.monotonic() < end, f"waited 120 s for {least} spans, {len(spans)} arrived"
        time.sleep(0.5)


def test_a_question_is_seen_in_phoenix(tmp_path: Path) -> None:
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    own = {
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(free_port()),
        "PHOENIX_WORKING_DIR": str(tmp_path / "phoenix"),
        "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    sending = {
        **{name: value for name, value in os.environ.items() if not name.startswith("OTEL_")},
        "RAGC_OTEL": "1",
        "RAGC_HOME": str(tmp_path / "home"),
        "OTEL_EXPORTER_OTLP_ENDPOINT": address,
        "PYTHONPATH": str(ROOT / "src"),
    }
    with serving([tool(PHOENIX), "serve"], address, tmp_path / "phoenix.log", own) as client:
        command = [sys.executable, "-c", ASK]
        done = subprocess.run(command, env=sending, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, "StopIteration\n"), done.stderr
        assert "Traces" not in done.stderr
        spans = spans_in(client, 3)
    kinds = {name: span["span_kind"] for name, span in spans.items()}
    assert kinds == {"vanilla": "CHAIN", "search local": "RETRIEVER", "answer": "LLM"}
    question = spans["vanilla"]
    assert question["parent_id"] is None
    assert question["attributes"]["input.value"] == "Which exception ends an iterator?"
    assert question["attributes"]["output.value"] == "StopIteration"
    assert question["attributes"]["metadata.question_id"] == "q1"
    for name in ("search local", "answer"):
        assert spans[name]["parent_id"] == question["context"]["span_id"]
    documents = spans["search local"]["attributes"]
    assert documents["retrieval.documents.0.document.content"] == "StopIteration ends an iterator."
    call = spans["answer"]["attributes"]
    assert call["llm.model_name"] == "scripted"
    assert (
        call["llm.token_count.total"] == call["llm.token_count.prompt"] + call["llm.token_count.completion"]
    )
    assert json.loads(call["output.value"]) == {"answer": "StopIteration"}
