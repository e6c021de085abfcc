"""Any model that LiteLLM supports: hosted services, and proxies in front of them.

LiteLLM takes seconds to import, so it is imported on first use. Its bundled price and model tables are used;
nothing is downloaded.
"""

from __future__ import annotations

import asyncio
import logging
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ragc.core.digest import digest
from ragc.core.event_loop import closes
from ragc.core.retry import Retry, RetryableError, Sleep, with_retries
from ragc.core.text import repair_surrogates
from ragc.errors import TargetError, UsageError
from ragc.targets.base import Capability, ChatRequest, Reply, Usage, Watch, price
from ragc.targets.hosted.litellm import checked_url, failure, load, nearest_id, plain_replies, table_price
from ragc.targets.hosted.options import HostedOptions
from ragc.targets.hosted.preflight import check_model, key_arguments
from ragc.targets.hosted.schemas import accepted_schema
from ragc.targets.openai_wire import (
    Unreadable,
    billed_tokens,
    part,
    read_reply,
    response_format,
    sample_seed,
)
from ragc.targets.prices import Price
from ragc.targets.thinking import ThinkingRoom, room_left, switches_on

log = logging.getLogger("ragc.targets")

_UNKNOWN_CONTEXT = 8192
_DRAWN = ("temperature", "top_p")
_DEFAULTS = HostedOptions()
_open_targets: set[int] = set()


@dataclass(frozen=True, slots=True)
class TableEntry:
    """The entry of a model in LiteLLM's tables; empty for an id without a provider.

    `context_tokens` is 0 if it is unknown. `reasons` says whether the model can think, and `refused` lists
    the sampling parameters that such a model refuses.
    """

    capabilities: frozenset[Capability] = frozenset()
    context_tokens: int = 0
    json_object: bool = False
    reasons: bool = False
    refused: tuple[str, ...] = ()


class HostedTarget(ThinkingRoom):
    """Sends requests to the model with LiteLLM id `model`, through `base_url` if given.

    `capabilities` and `context_tokens` come from LiteLLM's tables, whether open or not. `dropped` names
    parameters that the model does not support and that were left out; each is logged once. `priced` becomes
    False when LiteLLM knows no price: those replies count 0 usd.
    """

    def __init__(
        self,
        model: str,
        base_url: str = "",
        options: HostedOptions = _DEFAULTS,
        *,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        if not model:
            raise UsageError("A hosted target needs a LiteLLM model id, such as openai/gpt-4o-mini.")
        self.endpoint = checked_url(base_url)
        self.model = model
        self.options = options
        self.name = f"hosted {model}"
        where = f"@{self.endpoint}" if self.endpoint else ""
        extra = f"#{digest(dict(options.sent))[:12]}" if options.sent else ""
        self.plain_identity = options.identity or f"{model}{where}{extra}"
        self.concurrency = options.concurrency
        self.dropped: set[str] = set()
        self.priced = True
        self._base_url = base_url
        self._sleep = sleep
        self._retry = Retry(options.tries, options.total)
        self._litellm: Any = None
        self._bare = self._provider = ""
        self._is_checked = False
        self._takes: dict[tuple[str, str], bool] = {}
        self._price: Price | None = None

    def __deepcopy__(self, memo: object) -> HostedTarget:
        return self

    def __repr__(self) -> str:
        return f"HostedTarget({self.model!r}, {self.endpoint!r})"

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The model's capabilities with the recipe's corrections; the first access imports LiteLLM."""
        return self._capabilities

    @cached_property
    def _capabilities(self) -> frozenset[Capability]:
        return self.options.correct(self._table.capabilities)

    @property
    def context_tokens(self) -> int:
        """The context size in tokens, without the tokens for thoughts."""
        return room_left(self, _UNKNOWN_CONTEXT)

    @property
    def whole_context(self) -> int:
        """The context size in tokens, with those for thoughts; 0 if no option and no table has it."""
        return self.options.context_tokens or self._table.context_tokens

    def reasons(self) -> bool:
        """Returns whether LiteLLM's table says that the model can think."""
        return self._table.reasons

    @property
    def refused_by_thinking(self) -> tuple[str, ...]:
        """The sampling parameters that are left out because the model thinks and then refuses them."""
        return self._table.refused or (_DRAWN if self._thinks_as_claude else ())

    @property
    def _thinks_as_claude(self) -> bool:
        """Returns whether thoughts of a Claude model are switched on: it then fixes its sampling."""
        return "claude" in self.model.lower() and switches_on(self.options.sent)

    @cached_property
    def _table(self) -> TableEntry:
        return table_entry(self.model)

    async def open(self, progress: Watch | None = None) -> None:
        """Imports LiteLLM, finds the provider, and checks key and model where possible. Sends no completion.

        Raises UsageError for an id without a provider, a missing key and an unknown model, TargetError for a
        refused key, TargetUnavailable when nothing listens at the base URL.
        """
        if self._litellm is not None:
            return
        litellm = await asyncio.to_thread(load)
        await asyncio.to_thread(lambda: self._table)
        try:
            self._bare, self._provider, _, _ = litellm.get_llm_provider(self.model)
        except Exception:
            raise UsageError(
                f"LiteLLM knows no provider for the model {self.model!r}.{nearest_id(litellm, self.model)} "
                "Write provider/model, as in openai/gpt-4o-mini."
            ) from None
        await self._check_model_once(self._key(litellm))
        self._litellm = litellm
        _open_targets.add(id(self))
        closes(self)

    async def complete(self, request: ChatRequest) -> Reply:
        """Returns the reply with its price. Rate limits, 5xx and unreadable bodies are retried."""
        await self.open()
        arguments = self.arguments(request)

        async def attempt() -> Reply:
            response = await self._send(arguments)
            body = response.model_dump(warnings="none")
            try:
                reply = read_reply(body, request, self.count_tokens)
            except Unreadable as error:
                raise RetryableError(
                    f"sent a reply that is no chat completion ({error})", usage=billed_tokens(body)
                ) from None
            return replace(reply, usd=self._usd(response, reply.usage))

        reply = await with_retries(attempt, self._retry, endpoint=self._endpoint_name, sleep=self._sleep)
        if request.logprobs and reply.text and not reply.logprobs:
            raise TargetError(
                f'{self._endpoint_name} sent no logprobs; add lacks = ["logprobs"] to this target.'
            )
        return reply

    async def _send(self, arguments: Mapping[str, Any]) -> Any:
        """Returns LiteLLM's response; raises RetryableError or TargetError."""
        try:
            with plain_replies():
                response = await self._litellm.acompletion(**arguments)
            response.model_dump(warnings="none")
        except Exception as error:
            raise failure(self._litellm, error, self._endpoint_name, self.options.timeout_s) from None
        return response

    def table_price(self) -> Price | None:
        """Returns the price in LiteLLM's table; None without one. Imports LiteLLM."""
        if self._price is None:
            self._price = table_price(self.model)
        return self._price

    def count_tokens(self, text: str) -> int:
        """Returns a quarter of the characters, rounded up: an estimate, good enough for budgets."""
        return (len(text) + 3) // 4

    async def aclose(self) -> None:
        """Closes LiteLLM's connections when this is the last hosted target with open ones."""
        litellm, self._litellm = self._litellm, None
        _open_targets.discard(id(self))
        if litellm is not None and not _open_targets:
            await litellm.close_litellm_async_clients()
            litellm.in_memory_llm_clients_cache.flush_cache()

    def arguments(self, request: ChatRequest) -> dict[str, Any]:
        """Returns the arguments for LiteLLM, within the model's limits on parameters."""
        sampling = request.sampling
        arguments: dict[str, Any] = {"max_tokens": sampling.max_tokens, "temperature": sampling.temperature}
        if sampling.top_p < 1:
            arguments["top_p"] = sampling.top_p
        if sampling.temperature > 0 and "seed" in self.capabilities:
            arguments["seed"] = sample_seed(request)
        if sampling.stop:
            arguments["stop"] = list(sampling.stop)
        if request.logprobs:
            arguments["logprobs"] = True
        drawn = {"top_k": sampling.top_k, "min_p": sampling.min_p}
        arguments |= {name: value for name, value in drawn.items() if value is not None}
        accepted = {name: value for name, value in arguments.items() if self._accepts(name, value)}
        if request.schema is not None:
            if "schema" in self.capabilities and request.schema.get("properties"):
                provider = "" if self._base_url else self._provider
                accepted["response_format"] = response_format(accepted_schema(request.schema, provider))
            elif self._table.json_object:
                accepted["response_format"] = {"type": "json_object"}
        return {
            "model": self.model,
            "messages": [{"role": m.role, "content": repair_surrogates(m.content)} for m in request.messages],
            **accepted,
            **self.options.sent,
            **self._key(self._litellm),
            **({"base_url": self._base_url} if self._base_url else {}),
            "timeout": self.options.timeout_s,
            "num_retries": 0,
            "max_retries": 0,
            "drop_params": False,
        }

    @property
    def _endpoint_name(self) -> str:
        return f"{self.model} at {self.endpoint}" if self.endpoint else self.model

    async def _check_model_once(self, key: Mapping[str, str]) -> None:
        """Checks key and model with the provider, once."""
        if self._is_checked:
            return
        self._is_checked = True  # concurrent calls need not wait for it
        variable = self.options.api_key_env or f"{self._provider.upper()}_API_KEY"
        value = key.get("api_key") or os.environ.get(variable, "")
        try:
            await check_model(
                self._provider, self._bare, self._base_url, value, variable,
                who=self._endpoint_name, timeout_s=self.options.connect_timeout_s,
            )  # fmt: skip
        except TargetError:
            self._is_checked = False
            raise

    def _key(self, litellm: Any) -> dict[str, str]:
        options = self.options
        return key_arguments(litellm, self.model, self._provider, self._base_url, options.api_key_env)

    def _accepts(self, name: str, value: Any) -> bool:
        """Returns whether the model supports a parameter; an unsupported one is added to `dropped`."""
        at = (name, repr(value))
        if at not in self._takes:
            self._takes[at] = self._checked_param(name, value)
            if not self._takes[at] and name not in self.dropped:
                self.dropped.add(name)
                log.warning("%s does not take %s=%r; it is left out.", self.model, name, value)
        return self._takes[at]

    def _checked_param(self, name: str, value: Any) -> bool:
        if name in ("top_k", "min_p") and self._provider in ("openai", "azure") and not self._base_url:
            return False
        if name in (*_DRAWN, "top_k") and self._thinks_as_claude:
            return False
        return takes(self._litellm, self._bare, self._provider, name, value)

    def _usd(self, response: Any, usage: Usage) -> float:
        """Returns the price of `response`, computed from `usage` if its own token counts are invalid."""
        try:
            usd = price(float(self._litellm.completion_cost(completion_response=response, model=self.model)))
            reported_usage = response.model_dump(warnings="none").get("usage")
            counts = (part(reported_usage, "prompt_tokens"), part(reported_usage, "completion_tokens"))
            if usd is None or counts != (usage.prompt, usage.completion):
                per_token = self._litellm.cost_per_token(
                    model=self.model, prompt_tokens=usage.prompt, completion_tokens=usage.completion
                )
                usd = price(float(sum(per_token)))
        except Exception:
            usd = None
        if usd is not None:
            return usd
        if self.priced:
            self.priced = False
            near = "" if self._base_url else nearest_id(self._litellm, self.model)
            log.warning("LiteLLM has no price for %s: its replies count 0 usd.%s", self.model, near)
        return 0.0


def takes(litellm: Any, bare: str, provider: str, name: str, value: Any) -> bool:
    """Returns whether LiteLLM sends the parameter `name` with this value to model `bare` of `provider`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            litellm.utils.get_optional_params(
                model=bare, custom_llm_provider=provider, drop_params=False, **{name: value}
            )
    except litellm.exceptions.UnsupportedParamsError:
        return False
    return True


def table_entry(model: str) -> TableEntry:
    """Returns the entry for the id `model` in LiteLLM's tables. Sends nothing."""
    litellm = load()
    try:
        bare, provider, _, _ = litellm.get_llm_provider(model)
    except Exception:  # LiteLLM raises many exceptions; `open` reports what is wrong with the id
        return TableEntry()
    params = litellm.get_supported_openai_params(bare, custom_llm_provider=provider) or []
    try:
        info = litellm.get_model_info(model)
    except Exception:  # LiteLLM raises a bare Exception for a model that is not in the table
        info = {}
    able: set[Capability] = set()
    if "seed" in params:
        able.add("seed")
    if "logprobs" in params:
        able.add("logprobs")
    if litellm.supports_response_schema(bare, custom_llm_provider=provider):
        able.add("schema")
    if info.get("supports_prompt_caching"):
        able.add("prefix_cache")
    context = info.get("max_input_tokens") or info.get("max_tokens") or 0
    reasons = bool(info.get("supports_reasoning"))
    samples = (("temperature", 0.0), ("top_p", 0.9)) if reasons else ()
    refused = tuple(name for name, value in samples if not takes(litellm, bare, provider, name, value))
    return TableEntry(frozenset(able), int(context), "response_format" in params, reasons, refused)
