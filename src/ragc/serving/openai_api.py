"""Answers in the shapes of OpenAI's interfaces: chat completions, responses, and the list of models.

Values without a field of OpenAI's are under `ragc`: passages, replay, cost, and on request the trace.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from ragc.programs import trace
from ragc.programs.trace import whole_json
from ragc.records import Passage
from ragc.serving.conversation import Conversation
from ragc.serving.programs import ServedProgram
from ragc.task.answering import Row, was_replayed

_MARK = re.compile(r"\[(\d{1,3})\]")
_WEB = re.compile(r"https?://\S+\Z")


def new_id(prefix: str) -> str:
    """Returns a new id such as `chatcmpl-…`."""
    return f"{prefix}{uuid4().hex}"


def models(programs: Iterable[ServedProgram]) -> dict[str, Any]:
    """Returns the list of models."""
    return {"object": "list", "data": [model(served) for served in programs]}


def model(served: ServedProgram) -> dict[str, Any]:
    """Returns one program as a model."""
    return {"id": served.id, "object": "model", "created": served.created, "owned_by": "ragc"}


def citations(text: str, passages: tuple[Passage, ...]) -> list[dict[str, Any]]:
    """Returns the marks `[n]` in `text` that name one of `passages`, with their positions in characters.

    The address is that of the passage if its id is one, else a URN with the id.
    """
    marks = [
        (mark, passages[number - 1])
        for mark in _MARK.finditer(text)
        if 0 < (number := int(mark[1])) <= len(passages)
    ]
    return [
        {
            "start_index": mark.start(),
            "end_index": mark.end(),
            "title": passage.title,
            "url": _address(passage),
        }
        for mark, passage in marks
    ]


def _address(passage: Passage) -> str:
    parent = passage.parent
    return parent if _WEB.match(parent) else f"urn:ragc:passage:{quote(passage.id, safe='')}"


def own_fields(row: Row, conversation: Conversation, shown: str | None = None) -> dict[str, Any]:
    """Returns the object `ragc` of an answer. `shown` is the text that was streamed; None without a stream.

    With `revised` the streamed text is not the beginning of the answer, and `text` is the answer.
    """
    text = row.prediction or ""
    revised = shown is not None and not text.startswith(shown) and text != shown.rstrip()
    counters = row.counters
    rewritten = row.question.question != conversation.question
    return {
        **({"question": row.question.question} if rewritten and conversation.earlier else {}),
        "passages": [_passage(passage, whole=conversation.trace) for passage in row.passages],
        "replayed": was_replayed(row),
        "calls": counters.get("lm_calls", 0),
        "searches": counters.get("searches", 0),
        "usd": counters.get("usd", 0),
        **({"revised": revised} if shown is not None else {}),
        **({"text": text} if revised else {}),
        **({"trace": [whole_json(event) for event in row.trace]} if conversation.trace else {}),
    }


def _passage(passage: Passage, *, whole: bool) -> dict[str, str]:
    """Returns a passage as it stands beside an answer, with its text where `whole`."""
    return {"id": passage.id, "title": passage.title, **({"text": passage.text} if whole else {})}


def finish_reason(row: Row) -> str:
    """Returns `length` if the last reply was cut at its limit, else `stop`."""
    calls = [event for event in row.trace if isinstance(event, trace.Call)]
    return "length" if calls and calls[-1].truncated else "stop"


def _spent(row: Row) -> tuple[int, int, int]:
    """Returns tokens of all calls: of prompts, of replies, and those of them that were thoughts."""
    names = ("prompt_tokens", "completion_tokens", "thinking_tokens")
    prompt, completion, thinking = (int(row.counters.get(name, 0)) for name in names)
    return prompt, completion, thinking


def chat_usage(row: Row) -> dict[str, Any]:
    """Returns the usage of a chat completion, summed over all calls of the question."""
    prompt, completion, thinking = _spent(row)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "completion_tokens_details": {"reasoning_tokens": thinking},
    }


def response_usage(row: Row) -> dict[str, Any]:
    """Returns the usage of a response, summed over all calls of the question."""
    prompt, completion, thinking = _spent(row)
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": completion,
        "output_tokens_details": {"reasoning_tokens": thinking},
        "total_tokens": prompt + completion,
    }


def chat_annotations(row: Row) -> list[dict[str, Any]]:
    """Returns the citations as a chat completion has them."""
    cited = citations(row.prediction or "", row.passages)
    return [{"type": "url_citation", "url_citation": citation} for citation in cited]


def chat_completion(row: Row, conversation: Conversation) -> dict[str, Any]:
    """Returns a whole chat completion."""
    message = {
        "role": "assistant",
        "content": row.prediction,
        "refusal": None,
        "annotations": chat_annotations(row),
    }
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason(row)}
    return {
        "id": new_id("chatcmpl-"),
        "object": "chat.completion",
        "created": int(time.time()),
        "model": conversation.model,
        "choices": [choice],
        "usage": chat_usage(row),
        "ragc": own_fields(row, conversation),
    }


def output_text(row: Row) -> dict[str, Any]:
    """Returns the one part of a response's message."""
    cited = citations(row.prediction or "", row.passages)
    annotations = [{"type": "url_citation", **citation} for citation in cited]
    return {"type": "output_text", "text": row.prediction, "annotations": annotations, "logprobs": []}


def output_message(id: str, row: Row) -> dict[str, Any]:
    """Returns the one output of a response."""
    status = "completed" if finish_reason(row) == "stop" else "incomplete"
    return {"id": id, "type": "message", "status": status, "role": "assistant", "content": [output_text(row)]}


def response(
    id: str,
    created: int,
    conversation: Conversation,
    row: Row | None = None,
    *,
    message_id: str = "",
    shown: str | None = None,
    error: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Returns a response: in progress without a `row`, failed with an `error`."""
    cut = row is not None and finish_reason(row) == "length"
    status = "failed" if error else "in_progress" if row is None else "incomplete" if cut else "completed"
    return {
        "id": id,
        "object": "response",
        "created_at": created,
        "status": status,
        "error": dict(error) if error else None,
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "instructions": None,
        "metadata": {},
        "model": conversation.model,
        "output": [] if row is None else [output_message(message_id or new_id("msg_"), row)],
        "parallel_tool_calls": False,
        "temperature": None,
        "tool_choice": "none",
        "tools": [],
        "top_p": None,
        "usage": None if row is None else response_usage(row),
        **({} if row is None else {"ragc": own_fields(row, conversation, shown)}),
    }
