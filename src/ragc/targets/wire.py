"""The JSON of OpenAI's chat completions, as requests and replies of ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from ragc.targets.base import ChatRequest, Reply, TokenLogprob, Usage
from ragc.targets.redact import shorten


def request_body(request: ChatRequest, model: str, extra: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The JSON body of a chat completion; `extra` wins over what the request says."""
    sampling = request.sampling
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": m.role, "content": m.content} for m in request.messages],
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_tokens": sampling.max_tokens,
    }
    if sampling.top_k is not None:
        body["top_k"] = sampling.top_k
    if sampling.min_p is not None:
        body["min_p"] = sampling.min_p
    if sampling.temperature > 0:
        body["seed"] = drawn_seed(request)
    if sampling.stop:
        body["stop"] = list(sampling.stop)
    if request.schema is not None:
        body["response_format"] = response_format(request.schema)
    if request.logprobs:
        body["logprobs"] = True
        body["top_logprobs"] = 1
    return {**body, **(extra or {})}


def response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The strict `json_schema` response format for `schema`."""
    return {"type": "json_schema", "json_schema": {"name": "reply", "strict": True, "schema": dict(schema)}}


def drawn_seed(request: ChatRequest) -> int:
    """The seed of this draw: the sampling's (0 when it has none) plus the sample index, below 2**31."""
    return ((request.sampling.seed or 0) + request.sample) % 2**31


def read_reply(body: Any, request: ChatRequest, count: Callable[[str], int]) -> Reply:
    """The reply in a chat completion's body; `count` estimates the tokens that it leaves unsaid.

    Raises KeyError, IndexError, TypeError or ValueError when the body is no complete completion.
    """
    choice = body["choices"][0]
    text = choice["message"]["content"]
    finish = choice.get("finish_reason")
    if not (text is None or isinstance(text, str)) or finish in ("abort", "error"):
        raise ValueError("the completion was broken off")
    text = text or ""
    scored = (choice.get("logprobs") or {}).get("content") or () if request.logprobs else ()
    return Reply(
        text=text,
        finish="length" if finish == "length" else "stop",
        usage=_usage(body, request, text, count),
        logprobs=tuple(TokenLogprob(str(t["token"]), float(t["logprob"])) for t in scored),
    )


def _usage(body: Any, request: ChatRequest, text: str, count: Callable[[str], int]) -> Usage:
    usage = body.get("usage") or {}
    details = usage.get("prompt_tokens_details") or {}
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
    cached = details.get("cached_tokens")
    if cached is None:
        cached = (body.get("timings") or {}).get("cache_n")
    return Usage(
        prompt=sum(count(m.content) for m in request.messages) if prompt is None else int(prompt),
        completion=count(text) if completion is None else int(completion),
        cached=int(cached or 0),
    )


def error_message(content: bytes) -> str:
    """What a server says of an error, shortened and redacted: OpenAI's shape, vLLM's, or plain text."""
    try:
        body = orjson.loads(content)
    except orjson.JSONDecodeError:
        return shorten(content.decode("utf-8", "replace"))
    if isinstance(body, dict):
        said = body.get("error", body)
        if isinstance(said, dict):
            said = said.get("message") or said.get("detail") or said
        return shorten(said if isinstance(said, str) else str(said))
    return shorten(str(body))
