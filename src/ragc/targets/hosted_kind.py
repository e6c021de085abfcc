"""`hosted`: a model that LiteLLM reaches."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ragc.core.marks import Keys, RequestedAccess
from ragc.targets.base import Target, TargetKind
from ragc.targets.options import IN_PROCESS, HostedOptions, TargetSpec

PROVIDERS = frozenset({
    "openai", "anthropic", "gemini", "mistral", "groq", "deepseek", "cohere", "cohere_chat", "openrouter",
    "together_ai", "fireworks_ai", "xai", "perplexity", "deepinfra", "cerebras", "nvidia_nim", "sambanova",
})  # fmt: skip
"""LiteLLM's names of providers whose address is published and holds no part of the model's id."""
SERVERS = frozenset({
    "hosted_vllm", "litellm_proxy", "openai_like", "custom_openai", "ollama", "ollama_chat", "lm_studio",
    "llamafile",
})  # fmt: skip
"""LiteLLM's names of servers that are asked at `base_url` alone."""

_MODEL = re.compile(r"\w[\w.:@-]*(/\w[\w.:@-]*)*", re.ASCII)
_BARE = re.compile(r"(gpt-|o[1-9]|claude-)[\w.-]*", re.ASCII)


def _build(spec: TargetSpec) -> Target:
    from ragc.targets.hosted import HostedTarget

    return HostedTarget(spec.model, spec.base_url, HostedOptions.of(spec.options))


def _accesses(keys: Keys, spec: TargetSpec) -> Iterator[RequestedAccess]:
    provider, library = _provider(spec.model), spec.model.partition("/")[0]
    published = bool(provider) and not spec.base_url
    at = "its published address" if published else "an address of its own choice"
    free = published and (not spec.options.get("api_key_env") or "api_key_env" in _published(spec))
    served = (provider or library in SERVERS) and spec.base_url
    if library in IN_PROCESS:
        yield RequestedAccess("runs", (*keys, "model"), spec.model, "loads this model into this process")
    yield RequestedAccess(
        "speaks",
        (*keys, "model"),
        spec.model,
        f"asks this model at {at}",
        published=free,
        by=(*keys, "base_url") if served else (),
    )


def _published(spec: TargetSpec) -> tuple[str, ...]:
    """Returns the options that everybody may set: the variable in which the provider's own key stands."""
    provider, variable = _provider(spec.model), spec.options.get("api_key_env")
    own = provider and not spec.base_url and variable == f"{provider.upper()}_API_KEY"
    return ("api_key_env",) if own else ()


def _provider(model: str) -> str:
    """Returns the published provider of a LiteLLM id; "" if the id may lead to another address."""
    if not _MODEL.fullmatch(model):
        return ""
    provider, slash, _ = model.partition("/")
    if not slash and _BARE.fullmatch(model):
        return "anthropic" if model.startswith("claude-") else "openai"
    return provider if slash and provider in PROVIDERS else ""


def _lacking(who: str, spec: TargetSpec) -> Iterator[str]:
    from ragc.targets.hosted import missing_key

    if not (spec.options.get("api_key_env") or spec.base_url) and (names := missing_key(spec.model)):
        yield f"{who}, {spec.model}, needs the environment variable {names}, which is not set"


KIND = TargetKind("hosted", HostedOptions, _build, _accesses, _lacking, published=_published)
