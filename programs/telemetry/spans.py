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
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ragc.core.redact import shorten
from ragc.corpora.rerank.base import watcher
from ragc.programs import trace
from ragc.programs.telemetry.attributes import (
    HIDDEN,
    Attributes,
    Hiding,
    Span,
    clean,
    is_failed_search,
    reranker,
    span_of,
)
from ragc.programs.telemetry.provider import tracer
from ragc.programs.trace import Event, Note, ThresholdCheck

Place = tuple[int, ...]

log = logging.getLogger("ragc.telemetry")


class SpanRun(trace.Run):
    """Collects a question's events with their times, and sends them as spans when it ends.

    `method` names the program, and `model_of` returns the model of a role. Raises UsageError when
    OpenTelemetry is not installed.
    """

    def __init__(self, method: str, inputs: Mapping[str, Any], model_of: Callable[[str], str]) -> None:
        super().__init__()
        self._tracer = tracer()
        self._method, self._inputs, self._model_of = method, inputs, model_of
        self._begun: dict[Place, int] = {}
        self._ended: dict[Place, int] = {}
        self._reranked: list[Span] = []
        self._root = self._tracer.start_span(method)
        self._tokens = watcher.set(self.reranked), _attach_span(self._root)

    def branch(self, path: Place = ()) -> trace.Branch:
        """Returns a position in the call graph that notes when its children begin."""
        return _TimedBranch(self, path, self._begun)

    def add(self, path: Place, event: Event, prediction: Any = None) -> None:
        """Adds the event as the base class does, and notes the time."""
        self._ended[path] = time.time_ns()
        super().add(path, event, prediction)

    def reranked(
        self, model: str, query: str, passages: Sequence[Any], scores: Sequence[float], begun: int
    ) -> None:
        """Records a reranking as a span, see `ragc.corpora.rerank.base.watcher`."""
        with _LoggedErrors():
            attributes = reranker(model, query, passages, scores)
            self._reranked.append(Span(f"rerank {model}", begun, time.time_ns(), attributes))

    def finish(self, prediction: Any) -> None:
        """Sends the question with its answer."""
        with _LoggedErrors():
            self._leave()
            output = {"output.value": str(prediction.answer), "output.mime_type": "text/plain"}
            self._send(output, prediction.get("counters") or {})

    def fail(self, error: BaseException) -> None:
        """Sends the question with the error that ended it."""
        with _LoggedErrors():
            self._leave()
            kind = type(error).__name__
            self._send({}, {}, f"{kind}: {error}" if str(error) else kind)

    def _leave(self) -> None:
        watching, context = self._tokens
        watcher.reset(watching)
        _leave(context)

    def _send(self, output: Mapping[str, Any], counters: Mapping[str, Any], error: str = "") -> None:
        hiding = Hiding.of_environment()
        for span in sorted([*self._spans(), *self._reranked], key=lambda span: span.begun):
            part = self._tracer.start_span(span.name, _child_context(self._root), start_time=span.begun)
            _fill(part, span.attributes, span.error, hiding)
            part.end(span.ended)
        if not hiding.inputs and not hiding.outputs:
            for name, at, attributes in self._notes():
                self._root.add_event(name, attributes, at)
        about = {"method": self._method, "question_id": str(self._inputs.get("id", ""))}
        attributes = clean(
            {
                **{f"ragc.{name}": n for name, n in counters.items() if isinstance(n, int | float)},
                "metadata": json.dumps(about),
                "input.value": str(self._inputs.get("question", "")),
                "input.mime_type": "text/plain",
                **output,
                "openinference.span.kind": "CHAIN",
            }
        )
        _fill(self._root, attributes, error, hiding)
        self._root.end()

    def _spans(self) -> Iterator[Span]:
        for event in self.events:
            ended = self._ended[event.at]
            if span := span_of(event, self._model_of, self._begun.get(event.at, ended), ended):
                yield span

    def _notes(self) -> Iterator[tuple[str, int, Attributes]]:
        for event in self.events:
            if isinstance(event, ThresholdCheck):
                compared: Attributes = {"knob": event.knob, "score": event.score, "passed": event.passed}
                yield "gate", self._ended[event.at], compared
            elif type(event) is Note and not is_failed_search(event):
                note: Attributes = {"about": event.about, "outcome": event.outcome}
                yield "note", self._ended[event.at], clean(note)


class _TimedBranch(trace.Branch):
    __slots__ = ("_begun",)

    def __init__(self, run: trace.Run, path: Place, begun: dict[Place, int]) -> None:
        super().__init__(run, path)
        self._begun = begun

    def child(self) -> Place:
        path = super().child()
        self._begun[path] = time.time_ns()
        return path


def _attach_span(span: Any) -> Any:
    """Makes `span` the present one of this context."""
    from opentelemetry import context

    return context.attach(_child_context(span))


def _leave(token: Any) -> None:
    from opentelemetry import context

    context.detach(token)


def _child_context(span: Any) -> Any:
    """Returns the context of everything inside `span`."""
    from opentelemetry import trace as api

    return api.set_span_in_context(span)


def _fill(span: Any, attributes: Attributes, error: str, hiding: Hiding) -> None:
    """Sets the attributes of `span`, and the status of an error."""
    from opentelemetry.trace import Status, StatusCode

    span.set_attributes(hiding.without(attributes))
    if error:
        text = HIDDEN if hiding.inputs or hiding.outputs else shorten(error)
        span.add_event("exception", {"exception.message": text})
        span.set_status(Status(StatusCode.ERROR, text))


class _LoggedErrors:
    """Keeps errors of telemetry from the question, and logs them."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, frames: Any) -> bool:
        if not isinstance(error, Exception):
            return False
        log.debug("a span was lost", exc_info=error)
        return True
