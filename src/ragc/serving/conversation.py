"""Converts the body of a request to a question, or a refusal in OpenAI's shape.

A compiled program answers one question with prompts of its own. Parameters that would change these prompts
are refused if the client would rely on them (tools, formats), and else have no effect, which the response
says.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ragc.records import Turn
from ragc.serving.errors import ApiError, invalid, refused
from ragc.serving.settings import Settings

Interface = Literal["chat", "responses"]


NO_EFFECT = (
    "temperature",
    "top_p",
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "seed",
    "stop",
    "frequency_penalty",
    "presence_penalty",
    "logit_bias",
    "reasoning",
    "reasoning_effort",
    "verbosity",
    "instructions",
)
"""Parameters that are accepted and change nothing."""

UNSUPPORTED = (
    "tools",
    "functions",
    "function_call",
    "logprobs",
    "top_logprobs",
    "previous_response_id",
    "conversation",
    "background",
    "audio",
    "prediction",
    "prompt",
    "web_search_options",
)
"""Parameters that are refused where they are set."""

TEXT_PARTS = ("text", "input_text", "output_text", "refusal")
SPOKEN = ("user", "assistant")
ROLES = ("system", "developer", *SPOKEN)


@dataclass(frozen=True, slots=True)
class Conversation:
    """A client's request.

    `without_effect` names the parameters that change nothing. `trace` and `steps` ask for the trace at the
    end and for events while the program works; `late` for text only once it is final.
    """

    model: str
    question: str
    stream: bool = False
    with_usage: bool = False
    without_effect: tuple[str, ...] = ()
    trace: bool = False
    steps: bool = False
    late: bool = False
    earlier: tuple[Turn, ...] = ()


def read_conversation(body: bytes, interface: Interface, settings: Settings) -> Conversation:
    """Reads the `body` of a request. Raises ApiError for invalid or unsupported parameters."""
    held = _object(body)
    _check_supported(held)
    model = held.get("model")
    if not isinstance(model, str) or not model:
        raise invalid("model", "model is missing; GET /v1/models lists the programs of this server.")
    name = "messages" if interface == "chat" else "input"
    turns = _turns(held.get(name), name)
    without_effect = [key for key in NO_EFFECT if held.get(key) is not None]
    question = _question(turns, name, settings)
    earlier = [turn for turn in turns if turn[0] in SPOKEN][:-1] if settings.history != "last" else []
    if any(role in ("system", "developer") for role, _ in turns):
        without_effect.append("system message")
    stream = _switch(held, "stream")
    options = held.get("stream_options") or {}
    if not isinstance(options, dict):
        raise invalid("stream_options", "stream_options must be an object.")
    own = held.get("ragc") or {}
    if not isinstance(own, dict):
        raise invalid("ragc", "ragc must be an object.")
    if unknown := own.keys() - {"trace", "steps", "stream"}:
        known = "it takes trace, steps (true or false) and stream (real or late)"
        raise invalid("ragc", f"ragc has no {min(unknown)!r}; {known}.")
    if own.get("stream", "real") not in ("real", "late"):
        raise invalid("ragc.stream", f"ragc.stream must be real or late, found {own['stream']!r}.")
    return Conversation(
        model,
        question,
        stream,
        bool(options.get("include_usage")),
        tuple(without_effect),
        _switch(own, "trace", "ragc."),
        _switch(own, "steps", "ragc."),
        own.get("stream", settings.stream) == "late",
        tuple(earlier),
    )


def _object(body: bytes) -> dict[str, Any]:
    try:
        held = json.loads(body)
    except (ValueError, RecursionError) as error:
        what = "is nested too deeply" if isinstance(error, RecursionError) else f"is not JSON ({error})"
        raise ApiError(400, f"The body {what}.", code="invalid_json") from None
    if not isinstance(held, dict):
        raise ApiError(400, "The body must be a JSON object.", code="invalid_json")
    return held


def _switch(held: Mapping[str, Any], name: str, prefix: str = "") -> bool:
    value = held.get(name)
    if value is not None and not isinstance(value, bool):
        raise invalid(prefix + name, f"{prefix}{name} must be true or false, found {value!r:.40}.")
    return bool(value)


def _check_supported(held: Mapping[str, Any]) -> None:
    for name in UNSUPPORTED:
        if held.get(name):
            raise refused(
                name, f"{name} is not supported: a compiled program answers with prompts of its own."
            )
    if held.get("n") not in (None, 1):
        raise refused("n", "n must be 1: a compiled program gives one answer.")
    formats = {"response_format": held.get("response_format")}
    if isinstance(held.get("text"), dict):
        formats["text.format"] = held["text"].get("format")
    for name, value in formats.items():
        if value is not None and not (isinstance(value, dict) and value.get("type") == "text"):
            raise refused(name, f"{name} is not supported; the format of answers was chosen at the compile.")
    if (modalities := held.get("modalities")) is not None and modalities != ["text"]:
        raise refused("modalities", "modalities must be ['text']: answers are texts.")


def _turns(value: Any, name: str) -> list[Turn]:
    """Returns the role and text of each message."""
    if isinstance(value, str) and name == "input":
        return [("user", value)]
    if not isinstance(value, list) or not value:
        raise invalid(name, f"{name} must be a list of messages, at least one.")
    return [_turn(message, f"{name}[{number}]") for number, message in enumerate(value)]


def _turn(message: Any, where: str) -> Turn:
    if not isinstance(message, dict):
        raise invalid(where, f"{where} must be an object with role and content.")
    if message.get("type", "message") != "message":
        raise refused(f"{where}.type", f"{where} is no message; only messages are supported.")
    role = message.get("role")
    if role in ("tool", "function") or message.get("tool_calls"):
        raise refused(f"{where}.role", f"{where} belongs to a tool, and tools are not supported.")
    if role not in ROLES:
        raise invalid(f"{where}.role", f"{where}.role must be one of {', '.join(ROLES)}, found {role!r:.40}.")
    return role, _text(message.get("content"), f"{where}.content")


def _text(content: Any, where: str) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise invalid(where, f"{where} must be a text or a list of parts.")
    texts = []
    for part in content:
        if not isinstance(part, dict) or part.get("type") not in TEXT_PARTS:
            kind = part.get("type") if isinstance(part, dict) else part
            raise refused(where, f"{where} has a part of type {kind!r:.40}; only text is supported.")
        text = part.get("refusal" if part["type"] == "refusal" else "text")
        if not isinstance(text, str):
            raise invalid(where, f"{where} has a part without a text.")
        texts.append(text)
    return "\n".join(texts)


def _question(turns: Sequence[Turn], name: str, settings: Settings) -> str:
    """Returns the last turn, which must be the user's. Raises ApiError for turns that the settings refuse."""
    spoken = [turn for turn in turns if turn[0] in SPOKEN]
    if settings.system == "refuse" and len(spoken) < len(turns):
        raise refused(name, "This server takes no system messages: instructions were compiled.")
    if not spoken or spoken[-1][0] != "user":
        raise invalid(name, f"The last message in {name} must be the user's question.")
    if settings.history == "refuse" and len(spoken) > 1:
        raise refused(name, "This server takes one question without earlier turns.")
    if not (question := spoken[-1][1]).strip():
        raise invalid(name, "The question is empty.")
    return question
