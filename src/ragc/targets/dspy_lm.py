"""A `dspy.LM` as a target: our requests are sent by the language model that a user configured.

The counterpart of `ragc.targets.dspy_engine`. DSPy's own cache is not used, since its keys lack the address;
its retries are made by ragc, one by one, because each is charged.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import anyio
import dspy
from dspy import is_retryable_lm_error, lm15
from dspy.clients import execution

from ragc.core.digest import digest
from ragc.core.display import describe
from ragc.core.redact import mask_keys, remember, remember_environment, shorten
from ragc.errors import CapabilityMissing, RagcError, RequestRefused, UsageError
from ragc.targets.base import Capability, ChatRequest, Reply, Watch, parts_taker
from ragc.targets.dspy_engine import RagEngine, cause
from ragc.targets.prices import Price
from ragc.targets.retry import Again, with_tries
from ragc.targets.wire import Where, bound_tokens, failure, read_reply, tokens_in

CONTEXT_TOKENS = 32_768
"""Tokens of a context where the caller names none: DSPy does not say how much a model reads."""

_UNNAMED = frozenset({
    "api_key", "temperature", "max_tokens", "max_completion_tokens", "rollout_id", "n", "top_p", "stop",
    "seed",
})  # fmt: skip
"""Settings of a language model that each request sets, or that say nothing of what answers."""

_MARK, _TARGET = "_ragc_identity", "_ragc_target"


class DspyTarget:
    """The target of `lm`. Requests decide how a reply is drawn, not the settings of `lm`.

    Replies are stored under the model, the address and the other settings of `lm`, never its key. An `lm`
    with an engine or a `forward` of its own has an identity of its own: its replies are not replayed in
    another process. `price` is the price of its tokens, as in `ragc.targets.prices.Price`; else the
    attribute `price` of `lm`, else LiteLLM's table, for one without an engine of its own. Raises UsageError
    for what is no language model.
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
        for name, size in (("context_tokens", context_tokens), ("concurrency", concurrency)):
            if type(size) is not int or size < 1:
                raise UsageError(f"{name} must be a whole number from 1, found {size!r}.")
        remember_environment()
        remember(str(lm.kwargs.get("api_key") or ""))
        self.lm, self.model, self.name = lm, str(lm.model), f"dspy {lm.model}"
        self.context_tokens, self.concurrency = context_tokens, concurrency
        self._price = None if price is None else Price.of(price)

    def __deepcopy__(self, memo: object) -> DspyTarget:
        return self

    def __repr__(self) -> str:
        return describe(type(self).__name__, repr(self.model))

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The model's capabilities according to DSPy; none for a class that overrides `forward`."""
        able: list[Capability] = []
        if _engine(self.lm) and self.lm.supports_response_schema:
            able.append("schema")
        if _engine(self.lm) and "logprobs" in self.lm.supported_params:
            able.append("logprobs")
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
        return tokens_in(self.lm.kwargs.get("max_completion_tokens"))

    async def open(self, progress: Watch | None = None) -> None:
        """Does nothing: DSPy reaches the model at the first request."""

    async def complete(self, request: ChatRequest) -> Reply:
        """Returns one reply. Raises as `Target.complete`."""
        if request.logprobs and "logprobs" not in self.capabilities:
            raise CapabilityMissing(f"{self.name} gives no logprobs; choose another target.")
        take, engine = parts_taker.get(), _engine(self.lm)
        streams = isinstance(engine, str) or hasattr(engine, "stream")
        stream = _StreamParts(take) if take is not None and streams else None
        # What DSPy keeps of a call is kept by whoever asked, once, whether it is sent or cached.
        with dspy.context(disable_history=True, usage_tracker=None, send_stream=stream):
            reply = await with_tries(
                lambda: self._attempt(request),
                self.name,
                tries=1 + int(getattr(self.lm, "num_retries", 0)) if engine else 1,
                may_repeat=lambda: stream is None or not stream.has_sent,
            )
        if self.price or not self.table_price():
            return reply
        return replace(reply, usd=self._hosted.table_usd(reply.usage))

    async def _attempt(self, request: ChatRequest) -> Reply:
        """Makes one try. Raises Again where another may succeed."""
        where = Where(self.name, self.model, "the key of the dspy.LM")
        try:
            return read_reply(await self._completion(request), request, self.count_tokens, where)
        except (Again, RagcError):
            raise
        except Exception as error:
            if (own := cause(error)) is not None:
                raise own from error
            status, wait = (getattr(error, name, None) for name in ("status", "retry_after"))
            said = shorten(str(error), 500)
            if type(status) is int:
                headers = {} if wait is None else {"retry-after": str(wait)}
                raise failure(status, {"error": {"message": said}}, headers, where) from error
            text = f"failed: {type(error).__name__}: {said}"
            if is_retryable_lm_error(error):
                raise Again(text, wait) from error
            raise RequestRefused(
                f"{self.name} {text}.", "failed", endpoint=self.name, refused=False
            ) from error

    async def _completion(self, request: ChatRequest) -> dict[str, Any]:
        """Returns the reply in the form of a chat completion, which every kind of target reads alike."""
        if not _engine(self.lm):
            return await self._call(*_in_words_of_an_adapter(request))
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
        lm = self.lm.copy(num_retries=0)
        settings = {"cache": False, **({"rollout_id": request.sample} if request.sample else {})}
        return _body_of(await _awaited(lm, lambda: lm.acall(sent, **settings), lambda: lm(sent, **settings)))

    async def _call(
        self, messages: Sequence[Mapping[str, Any]], settings: Mapping[str, Any], encode: Callable[[Any], str]
    ) -> dict[str, Any]:
        """Returns the reply to the call of an adapter, whose output `encode` converts to a text."""
        lm, sent = self.lm, list(map(dict, messages))
        if type(lm).__call__ is not dspy.BaseLM.__call__:
            outputs, used, finish = await asyncio.to_thread(lm, messages=sent, **settings), {}, "stop"
        else:
            if _engine(lm):
                lm, settings = lm.copy(num_retries=0), {**settings, "cache": False, "n": 1}

            async def ask() -> Any:
                call = await asyncio.to_thread(execution.prepare, lm, None, sent, settings, asynchronous=True)
                return await execution.aexecute(lm, call)

            result = await _awaited(
                lm, ask, lambda: execution.execute(lm, execution.prepare(lm, None, sent, settings))
            )
            outputs, used = result.outputs, result.usage
            finish = result.responses[0].finish_reason if result.responses else "stop"
        output = outputs[0] if outputs else None
        reasoning = output.get("reasoning_content") if isinstance(output, dict) else None
        message = {"content": encode(output), "reasoning_content": reasoning}
        return {"choices": [{"message": message, "finish_reason": finish}], "usage": dict(used or {})}

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
        self._arguments = messages, dict(settings), encode

    async def _completion(self, request: ChatRequest) -> dict[str, Any]:
        return await self._call(*self._arguments)


def _in_words_of_an_adapter(request: ChatRequest) -> tuple[Any, dict[str, Any], Callable[[Any], str]]:
    """Returns `request` for a class with its own `forward`, which takes messages as dictionaries."""
    sampling = request.sampling
    messages = [{"role": m.role, "content": m.content} for m in request.messages]
    settings: dict[str, Any] = {"temperature": sampling.temperature, "max_tokens": sampling.max_tokens}
    if sampling.top_p < 1:
        settings["top_p"] = sampling.top_p
    if request.sample:
        settings["rollout_id"] = request.sample

    def encode(output: Any) -> str:
        text = output.get("text") if isinstance(output, dict) else output
        if not isinstance(text, str):
            raise TypeError(f"it gave {type(output).__name__} in the place of a text")
        return text

    return messages, settings, encode


def _body_of(response: lm15.Response) -> dict[str, Any]:
    """Returns `response` in the form of a chat completion."""

    def joined(kind: type[Any], between: str = "\n\n") -> str:
        return between.join(part.text for part in response.message.parts if isinstance(part, kind))

    used = response.usage
    calls = [
        {"name": call.name, "arguments": json.dumps(call.input, default=str)} for call in response.tool_calls
    ]
    message = {
        "content": joined(lm15.TextPart, ""),
        "reasoning_content": joined(lm15.ThinkingPart),
        "refusal": joined(lm15.RefusalPart),
        "tool_calls": [{"function": call} for call in calls],
    }
    scored = [{"token": token.token, "logprob": token.logprob} for token in response.logprobs or ()]
    return {
        "choices": [
            {"message": message, "finish_reason": response.finish_reason, "logprobs": {"content": scored}}
        ],
        "usage": {
            "prompt_tokens": used.input_tokens,
            "completion_tokens": used.output_tokens,
            "prompt_tokens_details": {"cached_tokens": used.cache_read_tokens},
            "completion_tokens_details": {"reasoning_tokens": used.reasoning_tokens},
        },
    }


def _engine(lm: Any) -> Any:
    """Returns the engine through which DSPy itself drives `lm`; None for a class with its own `forward`."""
    is_driven = isinstance(lm, dspy.LM) and type(lm).forward is dspy.LM.forward and "forward" not in vars(lm)
    return lm.engine if is_driven else None


async def _awaited(lm: Any, ask: Callable[[], Awaitable[Any]], wait: Callable[[], Any]) -> Any:
    """Awaits `ask`, a call of `lm`, or calls `wait` in a thread where the engine cannot be awaited."""
    engine = _engine(lm)
    try:
        if engine is not None:
            return await ask()
    except dspy.LMUnsupportedFeatureError:
        if isinstance(engine, str):
            raise
    return await anyio.to_thread.run_sync(wait)


def _is_plain(lm: Any) -> bool:
    """Returns whether `lm` is fully described by model, address and settings."""
    return type(lm) is dspy.LM and isinstance(lm.engine, str)


class _StreamParts:
    """DSPy's stream of one reply, whose text goes to `take`."""

    def __init__(self, take: Callable[[str], None]) -> None:
        self._take, self.has_sent = take, False

    async def send(self, chunk: Any) -> None:
        """Takes one of DSPy's chunks; status messages of the language model are left out."""
        for choice in (getattr(chunk, "choices", None) or ())[:1]:
            self.has_sent = True
            self._take(mask_keys(choice.delta.content or ""))


def target_of(lm: Any) -> Any:
    """Returns the target behind `lm`, the same for every call; our own target if `lm` was made of it.

    Raises UsageError as `DspyTarget` does.
    """
    engine = getattr(lm, "engine", None)
    if isinstance(engine, RagEngine):
        return engine.target
    held = vars(lm).get(_TARGET) if isinstance(lm, dspy.BaseLM) else None
    if not isinstance(held, DspyTarget) or held.lm is not lm:  # a copy of `lm` copies this too
        held = DspyTarget(lm)
        setattr(lm, _TARGET, held)
    return held
