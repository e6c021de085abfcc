"""Checks before a study: a key is set, the provider accepts it, and the model exists."""

from __future__ import annotations

import os
from typing import Any

import httpx

from ragc.core.http import LOOPBACK, never_connected
from ragc.core.redact import remember_environment, shorten
from ragc.errors import TargetError, TargetUnavailable, UsageError, nearest
from ragc.targets.hosted.litellm import load
from ragc.targets.openai_wire import error_message, read_json
from ragc.targets.vllm.target import key_from

_OPENAI = frozenset({"openai", "hosted_vllm", "litellm_proxy", "openai_like"})
_DEFAULTS = {"openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com"}
_RENAMED = ("BASE_URL", "API_BASE")
_KEY_NAMES = ("KEY", "TOKEN", "SECRET")
_KEYLESS = frozenset({"azure", "azure_ai", "bedrock", "sagemaker", "sagemaker_chat", "vertex_ai"})
"""Providers whose credentials may come from the machine's role instead of a variable."""
_NAMED = 8
"""Maximum number of models listed in an error."""


def key_arguments(litellm: Any, model: str, provider: str, base_url: str, api_key_env: str) -> dict[str, str]:
    """Returns the key argument, unless LiteLLM itself reads the provider's variable.

    Raises UsageError when a key is needed and missing.
    """
    remember_environment(f"{provider}_")
    if api_key_env:
        return {"api_key": key_from(api_key_env)}
    missing = _missing(litellm, model, provider)
    if not missing:
        return {}
    if base_url:
        return {"api_key": "none"}
    raise UsageError(f"{model} needs the environment variable {' or '.join(missing)}, which is not set.")


def missing_key(model: str, base_url: str) -> str:
    """Returns the environment variables of which one must be set for `model` and none is; else "".

    Imports LiteLLM, which takes seconds, unless `base_url` is set. Sends nothing.
    """
    if base_url:
        return ""
    litellm = load()
    try:
        _, provider, _, _ = litellm.get_llm_provider(model)
    except Exception:  # unknown provider: opening the target reports it, with the nearest name
        return ""
    return " or ".join(_missing(litellm, model, provider))


def _missing(litellm: Any, model: str, provider: str) -> list[str]:
    environment = litellm.validate_environment(model)
    if environment["keys_in_environment"] or provider in _KEYLESS:
        return []
    return [name for name in environment["missing_keys"] if name.endswith(_KEY_NAMES)]


async def check_model(
    provider: str, model: str, base_url: str, key: str, variable: str, *, who: str, timeout_s: float
) -> None:
    """Requests the provider's list of models, if its URL is known, and checks key and model.

    No completion is sent. `model` is the provider's name for it, `variable` names where `key` came from.
    Raises TargetError for a refused key, UsageError for a model that is not listed, TargetUnavailable when
    nothing listens at `base_url`.
    """
    request = _request(provider, base_url, key)
    if request is None:
        return
    url, headers = request
    here = httpx.URL(url).host in LOOPBACK
    try:
        async with httpx.AsyncClient(timeout=timeout_s, trust_env=not here) as client:
            response = await client.get(url, headers=headers)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        if base_url and never_connected(error):
            text = f"{who} does not answer; start the server or correct base_url."
            raise TargetUnavailable(text, endpoint=who) from None
        return
    if response.status_code in (401, 403) and not _lacks_list_scope(response):
        message, number = (
            error_message(response.content),
            shorten(response.headers.get("x-request-id", ""), 80),
        )
        text = f"{who} refused the key with {response.status_code}: {message}. Check {variable}."
        raise TargetError(text, endpoint=who, request_id=number)
    if response.status_code == 200:
        _check_listed(response, model, who)


def _request(provider: str, base_url: str, key: str) -> tuple[str, dict[str, str]] | None:
    """Returns the URL of the model list and the headers to send; None when unknown."""
    if not base_url and any(os.environ.get(f"{provider.upper()}_{name}") for name in _RENAMED):
        return None
    base = (base_url or _DEFAULTS.get(provider, "")).rstrip("/")
    if not base or "?" in base:
        return None
    if provider in _OPENAI:
        return f"{base}/models", {"authorization": f"Bearer {key}"}
    if provider == "anthropic":
        headers = {"x-api-key": key, "anthropic-version": "2023-06-01"}
        return f"{base.removesuffix('/v1')}/v1/models?limit=1000", headers
    return None


def _lacks_list_scope(response: httpx.Response) -> bool:
    """Returns whether the key lacks only the permission to list models and may still request completions."""
    message = error_message(response.content).lower()
    return response.status_code == 403 and ("scope" in message or "permission" in message)


def _check_listed(response: httpx.Response, model: str, who: str) -> None:
    """Raises UsageError when a list is given and `model`, possibly the prefix of a name, is not in it."""
    try:
        listed: Any = read_json(response.content)["data"]
        names = sorted({shorten(str(card["id"]), 200) for card in listed})
    except (ValueError, KeyError, TypeError, RecursionError):
        return
    if not names or any(name.startswith(model) or "*" in name for name in names):
        return
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    known = f"Known: {', '.join(names[:_NAMED])}{more}."
    raise UsageError(f"{who} has no model named {model!r}.{nearest(model, names)} {known}")
