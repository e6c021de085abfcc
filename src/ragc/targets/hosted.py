"""Any model of LiteLLM: hosted services, and proxies in front of them. Only its public names are used."""

from __future__ import annotations

import asyncio
import logging
import os
import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, cached_property
from typing import Any
from urllib.parse import urlsplit

from ragc.core.redact import remember_environment, shorten
from ragc.errors import TargetStopped, UsageError, nearest
from ragc.targets.base import Capability, ChatRequest, Reply, Usage, Watch
from ragc.targets.chat import LOOPBACK, ServerTarget, Show, headers_of, read_address, untrusted
from ragc.targets.options import HostedOptions
from ragc.targets.prices import MILLION, Price
from ragc.targets.retry import Again
from ragc.targets.wire import Where, body_of, failure, response_format

log = logging.getLogger("ragc.targets")

_ROLES = frozenset({"azure", "azure_ai", "bedrock", "sagemaker", "sagemaker_chat", "vertex_ai"})
"""Providers whose credentials may come from the machine's role instead of a variable."""

_UNREADABLE = (
    "Connection error",
    "Empty or invalid response",
    "Unable to get json",
    "Expecting value",
    "Invalid response object",
)
"""How LiteLLM's own errors begin about a body that is no completion; it makes a status up for them."""

_CODES = {
    "ContextWindowExceededError": "context length",
    "ContentPolicyViolationError": "content filter",
}
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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import litellm
    for message in (".* using the `ReadOnly` qualifier", "Pydantic serializer warnings"):
        warnings.filterwarnings("ignore", message=message, category=UserWarning)
    litellm.suppress_debug_info = True
    logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)
    return litellm


@cache
def warn_once(text: str) -> None:
    """Logs `text`, once a process."""
    log.warning("%s", text)


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
            known = {str(name) for name in litellm.model_cost}
            near = nearest(self.model, known | {f"openai/{name}" for name in known if "/" not in name})
            raise UsageError(
                f"LiteLLM knows no provider for the model {self.model!r}.{near} Write provider/model, as in "
                "openai/gpt-4o-mini."
            ) from None
        return frozenset(litellm.get_supported_openai_params(bare, custom_llm_provider=provider) or ())

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What LiteLLM's tables say, with the corrections of the options."""
        return self._capabilities

    @cached_property
    def _capabilities(self) -> frozenset[Capability]:
        try:
            able: set[Capability] = {name for name in ("seed", "logprobs") if name in self.params}
        except UsageError:  # `open` says it
            able = set()
        if load().supports_response_schema(self.model):
            able.add("schema")
        if self.info.get("supports_prompt_caching"):
            able.add("prefix_cache")
        corrected: frozenset[Capability] = self.options.correct(able)
        return corrected

    @property
    def whole_context(self) -> int:  # type: ignore[override]
        """Tokens of prompt, reasoning and answer; 0 if no option and no table has them."""
        known = (
            self.options.context_tokens or self.info.get("max_input_tokens") or self.info.get("max_tokens")
        )
        return int(known or 0)

    def known_to_reason(self) -> bool:
        """Returns whether LiteLLM's table says that the model can reason."""
        return bool(self.info.get("supports_reasoning"))

    async def open(self, progress: Watch | None = None) -> None:
        """Checks the id and that a key is set. Sends nothing. Raises UsageError."""
        await asyncio.to_thread(load)
        remember_environment(f"{self.model.partition('/')[0]}_")
        needs_key = bool(self.params) and not (self.options.api_key_env or self.endpoint)
        if needs_key and (names := missing_key(self.model)):
            raise UsageError(f"{self.model} needs the environment variable {names}, which is not set.")
        headers_of(self.options)

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
        options, params = self.options, self.params
        body = body_of(request, self.model, {}, options.omit)
        if request.schema is not None and body.pop("response_format", None):
            if "schema" in self.capabilities and request.schema.get("properties"):
                body["response_format"] = response_format(
                    request.schema if self.endpoint else accepted(request.schema)
                )
            elif "response_format" in params:
                body["response_format"] = {"type": "json_object"}
        if body.get("top_p") == 1.0:
            del body["top_p"]
        fixed = (
            {"temperature", "top_p", "top_k"} if "claude" in self.model and self.reasoning_tokens else set()
        )
        is_strict = not self.endpoint and self.model.partition("/")[0] in ("openai", "azure")
        more = set() if is_strict else {"top_k", "min_p"}
        taken = {"model", "messages", "response_format", *params, *more} - fixed
        for name in body.keys() - taken:
            del body[name]
            warn_once(f"{self.model} does not take {name}; it is left out.")
        headers = headers_of(options)
        key = headers.pop("authorization", "").removeprefix("Bearer ")
        key = key or ("none" if self.endpoint and missing_key(self.model) else "")
        reached = {"api_key": key, "base_url": self.endpoint, "extra_headers": headers}
        sent = {**body, **options.sent, **{name: value for name, value in reached.items() if value}}
        if stream:
            sent |= {"stream": True, "stream_options": {"include_usage": True}}
        return sent | {
            "timeout": options.timeout_s, "num_retries": 0, "max_retries": 0, "drop_params": True
        }  # fmt: skip

    def _failure(self, error: Exception) -> Exception:
        """Returns what an exception of LiteLLM becomes."""
        errors, status, where = load().exceptions, getattr(error, "status_code", None), self.where
        # LiteLLM prefixes the server's message with its exception names, ending in "…Exception - ".
        text = str(getattr(error, "message", "") or error).rpartition("Exception - ")[2]
        text = text.partition("Traceback (most")[0]
        if "CERTIFICATE_VERIFY_FAILED" in text:
            return TargetStopped(untrusted(where.endpoint, error), endpoint=where.endpoint, refused=True)
        if isinstance(error, errors.Timeout):
            return Again(f"gave no answer within {self.options.timeout_s:g} s")
        if isinstance(error, errors.APIConnectionError) or not status or text.startswith(_UNREADABLE):
            said = f"{type(error).__name__}: {shorten(text, 120)}"
            unsent = "Connect" in text and "refused" in text
            return Again(f"does not answer, or sent a reply that cannot be read ({said})", refused=unsent)
        body = getattr(error.__context__, "body", None)  # the server's, as OpenAI's client keeps it
        fields = body if isinstance(body, dict) else {}
        code = _CODES.get(type(error).__name__) or fields.get("code")
        headers = getattr(error, "litellm_response_headers", None) or {}
        return failure(int(status), {"error": {**fields, "message": text, "code": code}}, headers, where)

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
            warn_once(f"LiteLLM has no price for {self.model}: its replies count 0 usd.")
            return 0.0

    def table_price(self) -> Price | None:
        """Returns the highest price of the model's tiers in LiteLLM's table; None without one."""

        def dearest(*beginnings: str) -> float | None:
            prices = (price for name, price in self.info.items() if name.startswith(beginnings))
            return max((MILLION * price for price in prices if price is not None), default=None)

        read, cached = dearest("input_cost_per_token"), dearest("cache_read_input_token_cost")
        written = dearest("output_cost_per_token", "output_cost_per_reasoning_token")
        if read is None or written is None:
            return None
        return Price(read, read if cached is None else cached, written)

    async def aclose(self) -> None:
        """Does nothing: LiteLLM shares its connections among all models."""


def missing_key(model: str) -> str:
    """Returns the environment variables of which one must be set for `model` and none is; else "".

    Imports LiteLLM, which takes seconds. Sends nothing.
    """
    try:
        environment = load().validate_environment(model)
    except Exception:  # an unknown provider, of which `open` speaks
        return ""
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
