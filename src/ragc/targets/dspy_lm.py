"""DSPy's language models as targets, and targets as DSPy's language models, by DSPy's engine interface.

DSPy's own cache and retries are used in neither direction. Its keys lack the address, and every try is
charged: the call store and the target replace them.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import anyio
import dspy
from dspy import is_retryable_lm_error, lm15
from dspy.clients import execution
from dspy.clients.call_result import CallResult

from ragc.core import event_loop
from ragc.core.digest import digest
from ragc.core.redact import mask_keys, remember, remember_environment, shorten
from ragc.errors import CapabilityMissing, RagcError, RequestRefused, UsageError
from ragc.targets.base import (
    Capability,
    ChatRequest,
    Message,
    Reply,
    Sampling,
    Target,
    Watch,
    parts_taker,
)
from ragc.targets.hosted import HostedTarget
from ragc.targets.prices import EXAMPLE, Price
from ragc.targets.retry import Again, with_tries
from ragc.targets.wire import Where, bound_tokens, failure, read_reply, response_format, tokens_in

_UNNAMED = frozenset({"api_key", "temperature", "max_tokens", "max_completion_tokens", "rollout_id", "n"})
"""Settings of a language model that each request sets, or that say nothing of what answers."""

Complete = Callable[[ChatRequest], Coroutine[Any, Any, Reply]]

_numbers: ContextVar[Iterator[int]] = ContextVar("ragc_sample_numbers")
"""The numbers of the next samples of the DSPy call in this context."""

_ROLES: Mapping[str, Any] = {"developer": "system"}
_UNUSED = ("frequency_penalty", "presence_penalty", "reasoning", "tool_choice", "probabilities")
_MARK, _TARGET = "_ragc_identity", "_ragc_target"


@dataclass(frozen=True, slots=True)
class LMRequest(ChatRequest):
    """A call of a `dspy.LM` by a program of its user; `send` makes it where it was called, as the caller set.

    `messages` and `schema`, with the settings, are what identifies it. The text of its reply is the list of
    the call's outputs in JSON.
    """

    send: Callable[[], Awaitable[Reply]] = field(kw_only=True, compare=False)


class DspyTarget:
    """The target of `lm`. Requests decide how a reply is drawn, not the settings of `lm`.

    Replies are stored under the model, the address and the other settings of `lm`, never its key. An `lm`
    with an engine or a `forward` of its own has an identity of its own: its replies are not replayed in
    another process. `context_tokens` is what the model reads, of which DSPy says nothing. `price` is the
    price of its tokens, as in `ragc.targets.prices.Price`; else the attribute `price` of `lm`, else LiteLLM's
    table, for one without an engine of its own. An LMRequest is sent as it was made, and tried again by DSPy
    alone. Raises UsageError for what is no language model.
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
        self._identity: tuple[Any, str] = None, ""
        self._price = None if price is None else Price.of(price, f"The price of {self.name}, {EXAMPLE}: ")
        # Model, address and settings say all of it; then LiteLLM may have its price.
        is_plain = type(lm) is dspy.LM and isinstance(lm.engine, str)
        self._hosted = HostedTarget(self.model) if is_plain else None

    def __deepcopy__(self, memo: object) -> DspyTarget:
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r})"

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The model's capabilities according to DSPy."""
        able: dict[Capability, bool] = {
            "schema": self.lm.supports_response_schema,
            "logprobs": "logprobs" in self.lm.supported_params,
        }
        return frozenset(name for name, is_able in able.items() if is_able)

    @property
    def sampling(self) -> dict[str, Any]:
        """The settings of `lm` that say how replies are drawn, as far as it has them."""
        names = ("temperature", "top_p", "max_tokens")
        return {name: self.lm.kwargs[name] for name in names if self.lm.kwargs.get(name) is not None}

    @property
    def identity(self) -> str:
        """The identity: class, model, address and settings; a unique mark for a user's own engine."""
        lm = self.lm
        if self._identity[0] != lm.kwargs:  # which a user may change
            settings = {name: repr(value) for name, value in lm.kwargs.items() if name not in _UNNAMED}
            own = "" if self._hosted else vars(lm).setdefault(_MARK, uuid.uuid4().hex)
            kind = f"{type(lm).__module__}.{type(lm).__qualname__}"
            name = f"dspy {self.model} {digest([kind, lm.model_type, settings, own])}"
            self._identity = dict(lm.kwargs), name
        return self._identity[1]

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
        take = parts_taker.get()
        engine = None if isinstance(request, LMRequest) else _engine(self.lm)  # DSPy itself tries those again
        streams = isinstance(engine, str) or hasattr(engine, "stream")
        stream = _StreamParts(take) if take is not None and streams else None
        # What DSPy keeps of a call is kept by whoever asked, once, whether it is sent or cached.
        quiet = dspy.context(disable_history=True, usage_tracker=None, send_stream=stream)
        with nullcontext() if isinstance(request, LMRequest) else quiet:
            reply = await with_tries(
                lambda: self._attempt(request),
                self.name,
                tries=1 + int(getattr(self.lm, "num_retries", 0)) if engine else 1,
                may_repeat=lambda: stream is None or not stream.has_sent,
            )
        if self._hosted is not None and self.table_price() is not None:
            return replace(reply, usd=self._hosted.table_usd(reply.usage))
        return reply

    async def _attempt(self, request: ChatRequest) -> Reply:
        """Makes one try. Raises Again where another may succeed."""
        where = Where(self.name, self.model, "the key of the dspy.LM")
        try:
            if isinstance(request, LMRequest):
                return await request.send()
            body = await self._completion(request)
        except Exception as error:
            if (own := cause(error)) is not None:
                raise own from None
            status, wait = (getattr(error, name, None) for name in ("status", "retry_after"))
            said = shorten(str(error), 500)
            if isinstance(error, dspy.ContextWindowExceededError):
                raise RequestRefused(
                    f"{self.name} failed: {said}.", "too long", endpoint=self.name
                ) from error
            if type(status) is int:
                raise failure(
                    status, {"error": {"message": said}}, {"retry-after": str(wait or "")}, where
                ) from error
            text = f"failed: {type(error).__name__}: {said}"
            if is_retryable_lm_error(error):
                raise Again(text, wait) from error
            raise RequestRefused(
                f"{self.name} {text}.", "failed", endpoint=self.name, refused=False
            ) from error
        return read_reply(body, request, self.count_tokens, where)

    def _call(self, request: ChatRequest) -> tuple[list[dict[str, str]], dict[str, Any]]:
        """Returns messages and settings of `request` as a call of DSPy."""
        settings = {} if self.longest_reply else settings_of(request.sampling)
        settings |= {"rollout_id": request.sample or None, "logprobs": request.logprobs or None}
        if request.schema is not None and "schema" in self.capabilities:
            settings["response_format"] = response_format(request.schema)
        known = self.lm.kwargs  # whose values do not count
        sent = {name: value for name, value in settings.items() if value is not None or name in known}
        return [{"role": m.role, "content": m.content} for m in request.messages], sent

    async def _completion(self, request: ChatRequest) -> dict[str, Any]:
        """Returns the reply in the form of a chat completion, which every kind of target reads alike."""
        result = await _result(self.lm, *self._call(request))
        output = result.outputs[0] if result.outputs else None
        more = output if isinstance(output, dict) else {"text": output}
        parts = [part for response in result.responses for part in response.message.parts]
        message = {
            "content": more.get("text"),
            "reasoning_content": more.get("reasoning_content"),
            "refusal": "".join(part.text for part in parts if isinstance(part, lm15.RefusalPart)),
            "tool_calls": more.get("tool_calls"),
        }
        ends = result.responses or getattr(result.raw, "choices", ())  # of lm15, or of LiteLLM
        finish = getattr(ends[0], "finish_reason", "stop") if ends else "stop"
        choice = {"message": message, "finish_reason": finish, "logprobs": more.get("logprobs")}
        return {"choices": [choice], "usage": result.usage}

    count_tokens = staticmethod(bound_tokens)

    async def aclose(self) -> None:
        """Does nothing: the language model is the caller's."""


def settings_of(sampling: Sampling) -> dict[str, Any]:
    """Returns `sampling` as the settings of a call of DSPy; None for those that are left to the model."""
    settings = {name: getattr(sampling, name) for name in Sampling.__slots__}
    top_p = None if sampling.top_p == 1 else sampling.top_p
    return settings | {"top_p": top_p, "stop": list(sampling.stop) or None}


def _engine(lm: Any) -> Any:
    """Returns the engine through which DSPy itself drives `lm`; None for a class with its own `forward`."""
    is_driven = isinstance(lm, dspy.LM) and type(lm).forward is dspy.LM.forward and "forward" not in vars(lm)
    return lm.engine if is_driven else None


async def _result(lm: Any, messages: list[Any], settings: Mapping[str, Any]) -> CallResult:
    """Awaits a call of `lm`; calls it in a thread where it, or its engine, cannot be awaited.

    A public call returns neither tokens nor how the reply ended, warns of messages as adapters make them, and
    takes a third longer.
    """
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


class _StreamParts:
    """DSPy's stream of one reply, whose text goes to `take`."""

    def __init__(self, take: Callable[[str], None]) -> None:
        self._take, self.has_sent = take, False

    async def send(self, chunk: Any) -> None:
        """Takes one of DSPy's chunks; status messages of the language model are left out."""
        for choice in (getattr(chunk, "choices", None) or ())[:1]:
            self.has_sent = True
            self._take(mask_keys(choice.delta.content or ""))


def cause(error: BaseException) -> RagcError | None:
    """Returns the ragc error in the cause chain of a DSPy error, or None: DSPy wraps an engine's errors."""
    found: BaseException | None = error
    while found is not None and not isinstance(found, RagcError):
        found = found.__cause__
    return found


class RagLM(dspy.LM):
    """A `dspy.LM` that numbers the samples of one call for its engine, which DSPy does not do.

    One that `answers_programs` replaces a program's target in `dspy.context(lm=...)`.
    """

    answers_programs: ClassVar[bool] = True

    def __call__(self, prompt: Any = None, *, messages: Any = None, **kwargs: Any) -> Any:
        """Calls the model as `dspy.LM` does, with numbered samples."""
        self._number_samples(kwargs)
        return super().__call__(prompt, messages=messages, **kwargs)

    async def acall(self, prompt: Any = None, *, messages: Any = None, **kwargs: Any) -> Any:
        """Awaits what `__call__` returns."""
        self._number_samples(kwargs)
        return await super().acall(prompt, messages=messages, **kwargs)

    def _number_samples(self, kwargs: Mapping[str, Any]) -> None:
        """Numbers the samples of one call: 0, 1, …, or from 1024 times the rollout id."""
        rollout = (self.kwargs | kwargs).get("rollout_id") or 0
        _numbers.set(itertools.count(1024 * rollout))


class OwnLM(RagLM):
    """The targets of a program as one LM, so that DSPy can copy it and number draws; it chooses no target."""


class RagEngine:
    """DSPy's engine interface over a target; a deep copy is the engine itself.

    It declares the target's capabilities; otherwise JSONAdapter would send no schema.
    """

    def __init__(self, complete: Complete, target: Target, sampling: Sampling) -> None:
        self._complete, self.target, self.sampling = complete, target, sampling

    def __deepcopy__(self, memo: object) -> RagEngine:
        return self

    @property
    def supports_response_schema(self) -> bool:
        """Whether replies can be constrained to a JSON schema."""
        return "schema" in self.target.capabilities

    @property
    def supported_params(self) -> frozenset[str]:
        """The OpenAI parameters that reach the target."""
        needs = {"response_format": "schema", "seed": "seed", "logprobs": "logprobs"}
        named = {name for name, capability in needs.items() if capability in self.target.capabilities}
        return frozenset({"temperature", "max_tokens", "top_p", "top_k", "stop"} | named)

    def complete(self, request: lm15.Request) -> lm15.Response:
        """Returns the response to one request. Blocks, so it must not be called on the process's loop."""
        return event_loop.run(self.respond(request))

    def stream(self, request: lm15.Request) -> Iterator[Any]:
        """Yields the whole response as one batch of events."""
        yield from lm15.response_to_events(self.complete(request))

    async def respond(self, request: lm15.Request) -> lm15.Response:
        """Awaits the response to one request; `cause` finds ragc's error in what DSPy makes of it."""
        chat = self.to_chat(request)
        try:
            reply = await self._complete(chat)
        except RequestRefused as error:
            if error.kind == "too long":  # agents shorten what they send
                raise lm15.ContextLengthError(str(error)) from error
            raise
        usage = reply.usage
        return lm15.Response(
            id=None,
            model=self.target.model,
            message=lm15.Message.assistant(reply.text),
            finish_reason="length" if reply.finish == "length" else "stop",
            usage=lm15.Usage(
                input_tokens=usage.prompt, output_tokens=usage.completion, cache_read_tokens=usage.cached
            ),
            logprobs=tuple(lm15.TokenLogprob(*token) for token in reply.logprobs) if chat.logprobs else None,
            provider_data={"usd": reply.usd},
        )

    def to_chat(self, request: lm15.Request) -> ChatRequest:
        """Returns `request` as a ChatRequest; raises lm15.UnsupportedFeatureError for others."""
        config, able, named = request.config, self.target.capabilities, self.target.name
        unused = [name for name in _UNUSED if getattr(config, name) is not None]
        unused += sorted(set(config.extensions or {}) - {"min_p"}) + (["tools"] if request.tools else [])
        if config.logprobs is not None and (config.logprobs or "logprobs" not in able):
            unused.append("top_logprobs" if config.logprobs else "logprobs")
        if unused:
            raise lm15.UnsupportedFeatureError(f"{named} takes no {', '.join(unused)}.")
        names = ("temperature", "top_p", "max_tokens", "top_k", "seed", "stop")
        settings = {name: getattr(config, name) for name in names} | (config.extensions or {})
        sampling = replace(self.sampling, **{k: v for k, v in settings.items() if v is not None and v != ()})
        system = [] if request.system is None else [Message("system", _text(request.system))]
        turns = [Message(_ROLES.get(turn.role, turn.role), _text(turn.parts)) for turn in request.messages]
        form, number = config.response_format, next(_numbers.get(itertools.repeat(0)))
        return ChatRequest(
            messages=(*system, *turns),
            # A format without a schema asks for any object.
            schema=form.get("schema", {"type": "object"}) if form and "schema" in able else None,
            sampling=sampling,
            logprobs=config.logprobs is not None,
            sample=number if sampling.temperature > 0 else 0,
        )


class AsyncRagEngine:
    """The asynchronous counterpart of a RagEngine."""

    def __init__(self, sync: RagEngine) -> None:
        self.complete = sync.respond

    async def stream(self, request: lm15.Request) -> AsyncIterator[Any]:
        """Yields the whole response as one batch of events."""
        for event in lm15.response_to_events(await self.complete(request)):
            yield event


def _text(parts: Any) -> str:
    """Returns the parts' text in order, without earlier reasoning."""
    if isinstance(parts, str):
        return parts
    if unsent := [part.type for part in parts if part.type not in ("text", "thinking")]:
        raise lm15.UnsupportedFeatureError(f"Only text can be sent, not a part of type {unsent[0]!r}.")
    return "".join(part.text for part in parts if part.type == "text")


def as_lm(
    complete: Complete,
    target: Target,
    *,
    sampling: Sampling = Sampling(),  # noqa: B008
    kind: type[RagLM] = RagLM,
) -> dspy.LM:
    """Returns a `dspy.LM` named `ragc/<model>` that calls `complete`.

    `complete` is the store-backed gateway bound to `target`. `sampling` applies unless a call sets other
    values. With temperature > 0, `n` and `rollout_id` become sample indices, so that repeated samples are
    stored separately. `min_p` comes from `sampling` or an explicit lm15.Request: DSPy refuses it in an
    ordinary call.
    """
    engine = RagEngine(complete, target, sampling)
    lm = kind(
        "ragc/target",
        engine=engine,
        async_engine=AsyncRagEngine(engine),
        temperature=sampling.temperature,
        max_tokens=sampling.max_tokens,
        cache=False,
        num_retries=0,
    )
    # DSPy refuses temperature and limit for names like those of OpenAI's reasoning models.
    lm.model = f"ragc/{target.model}"
    return lm


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
