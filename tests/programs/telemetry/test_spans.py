"""A question as spans: what a collector receives, what is hidden, and that nobody notices when it is off."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import ragc
from ragc.corpora.rerank.base import RerankedSource
from ragc.errors import ParseFailure, RecipeError, UsageError
from ragc.programs.telemetry import provider
from ragc.programs.telemetry.attributes import HIDDEN, LONGEST, Hiding, messages_of, span_of
from ragc.programs.trace import Call, Note, Search, ThresholdCheck, UnreadableReply
from ragc.records import Hit, Passage
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
    with collecting() as received:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", received.address)
        provider.tracer.cache_clear()
        yield received
        provider.tracer().span_processor.shutdown()
        provider.tracer.cache_clear()


def flush() -> None:
    provider.tracer().span_processor.force_flush()


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
    assert question.events[-1][0] == "exception"


def test_a_span_of_the_application_is_the_parent(collector: Collector) -> None:
    from opentelemetry import context, trace

    outer = provider.tracer().start_span("request")
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


def test_off_is_off(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    flush()
    for value in ("", "0"):
        monkeypatch.setenv("RAGC_OTEL", value)
        ask()
    flush()
    assert collector.spans == []


def test_without_the_library_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGC_OTEL", "1")
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    provider.tracer.cache_clear()
    with pytest.raises(UsageError, match=r"pip install 'ragc\[otel\]'"):
        ask()
    provider.tracer.cache_clear()


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


def test_no_recipe_can_switch_it_on(tmp_path: Path) -> None:
    from ragc import recipe

    with pytest.raises(RecipeError, match="telemetry"):
        recipe.parse('program = "vanilla"\n[telemetry]\notlp = "http://192.0.2.1"\n', where="r", files=False)


# Attributes, without the library


def test_a_prompt_that_the_trace_holds_is_sent_as_messages() -> None:
    sent = SimpleNamespace(messages=(("system", "Answer."), ("user", "Why?")), replies=("{", "a"))
    event: Any = SimpleNamespace(sent=sent)
    assert messages_of(event) == {
        "llm.input_messages.0.message.role": "system",
        "llm.input_messages.0.message.content": "Answer.",
        "llm.input_messages.1.message.role": "user",
        "llm.input_messages.1.message.content": "Why?",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": "{",
        "llm.output_messages.1.message.role": "assistant",
        "llm.output_messages.1.message.content": "a",
    }
    assert messages_of(Call("answer", "main", {}, {})) == {}


def test_messages_can_be_hidden_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    attributes: dict[str, Any] = {
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "in",
        "llm.output_messages.0.message.content": "out",
        "input.value": "in",
        "reranker.input_documents.0.document.id": "p",
        "reranker.input_documents.0.document.content": "in",
        "llm.model_name": "m",
    }
    assert Hiding().without(attributes) == attributes
    monkeypatch.setenv("OPENINFERENCE_HIDE_INPUT_TEXT", "True")
    monkeypatch.setenv("OPENINFERENCE_HIDE_OUTPUT_MESSAGES", "1")
    shown = Hiding.of_environment().without(attributes)
    assert shown["llm.input_messages.0.message.content"] == HIDDEN
    assert shown["llm.input_messages.0.message.role"] == "user"
    assert "llm.output_messages.0.message.content" not in shown
    hidden = Hiding(inputs=True).without(attributes)
    assert "in" not in hidden.values()
    assert hidden["reranker.input_documents.0.document.id"] == "p"


# A collector that is away


class Exporter:
    """Reports its own end as OpenTelemetry's does, and counts it."""

    def __init__(self) -> None:
        self.ended = 0
        self.problems: provider.SdkWarnings | None = None

    def shutdown(self) -> None:
        self.ended += 1
        assert self.problems is not None
        self.problems.emit(warning("already shut down"))


def warning(text: str) -> logging.LogRecord:
    return logging.LogRecord("opentelemetry", logging.WARNING, "", 0, text, None, None)


@pytest.mark.parametrize("speaks", [True, False])
def test_a_collector_that_is_away_is_one_sentence_and_holds_up_no_end(
    speaks: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    exporter = Exporter()
    exporter.problems = problems = provider.SdkWarnings(exporter, speaks=speaks)
    for _ in range(3):
        problems.emit(warning("refused \x1b[2J by http://me:secret@host/"))
    assert exporter.ended == 0
    problems.end()
    problems.emit(warning("refused again"))
    assert exporter.ended == 1
    err = capsys.readouterr().err
    assert err.count("\n") == err.count("Traces, which RAGC_OTEL asks for") == speaks
    assert "\x1b" not in err
    assert "secret" not in err


def test_the_events_of_a_trace_say_what_they_are() -> None:
    hit = Hit(Passage("p#1", "", "text"), 0.5)
    events = (
        Call("answer", "main", {"question": "q"}, {"answer": "a"}, repaired=True),
        UnreadableReply("answer", "unreadable: no", role="proxy", prompt_tokens=3, completion_tokens=2),
        Search("local", "q", 3, (hit,)),
        Note("search web", "failed: no answer"),
    )
    spans = [span_of(event, lambda role: f"model of {role}", 1, 2) for event in events]
    kinds = [span.attributes["openinference.span.kind"] for span in spans if span]
    assert kinds == ["LLM", "LLM", "RETRIEVER", "RETRIEVER"]
    assert [bool(span and span.error) for span in spans] == [False, True, False, True]
    assert spans[1] is not None
    assert spans[1].attributes["llm.model_name"] == "model of proxy"
    assert spans[1].attributes["llm.token_count.total"] == 5
    assert [span_of(event, str, 1, 2) for event in (Note("a", "b"), ThresholdCheck("tau", 0.5, True))] == [
        None,
        None,
    ]
