"""A `dspy.LM` as a target: our requests are sent by the language model that a user configured.

The counterpart of `ragc.targets.dspy_engine`. DSPy's own cache is not used, since its keys lack the address;
its retries are made by ragc, one by one, because each is charged.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
import dspy
from dspy import is_retryable_lm_error, lm15
from dspy.clients import execution
from dspy.clients.call_result import CallResult

from ragc.core.digest import digest
from ragc.core.display import describe
from ragc.core.redact import mask_keys, remember, remember_environment, shorten
from ragc.errors import CapabilityMissing, RequestRefused, UsageError
from ragc.targets.base import Capability, ChatRequest, Reply, Sampling, Watch, parts_taker
from ragc.targets.dspy_engine import RagEngine, cause
from ragc.targets.hosted import HostedTarget
from ragc.targets.prices import EXAMPLE, Price
from ragc.targets.retry import Again, with_tries
from ragc.targets.wire import Where, bound_tokens, failure, read_reply, response_format, tokens_in

_UNNAMED = frozenset({"api_key", "temperature", "max_tokens", "max_completion_tokens", "rollout_id", "n"})
"""Settings of a language model that each request sets, or that say nothing of what answers."""

Call = tuple[Sequence[Mapping[str, Any]], Mapping[str, Any], Callable[[Any], str]]
"""Messages and settings of one call, and what converts its output, a text or a dictionary, to a text."""

_MARK, _TARGET = "_ragc_identity", "_ragc_target"


class DspyTarget:
    """The target of `lm`. Requests decide how a reply is drawn, not the settings of `lm`.

    Replies are stored under the model, the address and the other settings of `lm`, never its key. An `lm`
    with an engine or a `forward` of its own has an identity of its own: its replies are not replayed in
    another process. `context_tokens` is what the model reads, of which DSPy says nothing. `price` is the
    price of its tokens, as in `ragc.targets.prices.Price`; else the attribute `price` of `lm`, else LiteLLM's
    table, for one without an engine of its own. Raises UsageError for what is no language model.
    """

    def __init__(
        self,
        lm: Any,
        *,
        context_tokens: int = 32_768,
        concurrency: int = 8,
        price: Mapping[str, float] | None = None,
    ) -> None:
        if not isinstance(lm, dspy.BaseLM):
            raise UsageError(
                f"A language model of DSPy is needed, such as dspy.LM('openai/gpt-4o-mini'), found "
                f"{type(lm).__name__}; pass lm=dspy.LM(...)."
            )
        remember_environment()
        remember(str(lm.kwargs.get("api_key") or ""))
        self.lm, self.model, self.name = lm, str(lm.model), f"dspy {lm.model}"
        self.context_tokens, self.concurrency = context_tokens, concurrency
        self._price = None if price is None else Price.of(price, f"The price of {self.name}, {EXAMPLE}: ")
        self._hosted = HostedTarget(self.model) if _is_plain(lm) else None  # for its price

    def __deepcopy__(self, memo: object) -> DspyTarget:
        return self

    def __repr__(self) -> str:
        return describe(type(self).__name__, repr(self.model))

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The model's capabilities according to DSPy."""
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

    def table_price(self) -> Price | None:
        """Returns the price of the model in LiteLLM's table; None without one, and for a user's engine."""
        return self._hosted.table_price() if self._hosted else None

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
        if self._hosted is None or self.table_price() is None:
            return reply
        return replace(reply, usd=self._hosted.table_usd(reply.usage))

    async def _attempt(self, request: ChatRequest) -> Reply:
        """Makes one try. Raises Again where another may succeed."""
        where = Where(self.name, self.model, "the key of the dspy.LM")
        try:
            return read_reply(await self._completion(request), request, self.count_tokens, where)
        except Again:
            raise
        except Exception as error:
            if (own := cause(error)) is not None:
                raise own from None
            status, wait = (getattr(error, name, None) for name in ("status", "retry_after"))
            said = shorten(str(error), 500)
            if type(status) is int:
                headers = {"retry-after": str(wait)} if wait else {}
                raise failure(status, {"error": {"message": said}}, headers, where) from error
            text = f"failed: {type(error).__name__}: {said}"
            if is_retryable_lm_error(error):
                raise Again(text, wait) from error
            raise RequestRefused(
                f"{self.name} {text}.", "failed", endpoint=self.name, refused=False
            ) from error

    def _call(self, request: ChatRequest) -> Call:
        """Returns `request` as a call of DSPy."""
        settings = {} if self.longest_reply else settings_of(request.sampling)
        settings |= {"rollout_id": request.sample or None, "logprobs": request.logprobs or None}
        if request.schema is not None and "schema" in self.capabilities:
            settings["response_format"] = response_format(request.schema)
        known = self.lm.kwargs  # whose values do not count
        sent = {name: value for name, value in settings.items() if value is not None or name in known}
        return [{"role": m.role, "content": m.content} for m in request.messages], sent, _text_of

    async def _completion(self, request: ChatRequest) -> dict[str, Any]:
        """Returns the reply in the form of a chat completion, which every kind of target reads alike."""
        messages, settings, encode = self._call(request)
        result = await _result(self.lm, list(map(dict, messages)), settings)
        output = result.outputs[0] if result.outputs else None
        more = output if isinstance(output, dict) else {}
        message = {name: more.get(name) for name in ("reasoning_content", "tool_calls")}
        message["content"] = encode(output)
        parts = [part for response in result.responses for part in response.message.parts]
        message["refusal"] = "".join(part.text for part in parts if isinstance(part, lm15.RefusalPart))
        ends = result.responses or getattr(result.raw, "choices", ())  # of lm15, or of LiteLLM
        finish = getattr(ends[0], "finish_reason", "stop") if ends else "stop"
        choice = {"message": message, "finish_reason": finish, "logprobs": more.get("logprobs")}
        return {"choices": [choice], "usage": result.usage}

    def count_tokens(self, text: str) -> int:
        """Returns a bound by the scripts of `text`."""
        return bound_tokens(text)

    async def aclose(self) -> None:
        """Does nothing: the language model is the caller's."""


class AdapterTarget(DspyTarget):
    """`target` for one request of a DSPy adapter, which made the messages and settings of `call`.

    They are sent as is, so the language model gets the same as in plain DSPy, its own settings included. The
    store and the budget use the ChatRequest that represents them.
    """

    def __init__(self, target: DspyTarget, call: Call) -> None:
        vars(self).update(vars(target))
        self._sent = call

    def _call(self, request: ChatRequest) -> Call:
        return self._sent


def settings_of(sampling: Sampling) -> dict[str, Any]:
    """Returns `sampling` as the settings of a call of DSPy; None for those that are left to the model."""
    settings = {name: getattr(sampling, name) for name in Sampling.__slots__}
    top_p = None if sampling.top_p == 1 else sampling.top_p
    return settings | {"top_p": top_p, "stop": list(sampling.stop) or None}


def _text_of(output: Any) -> str:
    text = output.get("text") if isinstance(output, dict) else output
    return "" if text is None else str(text)


def _engine(lm: Any) -> Any:
    """Returns the engine through which DSPy itself drives `lm`; None for a class with its own `forward`."""
    is_driven = isinstance(lm, dspy.LM) and type(lm).forward is dspy.LM.forward and "forward" not in vars(lm)
    return lm.engine if is_driven else None


async def _result(lm: Any, messages: list[Any], settings: Mapping[str, Any]) -> CallResult:
    """Awaits a call of `lm`; calls it in a thread where it, or its engine, cannot be awaited."""
    if (engine := _engine(lm)) is not None:
        lm, settings = lm.copy(num_retries=0), {**settings, "cache": False, "n": 1}
    if type(lm).__call__ is not dspy.BaseLM.__call__:
        ask = partial(lm, messages=messages, **settings)
        return CallResult(outputs=await anyio.to_thread.run_sync(ask))
    if engine is not None:
        try:
            call = execution.prepare(lm, None, messages, settings, asynchronous=True)
            return await execution.aexecute(lm, call)
        except dspy.LMUnsupportedFeatureError:
            if isinstance(engine, str):
                raise
    call = execution.prepare(lm, None, messages, settings)
    return await anyio.to_thread.run_sync(execution.execute, lm, call)


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
