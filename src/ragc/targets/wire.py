"""The JSON of OpenAI's chat completions, as requests and replies of ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
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
    if request.prompt_logprobs:
        body["prompt_logprobs"] = 0  # how many others beside the prompt's own tokens
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
    return _reply(body, body["choices"][0], request, count, None)


def read_replies(body: Any, request: ChatRequest, n: int, count: Callable[[str], int]) -> tuple[Reply, ...]:
    """The `n` replies of a request for so many, in their order; each counts the prompt, as it would alone.

    Raises what `read_reply` raises.
    """
    if n == 1:
        return (read_reply(body, request, count),)
    choices = {int(choice["index"]): choice for choice in body["choices"]}
    if choices.keys() != set(range(n)):
        raise ValueError(f"{len(choices)} of {n} samples came")
    parts = [len(choices[i].get("token_ids") or ()) for i in range(n)]
    return tuple(_reply(body, choices[i], request, count, parts[i]) for i in range(n))


def _reply(
    body: Any, choice: Any, request: ChatRequest, count: Callable[[str], int], own: int | None
) -> Reply:
    """The reply in `choice`; `own` counts its tokens where the body counts those of several together."""
    text = choice["message"]["content"]
    finish = choice.get("finish_reason")
    if not (text is None or isinstance(text, str)) or finish in ("abort", "error"):
        raise ValueError("the completion was broken off")
    text = text or ""
    scored = (choice.get("logprobs") or {}).get("content") or () if request.logprobs else ()
    usage = _usage(body, request, text, count)
    return Reply(
        text=text,
        finish="length" if finish == "length" else "stop",
        usage=usage if own is None else replace(usage, completion=own or count(text)),
        logprobs=tuple(TokenLogprob(str(t["token"]), float(t["logprob"])) for t in scored),
        prompt_logprobs=_prompt_logprobs(body) if request.prompt_logprobs else (),
    )


def _prompt_logprobs(body: Any) -> tuple[TokenLogprob, ...]:
    """Of the prompt's tokens from the second on; each entry names its own token first."""
    own = [next(iter(entry.values())) for entry in body.get("prompt_logprobs") or () if entry]
    return tuple(TokenLogprob(str(t.get("decoded_token") or ""), float(t["logprob"])) for t in own)


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
