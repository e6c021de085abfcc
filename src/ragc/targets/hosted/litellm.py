"""Isolates LiteLLM: imports it offline and quiet, and translates its exceptions."""

from __future__ import annotations

import json
import logging
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any

import httpx

from ragc.core.http import LOOPBACK, never_connected
from ragc.core.redact import shorten
from ragc.core.retry import PASSING_STATUS, RetryableError, is_refusal, retry_after
from ragc.errors import TargetError, UsageError, nearest
from ragc.targets.base import Usage, price
from ragc.targets.openai_wire import flatten_contents, is_context_error
from ragc.targets.prices import MILLION, Price

_OUTPUT = ("output_cost_per_token", "output_cost_per_reasoning_token")
_NO_REPLY = "Empty or invalid response from LLM endpoint"
"""How LiteLLM begins an error about a body that is JSON and no completion."""

_SPENT = ("insufficient_quota", "exceeded your current quota", "billing")


def failure(litellm: Any, error: Exception, who: str, timeout_s: float) -> Exception:
    """Returns the exception to raise for LiteLLM's `error`: RetryableError or TargetError, without secrets.

    An exhausted quota is permanent although its status is 429.
    """
    status = getattr(error, "status_code", None)
    # LiteLLM prefixes the server's message with its exception names, ending in "…Exception - ".
    message = shorten(str(getattr(error, "message", "") or error).rpartition("Exception - ")[2])
    headers: Mapping[str, str] = getattr(error, "litellm_response_headers", None) or {}
    number = shorten(headers.get("x-request-id", ""), 80)
    request_note = f" to request {number}" if number else ""
    if isinstance(error, litellm.exceptions.Timeout) and not never_connected(error):
        return RetryableError(f"gave no answer within {timeout_s:g} s")
    if never_connected(error):
        return RetryableError("does not answer (no connection)", refused=True)
    final = is_context_error(message) or any(word in message.lower() for word in _SPENT)
    if isinstance(error, litellm.exceptions.APIResponseValidationError) or not status:
        # LiteLLM and its dependencies raise any exception for an unreadable reply.
        return RetryableError(f"sent a reply that cannot be read ({type(error).__name__})", request_id=number)
    if _is_made_up(error, message):
        return RetryableError(f"sent a reply that is no chat completion ({message})", request_id=number)
    refused = is_refusal(status)
    if status in PASSING_STATUS and not final:
        reason = f"answered {status}{request_note}: {message}"
        wait = retry_after(headers.get("retry-after"))
        return RetryableError(reason, wait, request_id=number, refused=refused)
    text = f"{who} answered {status}{request_note}: {message}."
    return TargetError(text, endpoint=who, request_id=number, refused=refused)


def _is_made_up(error: Exception, message: str) -> bool:
    """Returns whether LiteLLM itself made the status of `error`, 500, of a body that it could not read."""
    causes = list[BaseException]()
    cause = error.__context__
    while cause is not None and cause not in causes:
        causes.append(cause)
        cause = cause.__context__
    if any(isinstance(cause, httpx.HTTPStatusError) for cause in causes):
        return False
    return message.startswith(_NO_REPLY) or any(isinstance(cause, json.JSONDecodeError) for cause in causes)


def load() -> Any:
    """Imports LiteLLM, offline and quiet.

    Pydantic's warnings about LiteLLM's types at the first calls, and about a content that is a list of parts,
    are silenced permanently.
    """
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "true"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import litellm
    warnings.filterwarnings("ignore", message=".* using the `ReadOnly` qualifier", category=UserWarning)
    warnings.filterwarnings("ignore", message="Pydantic serializer warnings", category=UserWarning)
    litellm.suppress_debug_info = True
    litellm.telemetry = False  # pyright: ignore[reportAttributeAccessIssue]
    logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)
    from litellm.llms.custom_httpx.aiohttp_transport import LiteLLMAiohttpTransport

    _read_plainly(LiteLLMAiohttpTransport)
    _read_plainly(httpx.AsyncHTTPTransport)
    return litellm


_plain: ContextVar[bool] = ContextVar("ragc_plain_replies", default=False)


@contextmanager
def plain_replies() -> Iterator[None]:
    """Until exit LiteLLM reads messages with plain contents (`flatten_contents`) and follows no redirect."""
    token = _plain.set(True)
    try:
        yield
    finally:
        _plain.reset(token)


def _read_plainly(transport: type[httpx.AsyncBaseTransport]) -> None:
    """Makes the library class `transport` obey `plain_replies`; elsewhere it is unchanged.

    The target of a redirect is removed: a library would send the prompt there, and the keys in
    provider-specific headers with it.
    """
    handle: Any = transport.handle_async_request
    if getattr(handle, "reads_plainly", False):
        return

    @wraps(handle)
    async def handle_async_request(self: Any, request: httpx.Request) -> httpx.Response:
        response: httpx.Response = await handle(self, request)
        if not _plain.get():
            return response
        content = await response.aread()
        await response.aclose()
        kept = [
            (name, value)
            for name, value in response.headers.multi_items()
            if name not in ("content-encoding", "content-length", "location", "transfer-encoding")
        ]
        return httpx.Response(response.status_code, headers=kept, content=flatten_contents(content))

    handle_async_request.reads_plainly = True  # type: ignore[attr-defined]
    transport.handle_async_request = handle_async_request  # type: ignore[method-assign]


def table_price(model: str) -> Price | None:
    """Returns the price of `model` in LiteLLM's table, the highest of its tiers; None without one. Sends
    nothing.
    """
    try:
        info: Mapping[str, Any] = load().get_model_info(model)
    except Exception:  # LiteLLM raises a bare Exception for an unknown model
        return None
    read, written = _dearest(info, "input_cost_per_token"), _dearest(info, *_OUTPUT)
    if read is None or written is None:
        return None
    cached = _dearest(info, "cache_read_input_token_cost")
    return Price(MILLION * read, MILLION * (read if cached is None else cached), MILLION * written)


def table_usd(model: str, usage: Usage) -> float | None:
    """Returns dollars of a reply of `model` by LiteLLM's table; None without a price."""
    try:
        amounts = load().cost_per_token(
            model=model,
            prompt_tokens=usage.prompt,
            completion_tokens=usage.completion,
            cache_read_input_tokens=usage.cached,
        )
    except Exception:  # LiteLLM raises many exceptions for a model that it does not know
        return None
    return price(float(sum(amounts)))


def _dearest(info: Mapping[str, Any], *beginnings: str) -> float | None:
    """Returns the highest token price among entries with this name prefix; None without a price."""
    prices = [
        float(amount)
        for name, amount in info.items()
        if name.startswith(beginnings) and isinstance(amount, int | float)
    ]
    return max(prices, default=None)


def nearest_id(litellm: Any, model: str) -> str:
    """Returns the sentence ` Did you mean 'x'?` for the nearest id known to LiteLLM, or an empty string."""
    known = {str(name) for name in litellm.model_cost}
    return nearest(model, known | {f"openai/{name}" for name in known if "/" not in name})


def checked_url(base_url: str) -> str:
    """Returns `base_url` without query and fragment, safe to show; raises UsageError for an unsafe one."""
    if not base_url:
        return ""
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL:
        url = httpx.URL("")
    if url.scheme not in ("http", "https") or not url.host:
        raise UsageError(f"base_url must be like https://proxy.example/v1, got {shorten(base_url)!r}.")
    if url.userinfo:
        raise UsageError("base_url of a hosted target must hold no credentials; name them in api_key_env.")
    if url.scheme == "http" and url.host not in LOOPBACK:
        raise UsageError(
            f"base_url {shorten(base_url)!r} would send the key unencrypted to {url.host}: use https."
        )
    return str(url.copy_with(query=None, fragment=None)).rstrip("/")
