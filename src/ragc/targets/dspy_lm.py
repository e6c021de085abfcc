"""A `dspy.LM` as a target: our requests are sent by the language model that a user configured.

The counterpart of `ragc.targets.dspy_engine`. DSPy's own cache is not used, since its keys lack the address;
its retries are used.
"""

from __future__ import annotations

import asyncio
import copy
import importlib
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import dspy
from dspy import lm15
from dspy.clients import execution
from dspy.clients._deprecation import adapter_message_call
from dspy.utils.exceptions import is_retryable_lm_error

from ragc.core.digest import digest
from ragc.core.display import describe
from ragc.core.redact import mask_keys, remember, remember_environment, shorten
from ragc.errors import CapabilityMissing, TargetError, TargetUnavailable, UsageError
from ragc.targets.base import (
    Capability,
    ChatRequest,
    Finish,
    Reply,
    TokenLogprob,
    Usage,
    Watch,
    parts_taker,
)
from ragc.targets.dspy_engine import RagEngine, cause
from ragc.targets.prices import Price
from ragc.targets.reasoning import take_off
from ragc.targets.retry import Again, with_tries
from ragc.targets.wire import tokens_in

CONTEXT_TOKENS = 32_768
"""Tokens of a context where the caller names none: DSPy does not say how much a model reads."""

_UNNAMED = frozenset({
    "api_key", "temperature", "max_tokens", "max_completion_tokens", "rollout_id", "n", "top_p", "stop",
    "seed",
})  # fmt: skip
"""Settings of a language model that each request sets, or that say nothing of what answers."""

_MARK = "_ragc_identity"


class DspyTarget:
    """The target of `lm`. Requests decide how a reply is drawn, not the settings of `lm`.

    Replies are stored under the model, the address and the other settings of `lm`, never its key. An `lm`
    with an engine or a `forward` of its own has an identity of its own: its replies are not replayed in
    another process. `price` is the price of its tokens, as in `ragc.targets.token_price.Price`; else the
    attribute `price` of `lm`, else LiteLLM's table, for one without an engine of its own. Raises UsageError
    for what is no language model, or has no name of a model.
    """

    def __init__(
        self,
        lm: Any,
        *,
        context_tokens: int = CONTEXT_TOKENS,
        concurrency: int = 8,
        price: Mapping[str, float] | None = None,
    ) -> None:
        if not isinstance(lm, dspy.BaseLM):
            raise UsageError(
                f"A language model of DSPy is needed, such as dspy.LM('openai/gpt-4o-mini'), found "
                f"{type(lm).__name__}; pass lm=dspy.LM(...)."
            )
        model: Any = getattr(lm, "model", None)
        if not isinstance(model, str) or not model.strip():
            raise UsageError(
                f"A language model needs the name of its model, and this {type(lm).__name__} has {model!r}; "
                "name one, as in dspy.LM('openai/gpt-4o-mini')."
            )
        for name, size in (("context_tokens", context_tokens), ("concurrency", concurrency)):
            if type(size) is not int or size < 1:
                raise UsageError(f"{name} must be a whole number from 1, found {size!r}.")
        remember_environment()
        if isinstance(key := lm.kwargs.get("api_key"), str):
            remember(key)
        self.lm, self.model, self.name = lm, model, f"dspy {model}"
        self.context_tokens, self.concurrency = context_tokens, concurrency
        self._price = None if price is None else Price.of(price)
        self._table: Price | None = None
        self._is_looked_up = False

    def __deepcopy__(self, memo: object) -> DspyTarget:
        return self

    def __repr__(self) -> str:
        return describe(type(self).__name__, repr(self.model))

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The model's capabilities according to DSPy; none for a class that overrides `forward`."""
        if not _is_managed(self.lm):
            return frozenset()
        able: set[Capability] = set()
        if self.lm.supports_response_schema:
            able.add("schema")
        if "logprobs" in self.lm.supported_params:
            able.add("logprobs")
        return frozenset(able)

    @property
    def identity(self) -> str:
        """The identity: class, model, address and settings; a unique mark for a user's own engine."""
        lm = self.lm
        settings = {name: repr(value) for name, value in lm.kwargs.items() if name not in _UNNAMED}
        own = "" if _is_plain(lm) else vars(lm).setdefault(_MARK, uuid.uuid4().hex)
        kind = f"{type(lm).__module__}.{type(lm).__qualname__}"
        return f"dspy {self.model} {digest([kind, lm.model_type, settings, own])}"

    @property
    def forgets(self) -> bool:
        """Whether its replies are not replayed later: the user set `cache=False`."""
        return getattr(self.lm, "cache", True) is False

    @property
    def price(self) -> Any:
        """The price that the user gave; None for none."""
        return self._price or vars(self.lm).get("price")

    def table_price(self) -> Price | None:
        """Returns the price of the model in LiteLLM's table; None without one, and for a user's engine."""
        if not self._is_looked_up and _is_plain(self.lm):
            from ragc.targets.hosted import HostedTarget

            self._table, self._is_looked_up = HostedTarget(self.model).table_price(), True
        return self._table

    @property
    def longest_reply(self) -> int | None:
        """The language model's own limit on a reply, in tokens; None for none."""
        limit = self.lm.kwargs.get("max_completion_tokens")
        return limit if type(limit) is int else None

    async def open(self, progress: Watch | None = None) -> None:
        """Does nothing: DSPy reaches the model at the first request."""

    async def complete(self, request: ChatRequest) -> Reply:
        """Returns one reply. Raises TargetUnavailable for failures that DSPy retries, else TargetError."""
        lm = self.lm
        # What DSPy keeps of a call is kept by whoever asked, once, whether it is sent or replayed.
        take = parts_taker.get()
        stream = None if take is None or not _can_stream(lm) else _StreamParts(take)
        with dspy.context(disable_history=True, usage_tracker=None, send_stream=stream):
            if not _is_managed(lm):
                return await self._attempt(request, stream)
            tries = 1 + int(getattr(lm, "num_retries", 0))
            return await with_tries(lambda: self._attempt(request, stream), self.name, tries=tries)

    async def _attempt(self, request: ChatRequest, stream: _StreamParts | None) -> Reply:
        """Makes one try; raises Again for a transient failure of a managed language model.

        A try is not repeated after a part of its reply was shown.
        """
        try:
            return await self._reply(request)
        except Exception as error:
            if (own := cause(error)) is not None:
                raise own from error
            text = f"failed: {type(error).__name__}: {shorten(str(error), 500)}"
            status = getattr(error, "status", None)
            refused = type(status) is int and 400 <= status < 500 and status != 408
            if not is_retryable_lm_error(error):
                raise TargetError(f"{self.name} {text}", refused=refused) from error
            if not _is_managed(self.lm) or (stream is not None and stream.has_sent):
                raise TargetUnavailable(f"{self.name} {text}", refused=refused) from error
            wait: Any = getattr(error, "retry_after", None)
            raise Again(text, wait if type(wait) in (int, float) else None, refused=refused) from error

    async def _reply(self, request: ChatRequest) -> Reply:
        return await (self._send(request) if _is_managed(self.lm) else self._send_legacy(request))

    async def _send(self, request: ChatRequest) -> Reply:
        """Returns the reply of a language model that DSPy drives with canonical requests.

        Retries are made by ragc, one by one, because each is charged.
        """
        lm = _without_retries(self.lm)
        sampling, able = request.sampling, self.capabilities
        if request.logprobs and "logprobs" not in able:
            raise CapabilityMissing(f"{self.name} gives no logprobs; choose another target.")
        reasons = "max_completion_tokens" in self.lm.kwargs  # such a model takes no temperature of ours
        longest = self.lm.kwargs.get("max_completion_tokens") if reasons else sampling.max_tokens
        system = "\n\n".join(m.content for m in request.messages if m.role == "system")
        turns = [m for m in request.messages if m.role != "system"]
        makers = {"user": lm15.Message.user, "assistant": lm15.Message.assistant}
        schema = {"type": "json_schema", "name": "reply", "schema": request.schema, "strict": True}
        canonical = lm15.Request(
            model=self.lm.model,
            system=system or None,
            messages=tuple(makers[m.role](m.content) for m in turns),
            config=lm15.Config(
                max_tokens=longest,
                temperature=None if reasons else sampling.temperature,
                top_p=None if reasons or sampling.top_p == 1 else sampling.top_p,
                top_k=sampling.top_k,
                stop=sampling.stop,
                seed=sampling.seed,
                response_format=schema if request.schema is not None and "schema" in able else None,
                logprobs=0 if request.logprobs else None,
            ),
        )
        rollout = {"rollout_id": request.sample} if request.sample else {}
        if _is_awaited(self.lm):
            response: Any = await lm.acall(canonical, cache=False, **rollout)
        else:
            response = await asyncio.to_thread(lm, canonical, cache=False, **rollout)
        spoken = _read_response(response)
        used = self._used(response.usage, request, spoken.reasoning + spoken.text)
        reply = Reply(
            spoken.text,
            finish=spoken.finish,
            usage=used,
            usd=self._usd(used),
            logprobs=tuple(TokenLogprob(t.token, min(0.0, t.logprob)) for t in response.logprobs or ()),
            reasoning=spoken.reasoning,
        )
        return take_off(reply, request, self.count_tokens)

    def _used(self, reported: Any, request: ChatRequest, text: str) -> Usage:
        """Returns the token counts that DSPy reports, or estimates of them."""
        used = self._counted(
            reported.input_tokens or None,
            reported.output_tokens,
            reported.cache_read_tokens or 0,
            request,
            text,
        )
        thinking = tokens_in(getattr(reported, "reasoning_tokens", None)) or 0
        return replace(used, reasoning=min(thinking, used.completion))

    def _counted(self, prompt: Any, completion: Any, cached: Any, request: ChatRequest, text: str) -> Usage:
        read, written, known = tokens_in(prompt), tokens_in(completion), tokens_in(cached)
        if read is None:
            read = sum(self.count_tokens(message.content) for message in request.messages)
        if written is None:
            written = self.count_tokens(text)
        return Usage(read, written, known if known is not None and known <= read else 0)

    def _usd(self, used: Usage) -> float:
        """Returns dollars of a reply by LiteLLM's table; 0 with a typed price, which the gateway charges."""
        usd = None
        if self.price is None and self.table_price():
            from ragc.targets.hosted import HostedTarget

            usd = HostedTarget(self.model).table_usd(used)
        return usd or 0.0

    async def _send_legacy(self, request: ChatRequest) -> Reply:
        """Returns the reply of a class with its own `forward`, which takes messages as dictionaries."""
        sampling = request.sampling
        messages = [{"role": m.role, "content": m.content} for m in request.messages]
        settings: dict[str, Any] = {"temperature": sampling.temperature, "max_tokens": sampling.max_tokens}
        if sampling.top_p < 1:
            settings["top_p"] = sampling.top_p
        if request.sample:
            settings["rollout_id"] = request.sample
        outputs = await asyncio.to_thread(self.lm, messages=messages, **settings)
        return self._estimated(request, _text_of(self.name, outputs))

    def _estimated(self, request: ChatRequest, text: str) -> Reply:
        """Returns the reply `text` with estimated token counts."""
        spent = sum(self.count_tokens(m.content) for m in request.messages)
        reply = Reply(text, usage=Usage(prompt=spent, completion=self.count_tokens(text)))
        return take_off(reply, request, self.count_tokens)

    def count_tokens(self, text: str) -> int:
        """Returns a quarter of the characters, rounded up: an estimate, good enough for budgets."""
        return (len(text) + 3) // 4

    async def aclose(self) -> None:
        """Does nothing: the language model is the caller's."""


class AdapterTarget(DspyTarget):
    """`target` for one request of a DSPy adapter, which made `messages` and `settings`; they are sent as is.

    So the language model gets the same as in plain DSPy, its own settings included. The store and the budget
    use the ChatRequest that represents them. `encode` converts DSPy's form of a response, a text or a
    dictionary, to the text of the reply.
    """

    def __init__(
        self,
        target: DspyTarget,
        messages: Sequence[Mapping[str, Any]],
        settings: Mapping[str, Any],
        encode: Callable[[Any], str],
    ) -> None:
        vars(self).update(vars(target))
        self._messages, self._settings, self._encode = messages, dict(settings), encode

    async def _reply(self, request: ChatRequest) -> Reply:
        lm, messages = self.lm, list(map(dict, self._messages))
        if not _is_managed(lm) or type(lm).__call__ is not dspy.BaseLM.__call__:
            with adapter_message_call(lm, messages):  # as DSPy's adapters say, so that nobody is warned
                outputs = await asyncio.to_thread(lm, messages=messages, **self._settings)
            return self._estimated(request, self._encode(outputs[0] if outputs else None))
        settings, lm = {**self._settings, "cache": False, "n": 1}, _without_retries(lm)
        if _is_awaited(lm):
            call = await asyncio.to_thread(execution.prepare, lm, None, messages, settings, asynchronous=True)
            result = await execution.aexecute(lm, call)
        else:
            result = await asyncio.to_thread(
                lambda: execution.execute(lm, execution.prepare(lm, None, messages, settings))
            )
        output = result.outputs[0] if result.outputs else None
        text, reasoning = self._encode(output), _reasoning_of(output)
        if result.responses:
            used = self._used(result.responses[0].usage, request, reasoning + text)
        else:
            spent = dict(result.usage or {})
            read, written = spent.get("prompt_tokens"), spent.get("completion_tokens")
            used = self._counted(read, written, 0, request, reasoning + text)
        reply = Reply(text, finish=_finish(result), usage=used, usd=self._usd(used), reasoning=reasoning)
        return take_off(reply, request, self.count_tokens)


class _ParsedResponse(NamedTuple):
    """A parsed response: its text, its thoughts, and why it ends."""

    text: str
    reasoning: str
    finish: Finish


def _read_response(response: Any) -> _ParsedResponse:
    """Reads a response; a refusal, or tool calls, become the text if it has no other."""
    parts = response.message.parts
    thoughts = "\n\n".join(part.text for part in parts if isinstance(part, lm15.ThinkingPart) and part.text)
    text = "".join(part.text for part in parts if isinstance(part, lm15.TextPart))
    ended = response.finish_reason
    finish: Finish = "length" if ended == "length" else "stop"
    if text.strip():
        return _ParsedResponse(text, thoughts, finish)
    if refusals := [part.text for part in parts if isinstance(part, lm15.RefusalPart)]:
        return _ParsedResponse("\n".join(refusals), thoughts, "refusal")
    calls = [(call.name, json.dumps(call.input, default=str)) for call in response.tool_calls]
    if len(calls) == 1:
        return _ParsedResponse(calls[0][1], thoughts, finish)
    if calls:
        return _ParsedResponse(
            "\n".join(f"{name}({arguments})" for name, arguments in calls), thoughts, "tool_calls"
        )
    return _ParsedResponse(text, thoughts, finish)


def _reasoning_of(output: Any) -> str:
    """Returns the thoughts in an output of DSPy: a text, or a dictionary."""
    thoughts = output.get("reasoning_content") if isinstance(output, dict) else None
    return thoughts if isinstance(thoughts, str) else ""


def _without_retries(lm: Any) -> Any:
    """Returns a copy of `lm` that makes one try: each is charged, so ragc makes the retries."""
    single = copy.copy(lm)
    single.num_retries = 0
    return single


def _finish(result: Any) -> Literal["stop", "length"]:
    """Returns why a model stopped, from DSPy's result of a call."""
    if result.responses:
        reason = result.responses[0].finish_reason
    else:
        choices = getattr(result.raw, "choices", None) or ()
        reason = getattr(choices[0], "finish_reason", "") if choices else ""
    return "length" if reason == "length" else "stop"


def _text_of(name: str, outputs: Any) -> str:
    first = outputs[0] if isinstance(outputs, list) and outputs else None
    text = first.get("text") if isinstance(first, dict) else first
    if not isinstance(text, str):
        raise TargetError(f"{name} gave {type(first).__name__} in the place of a text.")
    return text


def _is_managed(lm: Any) -> bool:
    """Returns whether DSPy itself drives `lm`, so that canonical requests reach its engine."""
    if not hasattr(lm, "_engine_spec"):
        return False
    dummy = importlib.import_module("dspy.utils.dummies").DummyLM
    base = dummy if isinstance(lm, dummy) else dspy.LM
    return isinstance(lm, base) and type(lm).forward is base.forward and "forward" not in vars(lm)


def _is_awaited(lm: Any) -> bool:
    """Returns whether DSPy drives `lm` without a thread: it has DSPy's own engine or an awaitable one."""
    if not _is_managed(lm):
        return False
    own = not isinstance(vars(lm).get("_engine_spec", "auto"), str)
    return not own or vars(lm).get("_async_engine_spec") is not None


def _can_stream(lm: Any) -> bool:
    """Returns whether DSPy returns replies of `lm` in parts; a user's own engine may not."""
    engine = vars(lm).get("_async_engine_spec")
    return _is_awaited(lm) and (engine is None or hasattr(engine, "stream"))


class _StreamParts:
    """DSPy's stream of one reply, whose text goes to `take`."""

    def __init__(self, take: Callable[[str], None]) -> None:
        self._take, self.has_sent = take, False

    async def send(self, chunk: Any) -> None:
        """Takes one of DSPy's chunks; status messages of the language model are left out."""
        choices = getattr(chunk, "choices", None) or ()
        for choice in choices[:1]:
            self.has_sent = True
            self._take(mask_keys(getattr(choice.delta, "content", None) or ""))


def _is_plain(lm: Any) -> bool:
    """Returns whether `lm` is fully described by model, address and settings."""
    return type(lm) is dspy.LM and isinstance(lm._engine_spec, str)


_OWN = "_ragc_target"


def target_of(lm: Any) -> Any:
    """Returns the target behind `lm`, the same for every call; our own target if `lm` was made of it.

    Raises UsageError as `DspyTarget` does.
    """
    engine = getattr(lm, "_engine_spec", None)
    if isinstance(engine, RagEngine):
        return engine.target
    held = vars(lm).get(_OWN) if isinstance(lm, dspy.BaseLM) else None
    if not isinstance(held, DspyTarget) or held.lm is not lm:  # a copy of `lm` copies this too
        held = DspyTarget(lm)
        setattr(lm, _OWN, held)
    return held
