"""Makes a reply safe to store, count and show: well-formed text, plausible numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ragc.targets.base import ChatRequest, Reply, TokenLogprob, Usage

MOST_TOKENS = 2**31 - 1
"""Maximum plausible token count reported by a server."""

LEAST_LOGPROB = -9999.0
"""Replaces the log of probability 0, as in vLLM's server."""


def repair_surrogates(text: str) -> str:
    """`text` with surrogate pairs joined, and lone surrogates replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def token_count(value: Any) -> int | None:
    """`value` if it is a token count, an integer from 0 to `MOST_TOKENS`; otherwise None."""
    if type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else None


def price(value: Any) -> float | None:
    """`value` in dollars if it is a finite number of at least 0; otherwise None."""
    if type(value) not in (int, float) or not 0 <= value < math.inf:
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def log_probability(value: Any) -> float:
    """`value` clipped to `LEAST_LOGPROB`..0; raises ValueError if it is not a number."""
    if type(value) not in (int, float) or value != value:
        raise ValueError("a log-probability is no number")
    return float(max(LEAST_LOGPROB, value)) if value <= 0 else 0.0


def usage(
    prompt: Any, completion: Any, cached: Any, request: ChatRequest, text: str, count: Callable[[str], int]
) -> Usage:
    """The reported token counts; missing or implausible ones are estimated with `count`.

    `cached` is 0 where it is implausible or exceeds the prompt's count.
    """
    read, written, known = token_count(prompt), token_count(completion), token_count(cached)
    if read is None:
        read = sum(count(message.content) for message in request.messages)
    if written is None:
        written = count(text)
    return Usage(read, written, known if known is not None and known <= read else 0)


def sanitize(reply: Reply, request: ChatRequest, count: Callable[[str], int]) -> Reply:
    """`reply` made safe to store. Raises ValueError where its text or a log-probability is invalid."""
    if not isinstance(reply.text, str):
        raise ValueError("the text of a reply is no text")
    text, reported_usage = repair_surrogates(reply.text), reply.usage
    counted = usage(
        reported_usage.prompt, reported_usage.completion, reported_usage.cached, request, text, count
    )
    usd = price(reply.usd)
    scored, prompt = (
        tuple(map(_sanitize_token, tokens)) for tokens in (reply.logprobs, reply.prompt_logprobs)
    )
    return replace(reply, text=text, usage=counted, usd=usd or 0.0, logprobs=scored, prompt_logprobs=prompt)


def _sanitize_token(token: TokenLogprob) -> TokenLogprob:
    return TokenLogprob(repair_surrogates(str(token.token)), log_probability(token.logprob))
