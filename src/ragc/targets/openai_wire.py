"""Converts requests and replies to and from the JSON of OpenAI's chat completions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

import orjson

from ragc.core.redact import shorten
from ragc.core.text import repair_surrogates
from ragc.targets.base import (
    ChatRequest,
    Finish,
    Reply,
    TokenLogprob,
    Usage,
    log_probability,
    token_count,
    usage,
)
from ragc.targets.thoughts import separate, take_off

MAX_ERROR_BYTES = 2**16
"""Maximum bytes of a non-JSON error body from which a message is taken."""

_SAID = frozenset({"content", "tool_calls", "function_call", "refusal", "reasoning_content", "reasoning"})
"""Fields of a message, of which one must be there."""

_MAX_DEPTH = 4
"""Levels of lists and objects in which thoughts are looked for."""

_CONTEXT = re.compile(
    r"(?i)context[-_ ](?:length|window|size)|maximum context|exceeds? (?:the )?(?:available )?context"
    r"|more than the context of|prompt is too long|too many (?:input )?tokens|input is too long"
)


def request_body(request: ChatRequest, model: str, extra: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Returns the JSON body of a chat completion; `extra` overrides the request."""
    sampling = request.sampling
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": m.role, "content": repair_surrogates(m.content)} for m in request.messages],
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_tokens": sampling.max_tokens,
    }
    if sampling.top_k is not None:
        body["top_k"] = sampling.top_k
    if sampling.min_p is not None:
        body["min_p"] = sampling.min_p
    if sampling.temperature > 0:
        body["seed"] = sample_seed(request)
    if sampling.stop:
        body["stop"] = list(sampling.stop)
    if request.schema is not None:
        body["response_format"] = response_format(request.schema)
    if request.logprobs:
        body["logprobs"] = True
        body["top_logprobs"] = 1
    if request.prompt_logprobs:
        body["prompt_logprobs"] = 0  # no alternatives to the prompt's own tokens
    return {**body, **(extra or {})}


def response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the strict `json_schema` response format for `schema`."""
    return {"type": "json_schema", "json_schema": {"name": "reply", "strict": True, "schema": dict(schema)}}


def sample_seed(request: ChatRequest) -> int:
    """Returns the seed of this sample: the sampling's (default 0) plus the sample index, below 2**31."""
    return ((request.sampling.seed or 0) + request.sample) % 2**31


class Unreadable(ValueError):
    """A body that is not a complete chat completion; the message gives the reason."""


def read_json(content: bytes | str) -> Any:
    """Returns the JSON value in a body. Raises only Unreadable, for any other bytes.

    Lone surrogates, which the fast parser refuses, are accepted; the caller must repair them.
    """
    try:
        return orjson.loads(content)
    except ValueError:
        pass
    try:
        return json.loads(content, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"not JSON: {type(error).__name__}") from None


def _refuse(constant: str) -> Any:
    raise Unreadable(f"{constant} is no JSON")


def part(value: Any, *path: str | int) -> Any:
    """Returns the value at `path` (names and indexes) inside `value`, or None."""
    for step in path:
        fits = isinstance(value, dict) if isinstance(step, str) else isinstance(value, list)
        try:
            value = cast(Any, value)[step] if fits else None
        except (KeyError, IndexError):
            return None
    return value


def billed_tokens(body: Any) -> tuple[int, int] | None:
    """Returns the tokens of prompt and reply in the `usage` of any parsed body; None without any.

    Zeros count as missing: LiteLLM inserts them when a server reports none.
    """
    read, written = (token_count(part(body, "usage", f"{side}_tokens")) for side in ("prompt", "completion"))
    return (read or 0, written or 0) if read or written else None


def error_usage(content: bytes) -> tuple[int, int] | None:
    """Returns `billed_tokens` of a body that is not parsed yet."""
    try:
        return billed_tokens(orjson.loads(content))
    except (ValueError, RecursionError):
        return None


def read_reply(body: Any, request: ChatRequest, count: Callable[[str], int]) -> Reply:
    """Returns the reply in a chat completion's body; `count` estimates missing token counts.

    Raises only Unreadable, when the body is not a complete completion.
    """
    choice = part(body, "choices", 0)
    message, stopped = _read_message(choice), part(choice, "finish_reason")
    if stopped in ("abort", "error"):
        raise Unreadable("the completion was broken off")
    reply = Reply(
        text=message.text,
        finish=stopped if stopped in ("length", "content_filter") else message.finish,
        usage=_usage(body, request, message.thoughts + message.text, count),
        logprobs=_logprobs(part(choice, "logprobs", "content")) if request.logprobs else (),
        prompt_logprobs=_prompt_logprobs(body) if request.prompt_logprobs else (),
        thoughts=message.thoughts,
    )
    return take_off(reply, request, count)


class _Message(NamedTuple):
    """The text of a message, its separate thoughts, and why it ends."""

    text: str
    thoughts: str
    finish: Finish


def _read_message(choice: Any) -> _Message:
    """Reads the message in `choice`. Its content may be a text, null, or a list of parts.

    If the content is empty, a refusal or tool calls become the text; a lone call's arguments are read as the
    reply if they are JSON.
    """
    message = part(choice, "message")
    if not isinstance(message, dict) or not message.keys() & _SAID:
        raise Unreadable("no message")
    content, apart = message.get("content"), [_separate_thoughts(message)]
    if isinstance(content, list):
        kinds = [str(part(piece, "type") or "") for piece in content]
        thinks = [kind.endswith(("thinking", "reasoning", "thought")) for kind in kinds]
        apart += [
            _thought_text(piece) for piece, is_thought in zip(content, thinks, strict=True) if is_thought
        ]
        pieces = [piece for piece, is_thought in zip(content, thinks, strict=True) if not is_thought]
        texts = [_part_text(piece) for piece in pieces]
        content = None if None in texts else "".join(filter(None, texts))
        if content is None:
            raise Unreadable("its content is no text")
    if not isinstance(content, str | None):
        raise Unreadable("its content is no text")
    thoughts = repair_surrogates("\n\n".join(filter(None, apart)))
    if not (content or "").strip():
        refusal = _refusal(message)
        if refusal:
            return _Message(repair_surrogates(refusal), thoughts, "refusal")
        if calls := _tool_calls(message):
            return _Message(*_read_calls(calls, thoughts))
    return _Message(repair_surrogates(content or ""), thoughts, "stop")


_RICH_CONTENT = re.compile(rb'"content"\s*:\s*(?:\[|"(?:\\n|\s)*<think)', re.IGNORECASE)


def flatten_contents(body: bytes) -> bytes:
    """Flattens contents of a chat completion's `body` that are lists of parts or begin with thoughts.

    Thoughts become `reasoning_content`, a refusal in a list `refusal`. Any other body is returned as it is.
    """
    if not _RICH_CONTENT.search(body):
        return body
    try:
        completion = read_json(body)
        choices = part(completion, "choices")
        for choice in choices if isinstance(choices, list) else ():
            message = part(choice, "message")
            if part(message, "content"):
                read = _read_message(choice)
                tagged, text = separate(read.text, lambda name: not name.lower().startswith("think"))
                thoughts = "\n\n".join(filter(None, (read.thoughts, tagged)))
                message.pop("reasoning", None)
                message |= {"content": text, "reasoning_content": thoughts or None}
                if read.finish == "refusal":
                    message |= {"content": None, "refusal": read.text}
    except Unreadable:
        return body
    return json.dumps(completion).encode()


def _part_text(piece: Any) -> str | None:
    """Returns the text of a part of a content list; None for a part of another kind, such as an image."""
    text = piece if isinstance(piece, str) else part(piece, "text")
    if part(piece, "type") == "refusal":
        return ""
    return text if isinstance(text, str) else None


def _separate_thoughts(message: Any) -> str:
    """Returns the thoughts that a server reports beside the content, under one of the usual names."""
    names = ("reasoning_content", "reasoning", "thinking", "reasoning_details", "thinking_blocks")
    return next((text for name in names if (text := _thought_text(message.get(name)).strip())), "")


def _thought_text(value: Any, depth: int = 0) -> str:
    """Returns the thoughts in `value`: a text, an object that contains one, or a list of those."""
    if isinstance(value, str):
        return value
    if depth == _MAX_DEPTH:
        return ""
    if isinstance(value, list):
        return "\n\n".join(filter(None, (_thought_text(item, depth + 1) for item in value)))
    names = ("thinking", "text", "summary", "content", "reasoning") if isinstance(value, dict) else ()
    return next((text for name in names if (text := _thought_text(value.get(name), depth + 1))), "")


def _refusal(message: Any) -> str:
    """Returns the text of a refusal; "" if the model does not refuse."""
    content = message.get("content")
    pieces = [part(piece, "refusal") for piece in content] if isinstance(content, list) else []
    texts = (message.get("refusal"), part(message, "provider_specific_fields", "refusal"), *pieces)
    return next((text for text in texts if isinstance(text, str) and text.strip()), "")


def _tool_calls(message: Any) -> list[tuple[str, str]]:
    """Returns the tools that a message calls, by name, and their arguments as JSON text."""
    listed = message.get("tool_calls")
    functions = [part(call, "function") for call in listed] if isinstance(listed, list) else []
    functions += [message["function_call"]] if message.get("function_call") else []
    calls = []
    for function in functions:
        name, arguments = part(function, "name"), part(function, "arguments")
        spelled = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
        calls.append((repair_surrogates(str(name or "")), repair_surrogates(spelled)))
    return calls


def _read_calls(calls: Sequence[tuple[str, str]], thoughts: str) -> tuple[str, str, Finish]:
    """Returns the text, `thoughts` and finish of a message that only calls tools."""
    if len(calls) == 1:
        arguments = calls[0][1]
        try:
            if isinstance(read_json(arguments), dict):
                return arguments, thoughts, "stop"
        except Unreadable:
            pass
    return "\n".join(f"{name}({arguments})" for name, arguments in calls), thoughts, "tool_calls"


def _logprobs(scored: Any) -> tuple[TokenLogprob, ...]:
    if not isinstance(scored, list | None):
        raise Unreadable("its logprobs are no list")
    return tuple(_token_logprob(one, "token") for one in scored or ())


def _prompt_logprobs(body: Any) -> tuple[TokenLogprob, ...]:
    """Returns log-probabilities of the prompt's tokens from the second on.

    Each entry lists its own token first.
    """
    entries = part(body, "prompt_logprobs")
    if not isinstance(entries, list | None) or not all(isinstance(one, dict | None) for one in entries or ()):
        raise Unreadable("its prompt_logprobs are no list of objects")
    own = [next(iter(entry.values())) for entry in entries or () if entry]
    return tuple(_token_logprob(one, "decoded_token") for one in own)


def _token_logprob(entry: Any, name: str) -> TokenLogprob:
    try:
        value = log_probability(part(entry, "logprob"))
    except ValueError as error:
        raise Unreadable(str(error)) from None
    token = part(entry, name)
    return TokenLogprob(repair_surrogates(token) if isinstance(token, str) else "", value)


def _usage(body: Any, request: ChatRequest, text: str, count: Callable[[str], int]) -> Usage:
    reported_usage = part(body, "usage")
    cached = part(reported_usage, "prompt_tokens_details", "cached_tokens")
    if cached is None:
        cached = part(body, "timings", "cache_n")
    counted = usage(
        part(reported_usage, "prompt_tokens"),
        part(reported_usage, "completion_tokens"),
        cached,
        request,
        text,
        count,
    )
    thinking = token_count(part(reported_usage, "completion_tokens_details", "reasoning_tokens")) or 0
    return replace(counted, thinking=min(thinking, counted.completion))


def error_message(content: bytes) -> str:
    """Returns the error message in a body, shortened and redacted: OpenAI's format, vLLM's, or plain text."""
    try:
        body = orjson.loads(content)
        if isinstance(body, dict):
            body = body.get("error", body)
        if isinstance(body, dict):
            body = body.get("message") or body.get("detail") or body
        return shorten(body if isinstance(body, str) else str(body))
    except (ValueError, RecursionError):
        return shorten(content[:MAX_ERROR_BYTES].decode("utf-8", "replace"))


def is_context_error(text: str) -> bool:
    """Returns whether an error message says that prompt and reply exceed the context."""
    return _CONTEXT.search(text) is not None
