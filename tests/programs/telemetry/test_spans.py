"""A question as spans: what a collector receives, what is hidden, and that nobody notices when it is off."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import ragc
from ragc.corpora.rerank import RerankedSource
from ragc.errors import ParseFailure, UsageError
from ragc.testing import ScriptedTarget
from tests.paths import ROOT
from tests.programs.telemetry.otlp_server import Collector, collecting

pytestmark = pytest.mark.usefixtures("home")

CORPUS = [
    {"id": "stop", "title": "Iterators", "text": "StopIteration ends an iterator."},
    {
        "id": "key",
        "title": "Mappings",
        "text": "KeyError is raised for a key that no iterator of it gives.",
    },
]
QUESTION = "Which exception ends an iterator?"
HIDDEN, LONGEST = "__REDACTED__", 20_000
SECRET = "hidden-by-its-name"


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """A collector that spans are sent to; `sent()` waits for them."""
    pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the extra otel is not installed")
    for name in [name for name in os.environ if name.startswith(("OTEL_", "OPENINFERENCE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("RAGC_OTEL", "1")
    monkeypatch.setenv("SOME_API_KEY", SECRET)
    from ragc.programs.telemetry import tracer

    with collecting() as received:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", received.address)
        tracer.cache_clear()
        yield received
        tracer().span_processor.shutdown()
        tracer.cache_clear()


def flush() -> None:
    from ragc.programs.telemetry import tracer

    tracer().span_processor.force_flush()


class Longest:
    """Ranks long passages first."""

    name = "longest"
    fingerprint = "longest"

    async def scores(self, query: str, passages: Any) -> list[float]:
        return [float(len(passage.text)) for passage in passages]


def ask(reply: Callable[[Any], Any] = lambda request: {"answer": "StopIteration"}, **more: Any) -> Any:
    local = more.pop("local", None) or ragc.source("bm25", corpus=more.pop("corpus", CORPUS))
    question = more.pop("question", QUESTION)
    program = ragc.program("vanilla", main=ScriptedTarget(reply), local=local, **more)
    return program(question=question, id="q1")


def test_a_question_is_a_trace_of_its_searches_and_calls(collector: Collector) -> None:
    prediction = ask()
    flush()
    question, search, call = (collector.named(name) for name in ("vanilla", "search local", "answer"))
    assert [span.kind for span in (question, search, call)] == ["CHAIN", "RETRIEVER", "LLM"]
    assert {span.parent for span in (search, call)} == {question.id}
    assert {span.trace for span in (search, call)} == {question.trace}
    assert question.parent == ""
    assert question.begun <= search.begun <= search.ended <= call.begun <= call.ended <= question.ended
    assert question.attributes["input.value"] == QUESTION
    assert question.attributes["output.value"] == prediction.answer == "StopIteration"
    assert question.attributes["ragc.lm_calls"] == 1
    assert json.loads(question.attributes["metadata"]) == {"method": "vanilla", "question_id": "q1"}
    assert search.attributes["input.value"] == QUESTION
    assert search.attributes["retrieval.documents.0.document.id"] == "stop"
    assert search.attributes["retrieval.documents.0.document.content"] == CORPUS[0]["text"]
    assert search.attributes["retrieval.documents.0.document.score"] > 0
    assert call.attributes["llm.model_name"] == "scripted"
    assert call.attributes["llm.token_count.prompt"] == prediction.counters["prompt_tokens"]
    assert call.attributes["llm.token_count.completion"] == prediction.counters["completion_tokens"]
    assert call.attributes["llm.token_count.total"] == prediction.counters["tokens"]
    assert json.loads(call.attributes["input.value"])["question"] == QUESTION
    assert json.loads(call.attributes["output.value"]) == {"answer": "StopIteration"}
    assert collector.resources[0]["service.name"] == "ragc"


def test_a_reranking_is_a_span(collector: Collector) -> None:
    inner = ragc.source("bm25", corpus=CORPUS)
    ask(local=RerankedSource(inner, Longest()))
    flush()
    reranking = collector.named("rerank longest")
    assert (reranking.kind, reranking.parent) == ("RERANKER", collector.named("vanilla").id)
    assert reranking.attributes["reranker.query"] == QUESTION
    assert reranking.attributes["reranker.model_name"] == "longest"
    assert reranking.attributes["reranker.output_documents.0.document.id"] == "key"
    assert reranking.attributes["reranker.output_documents.0.document.score"] == len(CORPUS[1]["text"])


def test_an_unreadable_reply_is_an_error(collector: Collector) -> None:
    with pytest.raises(ParseFailure):
        ask(lambda request: "{{{{")
    flush()
    question, call = collector.named("vanilla"), collector.named("answer")
    assert question.error.startswith("ParseFailure: ")
    assert (call.kind, call.error[:10]) == ("LLM", "unreadable")
    assert "output.value" not in question.attributes


def test_a_span_of_the_application_is_the_parent(collector: Collector) -> None:
    from opentelemetry import context, trace

    from ragc.programs.telemetry import tracer

    outer = tracer().start_span("request")
    token = context.attach(trace.set_span_in_context(outer))
    ask()
    context.detach(token)
    outer.end()
    flush()
    assert collector.named("vanilla").parent == collector.named("request").id
    assert context.get_current() == {}


@pytest.mark.parametrize("variable", ["INPUTS", "OUTPUTS"])
def test_hidden_texts_stay_here(variable: str, collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"OPENINFERENCE_HIDE_{variable}", "true")
    reply = "GeneratorExit"
    ask(lambda request: {"answer": reply})
    with pytest.raises(ParseFailure):
        ask(lambda request: reply + " {{{{", question=f"{QUESTION} Really?")
    flush()
    sent = json.dumps([vars(span) for span in collector.spans])
    assert HIDDEN in sent
    hidden, shown = (QUESTION, reply) if variable == "INPUTS" else (reply, QUESTION)
    assert hidden not in sent
    assert shown in sent
    assert "llm.token_count.prompt" in sent


def test_secrets_and_long_texts_are_not_sent(collector: Collector) -> None:
    corpus = [{"id": "long", "title": SECRET, "text": f"An iterator {SECRET} \x1b[2J " + "word " * 20_000}]
    ask(lambda request: {"answer": f"key {SECRET}"}, corpus=corpus)
    flush()
    assert len(collector.spans) == 3
    sent = json.dumps([vars(span) for span in collector.spans])
    assert SECRET not in sent
    longest = max(len(str(value)) for span in collector.spans for value in span.attributes.values())
    assert longest <= LONGEST + 1


def test_without_the_library_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGC_OTEL", "1")
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    monkeypatch.delitem(sys.modules, "ragc.programs.telemetry", raising=False)
    with pytest.raises(UsageError, match=r"pip install 'ragc\[otel\]'"):
        ask()


def test_nothing_is_imported_where_nobody_asks_for_spans() -> None:
    code = (
        "import sys, ragc; from ragc.testing import ScriptedTarget\n"
        "local = ragc.source('bm25', corpus=['StopIteration ends an iterator.'])\n"
        "target = ScriptedTarget(lambda request: {'answer': 'a'})\n"
        "print(ragc.program('vanilla', main=target, local=local)(question='Why?').answer)\n"
        "print([name for name in sys.modules if name.startswith(('ragc.programs.tele', 'opentelemetry'))])"
    )
    environment = {name: value for name, value in os.environ.items() if name != "RAGC_OTEL"}
    environment["PYTHONPATH"] = str(ROOT / "src")
    command = [sys.executable, "-c", code]
    out = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    assert out.split("\n")[:2] == ["a", "[]"]


@pytest.mark.parametrize(
    ("variable", "hidden"),
    [
        ("INPUT_MESSAGES", "input"), ("INPUT_TEXT", "input"), ("OUTPUT_MESSAGES", "output"),
        ("OUTPUT_TEXT", "output"), ("", ""),
    ],
)  # fmt: skip
def test_messages_are_sent_and_can_be_hidden_alone(
    variable: str, hidden: str, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"OPENINFERENCE_HIDE_{variable}", "True")
    ask()
    flush()
    call = collector.named("answer").attributes
    prompt, reply = (
        call[f"llm.{side}_messages.{n}.message.content"] for side, n in (("input", 1), ("output", 0))
    )
    assert (prompt == HIDDEN) == (hidden == "input")
    assert (reply == HIDDEN) == (hidden == "output")
    assert call["llm.input_messages.0.message.role"] == "system"
    assert HIDDEN not in (call["input.value"], call["output.value"])


def test_a_collector_that_is_away_is_reported_and_ends_nothing() -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the extra otel is not installed")
    code = "from ragc.programs.telemetry import tracer\ntracer().start_span('a').end()"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    environment |= {"PYTHONPATH": str(ROOT / "src"), "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, timeout=60)
    assert "Failed to export" in ended.stderr
