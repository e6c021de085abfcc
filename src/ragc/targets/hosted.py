"""Any model of LiteLLM: hosted services, and proxies in front of them. Only its public names are used."""

from __future__ import annotations

import asyncio
import logging
import os
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache, cached_property
from typing import Any
from urllib.parse import urlsplit

from ragc.core.marks import Does
from ragc.core.redact import remember_environment, shorten
from ragc.errors import TargetStopped, UsageError, nearest
from ragc.targets.base import Capability, ChatRequest, Reply, TargetKind, Usage, Watch
from ragc.targets.chat import LOOPBACK, ServerTarget, Show, headers_of, read_address, untrusted
from ragc.targets.options import HostedOptions, TargetSpec
from ragc.targets.prices import MILLION, Price
from ragc.targets.retry import Again
from ragc.targets.wire import Where, body_of, failure, response_format

_ROLES = frozenset({"azure", "azure_ai", "bedrock", "sagemaker", "sagemaker_chat", "vertex_ai"})
"""Providers whose credentials may come from the machine's role instead of a variable."""

_IN_PROCESS = frozenset({"vllm", "petals"})
"""LiteLLM's names of libraries that it loads into this process, with the model."""

_UNREADABLE = (
    "Connection error",
    "Empty or invalid response",
    "Unable to get json",
    "Expecting value",
    "Invalid response object",
    "Error in response object",
)
"""How LiteLLM's own errors begin about a body that is no completion; it makes a status up for them."""

_REFUSED = frozenset({
    "minLength", "maxLength", "minItems", "maxItems", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "multipleOf", "pattern", "format", "uniqueItems", "minProperties", "maxProperties",
    "patternProperties", "propertyNames", "contains", "minContains", "maxContains", "not", "if", "then",
    "else", "default",
})  # fmt: skip
"""Keywords that some provider refuses in strict mode; replies are checked by the whole schema."""


@cache
def load() -> Any:
    """Imports LiteLLM, offline and quiet; it takes seconds."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "true"
    warnings.filterwarnings(
        "ignore", ".* using the `ReadOnly` qualifier|Pydantic serializer warnings", UserWarning
    )
    with warnings.catch_warnings(action="ignore"):
        import litellm
    litellm.suppress_debug_info = True
    logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)
    return litellm


warn_once = cache(logging.getLogger("ragc.targets").warning)
"""Logs a message with its arguments, once a process."""


class HostedTarget(ServerTarget):
    """Sends requests to the model with the LiteLLM id `model`, through `base_url` if given.

    Capabilities, context and price are those of LiteLLM's tables; their first access imports it.
    """

    kind, unknown_context = "hosted", 8192

    def __init__(self, model: str, base_url: str = "", options: HostedOptions = HostedOptions()) -> None:  # noqa: B008
        if not model:
            raise UsageError("A hosted target needs a LiteLLM model id, such as openai/gpt-4o-mini.")
        self.endpoint, query, login = read_address(base_url) if base_url else ("", {}, {})
        parts = urlsplit(self.endpoint)
        if login or query or options.query:
            raise UsageError(
                "base_url of a hosted target must hold no credentials and no query; name the key in "
                'api_key_env, and write further arguments into body, as body = { api_version = "..." }.'
            )
        if parts.scheme == "http" and parts.hostname not in LOOPBACK:
            raise UsageError(
                f"base_url {self.endpoint!r} would send the key unencrypted to {parts.hostname}: use https."
            )
        super().__init__(model, options)

    @property
    def where(self) -> Where:
        """The model and its address, and the variable of its key."""
        at = f" at {self.endpoint}" if self.endpoint else ""
        key = self.options.api_key_env or f"{self.model.partition('/')[0].upper()}_API_KEY"
        return Where(f"{self.model}{at}", self.model, key)

    @cached_property
    def info(self) -> Mapping[str, Any]:
        """The model's entry in LiteLLM's table; empty without one."""
        try:
            return dict(load().get_model_info(self.model))
        except Exception:  # LiteLLM raises a bare Exception for an unknown model
            return {}

    @cached_property
    def params(self) -> frozenset[str]:
        """The parameters that LiteLLM sends to this model. Raises UsageError for an id without a provider."""
        litellm = load()
        try:
            bare, provider, *_ = litellm.get_llm_provider(self.model)
        except Exception:  # of many kinds
            known = {
                *litellm.model_cost,
                *(f"openai/{name}" for name in litellm.model_cost if "/" not in name),
            }
            raise UsageError(
                f"LiteLLM knows no provider for the model {self.model!r}.{nearest(self.model, known)} "
                "Write provider/model, as in openai/gpt-4o-mini."
            ) from None
        return frozenset(litellm.get_supported_openai_params(bare, custom_llm_provider=provider) or ())

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What LiteLLM's tables say, with the corrections of the options."""
        return self._capabilities

    @cached_property
    def _capabilities(self) -> frozenset[Capability]:
        try:
            params = self.params
        except UsageError:  # `open` says it
            params = frozenset()
        can: dict[Capability, Any] = {
            "seed": "seed" in params,
            "logprobs": "logprobs" in params,
            "schema": load().supports_response_schema(self.model),
            "prefix_cache": self.info.get("supports_prompt_caching"),
        }
        return frozenset(self.options.correct(name for name, is_able in can.items() if is_able))

    @property
    def whole_context(self) -> int:  # type: ignore[override]
        """Tokens of prompt, reasoning and answer; 0 if no option and no table has them."""
        return int(
            self.options.context_tokens
            or self.info.get("max_input_tokens")
            or self.info.get("max_tokens")
            or 0
        )

    def known_to_reason(self) -> bool:
        """Returns whether LiteLLM's table says that the model can reason."""
        return bool(self.info.get("supports_reasoning"))

    async def open(self, progress: Watch | None = None) -> None:
        """Checks the id and that a key is set. Sends nothing. Raises UsageError."""
        await asyncio.to_thread(load)
        remember_environment(f"{self.model.partition('/')[0]}_")
        headers_of(self.options)
        needs_key = bool(self.params) and not (self.options.api_key_env or self.endpoint)
        if needs_key and (names := missing_key(self.model)):
            raise UsageError(f"{self.model} needs the environment variable {names}, which is not set.")

    async def complete(self, request: ChatRequest) -> Reply:
        """Returns the reply with its price in LiteLLM's table, in parts where somebody takes them."""
        reply = await super().complete(request)
        return replace(reply, usd=self.table_usd(reply.usage))

    async def answer(self, prepared: dict[str, Any], show: Show | None) -> Any:
        """Returns LiteLLM's response as a table; parts of its text go to `show` as they come."""
        try:
            response = await load().acompletion(**prepared)
            if show is not None:
                chunks = []
                async for chunk in response:
                    chunks.append(chunk)
                    if chunk.choices and (part := chunk.choices[0].delta.content):
                        show(part)
                response = load().stream_chunk_builder(chunks)
            return response.model_dump(warnings="none")
        except Exception as error:
            raise self._failure(error) from None

    def prepare(self, request: ChatRequest, *, stream: bool = False) -> dict[str, Any]:
        """Returns the arguments of LiteLLM. What the model does not take is left out, and logged once."""
        # Some providers refuse top_p next to a temperature, and 1 is what it is without.
        omit = {*self.options.omit, "top_p"} if request.sampling.top_p == 1 else self.options.omit
        body = body_of(request, self.model, {}, omit, stream=stream)
        if request.schema is not None and "response_format" in body:
            is_forced = "schema" in self.capabilities and request.schema.get("properties")
            schema = request.schema if self.endpoint else accepted(request.schema)
            body["response_format"] = response_format(schema) if is_forced else {"type": "json_object"}
        taken = {"model", "messages", "stream", "stream_options", *self.params}
        if self.endpoint or self.model.partition("/")[0] not in ("openai", "azure"):  # which refuse others'
            taken |= {"top_k", "min_p"}
        if self.reasoning_tokens and "claude" in self.model:
            taken -= {"temperature", "top_p", "top_k"}
        for name in body.keys() - taken:
            del body[name]
            warn_once("%s does not take %s; it is left out.", self.model, name)
        headers = headers_of(self.options)
        key = headers.pop("authorization", "").removeprefix("Bearer ")
        key = key or ("none" if self.endpoint and missing_key(self.model) else "")
        return {
            **body,
            **self.options.sent,
            "api_key": key or None,
            "base_url": self.endpoint or None,
            "extra_headers": headers or None,
            "timeout": self.options.timeout_s,
            "num_retries": 0,
            "max_retries": 0,
            "drop_params": True,
        }

    def _failure(self, error: Exception) -> Exception:
        """Returns what an exception of LiteLLM becomes."""
        errors, status, where = load().exceptions, getattr(error, "status_code", None), self.where
        # LiteLLM writes its exception's names before the server's message, and a traceback after it.
        message = getattr(error, "message", "") or error
        text = str(message).rpartition("Exception - ")[2].partition("Traceback (most")[0]
        if "CERTIFICATE_VERIFY_FAILED" in text:
            return TargetStopped(untrusted(where.endpoint, error), endpoint=where.endpoint, refused=True)
        if isinstance(error, errors.Timeout):
            return Again(f"gave no answer within {self.options.timeout_s:g} s")
        if isinstance(error, errors.APIConnectionError) or not status or text.startswith(_UNREADABLE):
            return Again(
                "does not answer, or sent a reply that cannot be read "
                f"({type(error).__name__}: {shorten(text, 120)})",
                refused="Connect" in text and "refused" in text,
            )
        body = getattr(error.__context__, "body", None)  # the server's, as OpenAI's client keeps it
        content = {
            **(body if isinstance(body, dict) else {}),
            "message": text,
            "status": type(error).__name__,  # that a prompt is too long, or filtered, where no word says so
        }
        return failure(
            int(status), {"error": content}, getattr(error, "litellm_response_headers", None) or {}, where
        )

    def table_usd(self, used: Usage) -> float:
        """Returns the dollars of a reply by LiteLLM's table; 0, which is logged once, without a price."""
        try:
            amounts = load().cost_per_token(
                model=self.model,
                prompt_tokens=used.prompt,
                completion_tokens=used.completion,
                cache_read_input_tokens=used.cached,
            )
            return max(0.0, float(sum(amounts)))
        except Exception:  # of many kinds, for an unknown model
            warn_once("LiteLLM has no price for %s: its replies count 0 usd.", self.model)
            return 0.0

    def table_price(self) -> Price | None:
        """Returns the highest price of the model's tiers in LiteLLM's table; None without one."""

        def dearest(*beginnings: str) -> float:
            prices = [price for name, price in self.info.items() if name.startswith(beginnings)]
            return MILLION * max(filter(None, prices), default=0.0)

        if not self.info:
            return None
        return Price(
            input=dearest("input_cost_per_token", "cache_read_input_token_cost"),
            output=dearest("output_cost_per_token", "output_cost_per_reasoning_token"),
        )

    async def aclose(self) -> None:
        """Does nothing: LiteLLM shares its connections among all models."""


def missing_key(model: str) -> str:
    """Returns the environment variables of which one must be set for `model` and none is; else "".

    Imports LiteLLM, which takes seconds. Sends nothing.
    """
    environment = load().validate_environment(model)
    if environment["keys_in_environment"] or model.partition("/")[0] in _ROLES:
        return ""
    return " or ".join(
        name for name in environment["missing_keys"] if name.endswith(("KEY", "TOKEN", "SECRET"))
    )


def accepted(schema: Any) -> Any:
    """Returns `schema` without keywords that some provider refuses; a tuple becomes a list of its types."""
    if isinstance(schema, list):
        return [accepted(part) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    kept: dict[str, Any] = {}
    for name, value in schema.items():
        if name in ("properties", "$defs"):
            kept[name] = {key: accepted(part) for key, part in value.items()}
        elif name == "const":
            kept["enum"] = [value]
        elif name == "prefixItems":
            kept["items"] = {"anyOf": accepted(value)}
        elif name not in _REFUSED:
            kept["anyOf" if name == "oneOf" else name] = accepted(value)
    return kept


def _build(spec: TargetSpec) -> HostedTarget:
    return HostedTarget(spec.model, spec.base_url, HostedOptions.of(spec.options))


def _model_does(spec: TargetSpec) -> Does:
    # Whatever the base_url: LiteLLM has providers whose address is a part of the id.
    if spec.model.partition("/")[0] in _IN_PROCESS:
        return Does("runs", "loads this model into this process")
    return Does("speaks", "asks this model by LiteLLM, with the key of its provider")


def _lacking(who: str, spec: TargetSpec) -> Iterator[str]:
    if not (spec.options.get("api_key_env") or spec.base_url) and (names := missing_key(spec.model)):
        yield f"{who}, {spec.model}, needs the environment variable {names}, which is not set"


KIND = TargetKind("hosted", HostedOptions, _build, _model_does, _lacking)
