"""Converts requests and replies to and from the JSON of llama.cpp's chat endpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ragc.errors import TargetError, TargetUnavailable
from ragc.targets.base import ChatRequest, Reply, TokenLogprob, Usage
from ragc.targets.embedded.schema import check_reply, prepare
from ragc.targets.embedded.server import StreamedReply
from ragc.targets.wire import sample_seed, tokens_in


def request_body(request: ChatRequest, context: int) -> dict[str, Any]:
    """Returns the body for llama.cpp's chat endpoint. Raises TargetError for a request it cannot answer."""
    sampling = request.sampling
    if not request.messages:
        raise TargetError("A request without messages cannot be answered; send at least one.", refused=True)
    if sampling.max_tokens >= context:
        raise TargetError(
            f"A reply of {sampling.max_tokens} tokens leaves no room for a prompt in a context of {context}; "
            "lower max_tokens or raise the target's context.",
            refused=True,
        )
    body: dict[str, Any] = {
        "messages": [{"role": m.role, "content": _replace_surrogates(m.content)} for m in request.messages],
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k or 0,
        "min_p": sampling.min_p or 0.0,
        "max_tokens": sampling.max_tokens,
        "cache_prompt": True,
    }
    if sampling.temperature > 0:
        body["seed"] = sample_seed(request)
    if sampling.stop:
        body["stop"] = list(sampling.stop)
    if request.logprobs:
        body |= {"logprobs": True, "top_logprobs": 1}
    if request.schema is not None:
        body["grammar"] = prepare(json.dumps(request.schema), sampling.max_tokens)[1]
    return body


def read_answer(answer: StreamedReply, request: ChatRequest, context: int) -> Reply:
    """Returns the reply to `request`; a complete one fits its schema. Raises TargetError or
    TargetUnavailable.
    """
    if answer.error:
        raise _server_error(answer.error, request.sampling.max_tokens, context)
    if not answer.finish or not answer.usage:
        raise TargetUnavailable("llama.cpp broke off a reply; try again.")
    usage, most = answer.usage, request.sampling.max_tokens
    prompt, written = (tokens_in(usage.get(name)) for name in ("prompt_tokens", "completion_tokens"))
    if prompt is None or written is None:
        raise TargetUnavailable("llama.cpp did not count the tokens of a reply; try again.")
    if prompt + most > context:
        raise too_long(prompt, most, context)
    text, cut = "".join(answer.text), answer.finish == "length"
    if request.schema is not None and not cut:
        if request.sampling.stop and not _is_json(text):
            cut = True  # a stop string occurred inside the JSON
        else:
            text, cut = check_reply(text, json.dumps(request.schema), most)
    cached = tokens_in((usage.get("prompt_tokens_details") or {}).get("cached_tokens")) or 0
    return Reply(
        text=text,
        finish="length" if cut else "stop",
        usage=Usage(prompt, written, cached),
        logprobs=tuple(TokenLogprob(t, float(p)) for t, p in answer.logprobs) if request.logprobs else (),
    )


def _server_error(error: Mapping[str, Any], most: int, context: int) -> TargetError:
    if error.get("type") == "exceed_context_size_error":
        return too_long(error.get("n_prompt_tokens", 0), most, context)
    message = f"llama.cpp could not answer: {str(error.get('message', error)).rstrip('.')}."
    code = tokens_in(error.get("code")) or 500
    return TargetUnavailable(message) if code >= 500 else TargetError(message)


def too_long(prompt: int, most: int, context: int) -> TargetError:
    """Returns the error for a prompt and a reply that together exceed the context."""
    return TargetError(
        f"The prompt has {prompt} tokens and the reply may have {most}, together more than the context of "
        f"{context}; shorten the prompt, lower max_tokens or raise the target's context.",
        refused=True,
    )


def _replace_surrogates(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
