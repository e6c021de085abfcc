"""A question, its typed calls, searches and rerankings as spans of OpenTelemetry, named as in OpenInference.

    CHAIN       the question
      LLM         a typed call
      RETRIEVER   a search
      RERANKER    a reranking

Notes and gates are events of the question. The environment alone switches this on, RAGC_OTEL: a recipe or a
compiled program cannot. Spans go where OpenTelemetry's variables say (OTEL_EXPORTER_OTLP_ENDPOINT, by default
http://localhost:4318), or to the application's own provider.

Texts are part of spans; the variables OPENINFERENCE_HIDE_INPUTS, OPENINFERENCE_HIDE_OUTPUTS and their kin
leave them out. Secrets are masked, long texts cut. What goes wrong here never reaches the question.

Differs: hidden outputs hide the texts of documents too, and the description of an error, which may quote a
reply. Notes and gates, which quote both, are left out when either is hidden.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from ragc.core.redact import redact, shorten
from ragc.core.text import escape_surrogates
from ragc.corpora.rerank import watcher
from ragc.errors import UsageError
from ragc.programs.trace import Call, Event, Note, Run, Search, Sent, ThresholdCheck, UnreadableReply

try:
    from opentelemetry import context, trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import SpanLimits, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
except ImportError as error:
    raise UsageError(
        f"RAGC_OTEL asks for traces, which need OpenTelemetry ({error}); run: pip install 'ragc[otel]', "
        "or take RAGC_OTEL out of the environment."
    ) from None

LONGEST = 20_000  # characters of a text in a span
HIDDEN = "__REDACTED__"  # OpenInference's

# The attributes with texts, and what hides them.
_HIDING = {
    r"input\.value|reranker\.query|reranker\.input_documents\..*\.(content|metadata)": ("INPUTS",),
    r"output\.value|(retrieval\.|reranker\.output_)documents\..*\.(content|metadata)": ("OUTPUTS",),
    r"llm\.input_messages\..*\.content": ("INPUTS", "INPUT_MESSAGES", "INPUT_TEXT"),
    r"llm\.output_messages\..*\.content": ("OUTPUTS", "OUTPUT_MESSAGES", "OUTPUT_TEXT"),
}


@cache
def tracer() -> Any:
    """Returns the tracer of the application's provider, else of one that sends spans in the background, and
    the last ones when Python ends.

    A collector that is away holds up that end by a second (OpenTelemetry's usual limit is 10 s), and
    OpenTelemetry reports it. Many passages need more attributes than its usual 128.
    """
    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return trace.get_tracer("ragc")
    provider = TracerProvider(
        resource=Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", "ragc")}),
        span_limits=SpanLimits(
            max_span_attributes=int(os.environ.get("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "4096"))
        ),
    )
    seconds = float(os.environ.get("OTEL_EXPORTER_OTLP_TIMEOUT", "2"))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(timeout=seconds)))
    return provider.get_tracer("ragc")


def _hides(*names: str) -> bool:
    return any(os.environ.get(f"OPENINFERENCE_HIDE_{name}", "").lower() in ("true", "1") for name in names)


def shown(name: str, value: Any) -> Any:
    """Returns the value of an attribute, cut and without secrets, or `HIDDEN` where OPENINFERENCE_HIDE_...
    says so.
    """
    if any(_hides(*switches) and re.fullmatch(texts, name) for texts, switches in _HIDING.items()):
        return HIDDEN
    if isinstance(value, str) and len(value) > LONGEST:
        value = value[:LONGEST].rpartition(" ")[0] + "…"
    return escape_surrogates(redact(value)) if isinstance(value, str) else value


def span_of(event: Event, model_of: Callable[[str], str]) -> tuple[str, dict[str, Any], str] | None:
    """Returns name, attributes and error of the span of a call or a search; None for a note or a gate.

    The important attributes come last, since a provider with a limit drops the first of too many.
    """
    if isinstance(event, Search):
        attributes = {
            **_documents("retrieval.documents", [(hit.passage, hit.score) for hit in event.hits]),
            "ragc.source": event.source,
            "ragc.k": event.k,
            **_value("input", event.query),
            "openinference.span.kind": "RETRIEVER",
        }
        return f"search {event.source}", attributes, ""
    if isinstance(event, Call | UnreadableReply):
        sent = event.sent or Sent(None)
        call = {
            **_messages("input", sent.messages),
            **_messages("output", [("assistant", text) for text in sent.replies]),
            "ragc.role": event.role,
            "llm.model_name": model_of(event.role),
            "llm.token_count.prompt": event.prompt_tokens,
            "llm.token_count.completion": event.completion_tokens,
            "llm.token_count.total": event.prompt_tokens + event.completion_tokens,
            "openinference.span.kind": "LLM",
        }
        if isinstance(event, UnreadableReply):
            return event.about, call, event.outcome
        call |= {"ragc.repaired": event.repaired, "ragc.truncated": event.truncated}
        return event.name, {**_value("input", event.inputs), **_value("output", event.outputs), **call}, ""
    if isinstance(event, Note) and re.match("search .*\nfailed", f"{event.about}\n{event.outcome}"):
        return event.about, {"openinference.span.kind": "RETRIEVER"}, event.outcome
    return None


def _value(side: str, value: Any) -> dict[str, str]:
    kind = "text/plain" if isinstance(value, str) else "application/json"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return {f"{side}.value": text, f"{side}.mime_type": kind}


def _messages(side: str, messages: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {
        f"llm.{side}_messages.{n}.message.{name}": value
        for n, message in enumerate([*messages][:100])
        for name, value in zip(("role", "content"), message, strict=True)
    }


def _documents(prefix: str, documents: Iterable[tuple[Any, float | None]]) -> dict[str, Any]:
    return {
        f"{prefix}.{n}.document.{name}": value
        for n, (passage, score) in enumerate([*documents][:100])
        for name, value in (
            ("id", passage.id),
            ("content", passage.text),
            ("metadata", json.dumps({"title": passage.title}, ensure_ascii=False)),
            ("score", score),
        )
        if value is not None
    }


class SpanRun(Run):
    """Sends a question's events as spans, with their times, and the question when it ends.

    `method` names the program, and `model_of` returns the model of a role.
    """

    def __init__(self, method: str, inputs: Mapping[str, Any], model_of: Callable[[str], str]) -> None:
        super().__init__()
        self._model_of = model_of
        self._about = {
            "metadata": json.dumps({"method": method, "question_id": str(inputs.get("id", ""))}),
            **_value("input", str(inputs.get("question", ""))),
        }
        self._begun: dict[tuple[int, ...], int] = {}
        self._root = tracer().start_span(method)
        self._inside = trace.set_span_in_context(self._root)
        self._tokens = watcher.set(self.reranked), context.attach(self._inside)

    def begin(self, path: tuple[int, ...]) -> None:
        """Notes when the call or search at `path` begins."""
        self._begun[path] = time.time_ns()

    def add(self, path: tuple[int, ...], event: Event, prediction: Any = None) -> None:
        """Adds the event as the base class does, and sends it."""
        super().add(path, event, prediction)
        with suppress(Exception):
            if (span := span_of(event, self._model_of)) is not None:
                _end(tracer().start_span(span[0], self._inside, start_time=self._begun.get(path)), *span[1:])
            elif not _hides("INPUTS", "OUTPUTS"):
                fields = {name: shown(name, value) for name, value in event.to_json().items() if name != "at"}
                self._root.add_event("gate" if isinstance(event, ThresholdCheck) else "note", fields)

    def reranked(
        self, model: str, query: str, passages: Sequence[Any], scores: Sequence[float], begun: int
    ) -> None:
        """Sends a reranking, see `ragc.corpora.rerank.watcher`."""
        ranked = sorted(zip(passages, map(float, scores), strict=False), key=lambda pair: -pair[1])
        span = tracer().start_span(f"rerank {model}", self._inside, start_time=begun)
        _end(
            span,
            {
                **_documents("reranker.input_documents", ((passage, None) for passage in passages)),
                **_documents("reranker.output_documents", ranked),
                "reranker.query": query,
                "reranker.model_name": model,
                "reranker.top_k": len(passages),
                "openinference.span.kind": "RERANKER",
            },
        )

    def finish(self, prediction: Any) -> None:
        """Sends the question with its answer."""
        counters = {f"ragc.{name}": n for name, n in prediction.get("counters", {}).items()}
        self._leave({**counters, **_value("output", str(prediction.answer))})

    def fail(self, error: BaseException) -> None:
        """Sends the question with the error that ended it."""
        self._leave({}, f"{type(error).__name__}: {error}".removesuffix(": "))

    def _leave(self, attributes: dict[str, Any], error: str = "") -> None:
        watcher.reset(self._tokens[0])
        context.detach(self._tokens[1])
        _end(self._root, {**self._about, **attributes, "openinference.span.kind": "CHAIN"}, error)


def _end(span: Any, attributes: Mapping[str, Any], error: str = "") -> None:
    """Ends `span` with its attributes, and with the status of an error; what goes wrong is passed over."""
    with suppress(Exception):
        span.set_attributes({name: shown(name, value) for name, value in attributes.items()})
        if error:
            is_hidden = _hides("INPUTS", "OUTPUTS")
            span.set_status(trace.StatusCode.ERROR, HIDDEN if is_hidden else shorten(error))
        span.end()
