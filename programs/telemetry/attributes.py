"""The attributes of spans, by the names of OpenInference's semantic conventions.

The important attributes come last, since a provider with a limit drops the first of too many.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ragc.core.redact import redact
from ragc.core.text import escape_surrogates
from ragc.programs.trace import Call, Event, Note, Search, UnreadableReply
from ragc.records import Passage

LONGEST = 20_000
"""Maximum length in characters of a text in a span."""

MOST = 100
"""Maximum number of documents or messages listed in a span."""

HIDDEN = "__REDACTED__"
"""What OpenInference puts in the place of a hidden value."""

Attributes = dict[str, str | int | float | bool]

_SIDES = {
    "input.": ("inputs",),
    "reranker.query": ("inputs",),
    "reranker.input_documents": ("inputs",),
    "output.": ("outputs",),
    "retrieval.documents": ("outputs",),
    "reranker.output_documents": ("outputs",),
    "llm.input_messages": ("inputs", "input_messages"),
    "llm.output_messages": ("outputs", "output_messages"),
}
"""What hides attributes that begin so."""


@dataclass(frozen=True, slots=True)
class Hiding:
    """The parts left out of spans, by OpenInference's variables."""

    inputs: bool = False
    outputs: bool = False
    input_messages: bool = False
    output_messages: bool = False
    input_text: bool = False
    output_text: bool = False

    @classmethod
    def of_environment(cls) -> Hiding:
        """Reads the present values of the variables OPENINFERENCE_HIDE_...."""
        values = {name: os.environ.get(f"OPENINFERENCE_HIDE_{name.upper()}", "") for name in cls.__slots__}
        return cls(**{name: value.strip().lower() in ("true", "1") for name, value in values.items()})

    def without(self, attributes: Attributes) -> Attributes:
        """Returns `attributes` without hidden parts: values are replaced, messages and documents left out."""
        shown: Attributes = {}
        for name, value in attributes.items():
            hiding = next((by for begins, by in _SIDES.items() if name.startswith(begins)), ())
            if not any(getattr(self, switch) for switch in hiding):
                text = name.endswith(".message.content") and self._hides_text(name)
                shown[name] = HIDDEN if text else value
            elif name in ("input.value", "output.value", "reranker.query"):
                shown[name] = HIDDEN
            elif name.endswith((".document.id", ".document.score")):
                shown[name] = value
        return shown

    def _hides_text(self, name: str) -> bool:
        return self.input_text if name.startswith("llm.input") else self.output_text


@dataclass(frozen=True, slots=True)
class Span:
    """One span below a question; times in nanoseconds since 1970, `error` says why it failed."""

    name: str
    begun: int
    ended: int
    attributes: Attributes
    error: str = ""


def span_of(event: Event, model_of: Callable[[str], str], begun: int, ended: int) -> Span | None:
    """Returns the span of a typed call or a search; None for a note or a gate."""
    if isinstance(event, Call):
        return Span(event.name, begun, ended, clean(_call(event, model_of)))
    if isinstance(event, UnreadableReply):
        return Span(event.about, begun, ended, clean(_unreadable(event, model_of)), event.outcome)
    if isinstance(event, Search):
        return Span(f"search {event.source}", begun, ended, clean(_search(event)))
    if isinstance(event, Note) and is_failed_search(event):
        attributes: Attributes = {"openinference.span.kind": "RETRIEVER"}
        return Span(event.about, begun, ended, attributes, event.outcome)
    return None


def is_failed_search(event: Note) -> bool:
    """Returns whether the note is about a search that failed."""
    return event.about.startswith("search ") and event.outcome.startswith("failed")


def _call(event: Call, model_of: Callable[[str], str]) -> Attributes:
    return {
        **messages_of(event),
        "ragc.repaired": event.repaired,
        "ragc.truncated": event.truncated,
        "input.value": _json(event.inputs),
        "input.mime_type": "application/json",
        "output.value": _json(event.outputs),
        "output.mime_type": "application/json",
        **_model(event.role, event.prompt_tokens, event.completion_tokens, model_of),
    }


def _unreadable(event: UnreadableReply, model_of: Callable[[str], str]) -> Attributes:
    return {
        **messages_of(event),
        **_model(event.role, event.prompt_tokens, event.completion_tokens, model_of),
    }


def _model(role: str, prompt: int, completion: int, model_of: Callable[[str], str]) -> Attributes:
    return {
        "ragc.role": role,
        "llm.model_name": model_of(role),
        "llm.token_count.prompt": prompt,
        "llm.token_count.completion": completion,
        "llm.token_count.total": prompt + completion,
        "openinference.span.kind": "LLM",
    }


def messages_of(event: Call | UnreadableReply) -> Attributes:
    """Returns the prompt as it was sent and the replies, if the trace has them."""
    if (sent := getattr(event, "sent", None)) is None:
        return {}
    sides = {"input": sent.messages, "output": [("assistant", text) for text in sent.replies]}
    return {
        f"llm.{side}_messages.{n}.message.{name}": value
        for side, messages in sides.items()
        for n, (role, content) in enumerate(tuple(messages)[:MOST])
        for name, value in (("role", role), ("content", content))
    }


def _search(event: Search) -> Attributes:
    documents = [(hit.passage, hit.score) for hit in event.hits]
    return {
        **_documents("retrieval.documents", documents),
        "ragc.source": event.source,
        "ragc.k": event.k,
        "input.value": event.query,
        "input.mime_type": "text/plain",
        "openinference.span.kind": "RETRIEVER",
    }


def reranker(model: str, query: str, passages: Sequence[Any], scores: Sequence[float]) -> Attributes:
    """Returns the attributes of a reranking: `passages` as they came, and in the order of their `scores`."""
    ranked = sorted(zip(passages, map(float, scores), strict=False), key=lambda pair: -pair[1])
    return clean(
        {
            **_documents("reranker.input_documents", [(passage, None) for passage in passages]),
            **_documents("reranker.output_documents", ranked),
            "reranker.query": query,
            "reranker.model_name": model,
            "reranker.top_k": len(passages),
            "openinference.span.kind": "RERANKER",
        }
    )


def _documents(prefix: str, documents: Sequence[tuple[Passage, float | None]]) -> Attributes:
    attributes: Attributes = {}
    for n, (passage, score) in enumerate(documents[:MOST]):
        at = f"{prefix}.{n}.document"
        attributes |= {f"{at}.id": passage.id, f"{at}.content": passage.text}
        if passage.title:
            attributes[f"{at}.metadata"] = _json({"title": passage.title})
        if score is not None:
            attributes[f"{at}.score"] = float(score)
    return attributes


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def clean(attributes: Attributes) -> Attributes:
    """Returns `attributes` with texts that are cut, hold no secrets, and can be encoded."""
    return {name: _text(value) if isinstance(value, str) else value for name, value in attributes.items()}


def _text(text: str) -> str:
    cut = text if len(text) <= LONGEST else text[:LONGEST].rpartition(" ")[0] + "…"
    return escape_surrogates(redact(cut))
