"""A `dspy.LM` as a target: our requests are sent by the language model that a user configured.

The counterpart of `ragc.targets.dspy_engine`. DSPy's own cache is not used, since its keys lack the address;
its retries are used.
"""

from __future__ import annotations

import asyncio
import copy
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import dspy
from dspy import is_retryable_lm_error, lm15
from dspy.clients import execution
from dspy.clients._deprecation import adapter_message_call

from ragc.core.digest import digest
from ragc.core.display import describe
from ragc.core.redact import mask_keys, remember, remember_environment, shorten
from ragc.errors import CapabilityMissing, RequestRefused, TargetError, UsageError
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
from ragc.targets.wire import Where, bound_tokens, failure, tokens_in

CONTEXT_TOKENS = 32_768
"""Tokens of a context where the caller names none: DSPy does not say how much a model reads."""

_UNNAMED = frozenset({
    "api_key", "temperature", "max_tokens", "max_completion_tokens", "rollout_id", "n", "top_p", "stop",
    "seed",
})  # fmt: skip
"""Settings of a language model that each request sets, or that say nothing of what answers."""

_COUNTED = ("input", "output", "cache_read", "reasoning")
_MARK = "_ragc_identity"


class DspyTarget:
    """The target of `lm`. Requests decide how a reply is drawn, not the settings of `lm`.

    Replies are stored under the model, the address and the other settings of `lm`, never its key. An `lm`
    with an engine or a `forward` of its own has an identity of its own: its replies are not replayed in
    another process. `price` is the price of its tokens, as in `ragc.targets.prices.Price`; else the
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
        remember(str(lm.kwargs.get("api_key") or ""))
        self.lm, self.model, self.name = lm, model, f"dspy {model}"
        self.context_tokens, self.concurrency = context_tokens, concurrency
        self._price = None if price is None else Price.of(price)

    def __deepcopy__(self, memo: object) -> DspyTarget:
        return self

    def __repr__(self) -> str:
        return describe(type(self).__name__, repr(self.model))

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The model's capabilities according to DSPy; none for a class that overrides `forward`."""
        if not _engine(self.lm):
            return frozenset()
        able: set[Capability] = {"schema"} if self.lm.supports_response_schema else set()
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

    @cached_property
    def _hosted(self) -> Any:
        from ragc.targets.hosted import HostedTarget

        return HostedTarget(self.model)

    def table_price(self) -> Price | None:
        """Returns the price of the model in LiteLLM's table; None without one, and for a user's engine."""
        return self._hosted.table_price() if _is_plain(self.lm) else None

    @property
    def longest_reply(self) -> int | None:
        """The language model's own limit on a reply, in tokens; None for none."""
        limit = self.lm.kwargs.get("max_completion_tokens")
        return limit if type(limit) is int else None

    async def open(self, progress: Watch | None = None) -> None:
        """Does nothing: DSPy reaches the model at the first request."""

    async def complete(self, request: ChatRequest) -> Reply:
        """Returns one reply. Raises as `Target.complete`."""
        if request.logprobs and "logprobs" not in self.capabilities:
            raise CapabilityMissing(f"{self.name} gives no logprobs; choose another target.")
        take = parts_taker.get()
        awaited = _awaited(self.lm)
        streams = isinstance(awaited, str) or hasattr(awaited, "stream")
        stream = _StreamParts(take) if take is not None and streams else None
        # What DSPy keeps of a call is kept by whoever asked, once, whether it is sent or cached.
        with dspy.context(disable_history=True, usage_tracker=None, send_stream=stream):
            return await with_tries(
                lambda: self._attempt(request),
                self.name,
                tries=1 + int(getattr(self.lm, "num_retries", 0)) if _engine(self.lm) else 1,
                may_repeat=lambda: stream is None or not stream.has_sent,
            )

    async def _attempt(self, request: ChatRequest) -> Reply:
        """Makes one try. Raises Again where another may succeed."""
        try:
            reply = take_off(await self._reply(request), request, self.count_tokens)
            if reply.reasoning and not reply.text.strip() and reply.finish == "stop":
                raise Again("sent its whole reply as reasoning and no answer: switch reasoning off")
            return reply
        except Exception as error:
            if isinstance(error, Again):
                raise
            if (own := cause(error)) is not None:
                raise own from error
            status, said = getattr(error, "status", None), shorten(str(error), 500)
            if type(status) is int:
                where = Where(self.name, self.model, "the key of the dspy.LM")
                raise failure(status, {"error": {"message": said}}, {}, where) from error
            text = f"failed: {type(error).__name__}: {said}"
            if is_retryable_lm_error(error):
                raise Again(text, getattr(error, "retry_after", None)) from error
            raise TargetError(f"{self.name} {text}") from error

    async def _reply(self, request: ChatRequest) -> Reply:
        """Returns the reply of a language model that DSPy drives with canonical requests.

        Retries are made by ragc, one by one, because each is charged.
        """
        if not _engine(self.lm):
            return await self._send_legacy(request)
        sampling, longest = request.sampling, self.longest_reply
        reasons = longest is not None  # such a model takes no temperature of ours
        makers = {"user": lm15.Message.user, "assistant": lm15.Message.assistant}
        schema = {"type": "json_schema", "name": "reply", "schema": request.schema, "strict": True}
        is_enforced = request.schema is not None and "schema" in self.capabilities
        sent = lm15.Request(
            model=self.lm.model,
            system="\n\n".join(m.content for m in request.messages if m.role == "system") or None,
            messages=tuple(makers[m.role](m.content) for m in request.messages if m.role != "system"),
            config=lm15.Config(
                max_tokens=longest or sampling.max_tokens,
                temperature=None if reasons else sampling.temperature,
                top_p=None if reasons or sampling.top_p == 1 else sampling.top_p,
                top_k=sampling.top_k,
                stop=sampling.stop,
                seed=sampling.seed,
                response_format=schema if is_enforced else None,
                logprobs=0 if request.logprobs else None,
            ),
        )
        lm, more = _without_retries(self.lm), {"rollout_id": request.sample} if request.sample else {}
        if _awaited(lm):
            response: Any = await lm.acall(sent, cache=False, **more)
        else:
            response = await asyncio.to_thread(lm, sent, cache=False, **more)
        if response.finish_reason == "content_filter":
            raise RequestRefused(
                f"A content filter of {self.name} stopped the reply.", "filtered", refused=False
            )
        text, reasoning, finish = _read_response(response)
        tokens = [getattr(response.usage, f"{name}_tokens", None) for name in _COUNTED]
        scored = tuple(TokenLogprob(t.token, min(0.0, t.logprob)) for t in response.logprobs or ())
        return replace(self._counted(request, text, reasoning, *tokens), finish=finish, logprobs=scored)

    def _counted(self, request: ChatRequest, text: str, reasoning: str = "", *reported: Any) -> Reply:
        """Returns a reply with its `reported` tokens, of prompt, reply, cache and reasoning, or bounds.

        Its dollars are those of LiteLLM's table; the gateway charges a typed price.
        """
        prompt, written, cached, thought = (*map(tokens_in, reported), *[None] * 4)[:4]
        prompt = prompt or sum(self.count_tokens(message.content) for message in request.messages)
        written = self.count_tokens(reasoning + text) if written is None else written
        used = Usage(prompt, written, min(cached or 0, prompt), min(thought or 0, written))
        usd = self._hosted.table_usd(used) if not self.price and self.table_price() else 0.0
        return Reply(text, usage=used, usd=usd, reasoning=reasoning)

    async def _send_legacy(self, request: ChatRequest) -> Reply:
        """Returns the reply of a class with its own `forward`, which takes messages as dictionaries."""
        sampling = request.sampling
        messages = [{"role": m.role, "content": m.content} for m in request.messages]
        settings: dict[str, Any] = {"temperature": sampling.temperature, "max_tokens": sampling.max_tokens}
        if sampling.top_p < 1:
            settings["top_p"] = sampling.top_p
        if request.sample:
            settings["rollout_id"] = request.sample
        with adapter_message_call(self.lm, messages):  # as DSPy's adapters say, so that nobody is warned
            (first, *_) = await asyncio.to_thread(self.lm, messages=messages, **settings)
        text = first.get("text") if isinstance(first, dict) else first
        if not isinstance(text, str):
            raise TargetError(f"{self.name} gave {type(first).__name__} in the place of a text.")
        return self._counted(request, text)

    def count_tokens(self, text: str) -> int:
        """Returns a bound by the scripts of `text`."""
        return bound_tokens(text)

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
        if not _engine(lm) or type(lm).__call__ is not dspy.BaseLM.__call__:
            with adapter_message_call(lm, messages):  # as DSPy's adapters say, so that nobody is warned
                outputs = await asyncio.to_thread(lm, messages=messages, **self._settings)
            return self._counted(request, self._encode(outputs[0] if outputs else None))
        settings, lm = {**self._settings, "cache": False, "n": 1}, _without_retries(lm)
        if _awaited(lm):
            call = await asyncio.to_thread(execution.prepare, lm, None, messages, settings, asynchronous=True)
            result = await execution.aexecute(lm, call)
        else:
            result = await asyncio.to_thread(
                lambda: execution.execute(lm, execution.prepare(lm, None, messages, settings))
            )
        output = result.outputs[0] if result.outputs else None
        reasoning = output.get("reasoning_content") if isinstance(output, dict) else None
        used = dict(result.usage or {})
        tokens: list[Any] = [used.get("prompt_tokens"), used.get("completion_tokens")]
        finish: Finish = "stop"
        if result.responses:
            response = result.responses[0]
            tokens = [getattr(response.usage, f"{name}_tokens", None) for name in _COUNTED]
            finish = "length" if response.finish_reason == "length" else "stop"
        reply = self._counted(request, self._encode(output), str(reasoning or ""), *tokens)
        return replace(reply, finish=finish)


def _read_response(response: Any) -> tuple[str, str, Finish]:
    """Returns text, reasoning and end of a response; a refusal, or tool calls, stand for a text."""

    def joined(kind: type[Any], between: str = "\n\n") -> str:
        parts = response.message.parts
        return between.join(part.text for part in parts if isinstance(part, kind) and part.text)

    text, reasoning = joined(lm15.TextPart, ""), joined(lm15.ThinkingPart)
    if not text.strip() and (refusal := joined(lm15.RefusalPart)):
        return refusal, reasoning, "refusal"
    if not text.strip() and response.tool_calls:
        calls = [(call.name, json.dumps(call.input, default=str)) for call in response.tool_calls]
        if len(calls) > 1:
            return "\n".join(f"{name}({arguments})" for name, arguments in calls), reasoning, "tool_calls"
        text = calls[0][1]
    return text, reasoning, "length" if response.finish_reason == "length" else "stop"


def _without_retries(lm: Any) -> Any:
    """Returns a copy of `lm` that makes one try: each is charged, so ragc makes the retries."""
    single = copy.copy(lm)
    single.num_retries = 0
    return single


def _engine(lm: Any) -> Any:
    """Returns the engine through which DSPy itself drives `lm`; None for a class with its own `forward`."""
    is_driven = isinstance(lm, dspy.LM) and type(lm).forward is dspy.LM.forward and "forward" not in vars(lm)
    return lm.engine if is_driven else None


def _awaited(lm: Any) -> Any:
    """Returns the engine that DSPy awaits for `lm`, its own by name; None if it needs a thread."""
    engine = _engine(lm)
    return engine if isinstance(engine, str) or engine is None else vars(lm).get("_async_engine_spec")


def _is_plain(lm: Any) -> bool:
    """Returns whether `lm` is fully described by model, address and settings."""
    return type(lm) is dspy.LM and isinstance(lm.engine, str)


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


_OWN = "_ragc_target"


def target_of(lm: Any) -> Any:
    """Returns the target behind `lm`, the same for every call; our own target if `lm` was made of it.

    Raises UsageError as `DspyTarget` does.
    """
    engine = getattr(lm, "engine", None)
    if isinstance(engine, RagEngine):
        return engine.target
    held = vars(lm).get(_OWN) if isinstance(lm, dspy.BaseLM) else None
    if not isinstance(held, DspyTarget) or held.lm is not lm:  # a copy of `lm` copies this too
        held = DspyTarget(lm)
        setattr(lm, _OWN, held)
    return held
