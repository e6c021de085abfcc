"""Targets as DSPy language models, for DSPy's own optimizers and modules.

DSPy 3.4.1 calls a custom engine with one canonical request for one response (`dspy/clients/engines/base.py`).
Its cache and its retries are off here: the call store and the target replace them.

`RagLM` numbers the samples of one DSPy call; DSPy requests them from an engine one by one, without numbers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import dspy
from dspy import lm15

from ragc.core import event_loop
from ragc.core.digest import canonical
from ragc.errors import (
    BudgetExhausted,
    CapabilityMissing,
    RagcError,
    RequestRefused,
    TargetError,
    TargetUnavailable,
)
from ragc.targets.base import ChatRequest, Message, Reply, Sampling, Target

Complete = Callable[[ChatRequest], Coroutine[Any, Any, Reply]]

_BITS = 10
"""Maximum number of samples per rollout, as a power of two."""


@dataclass(slots=True)
class DrawNumbers:
    """Sample indices of one call: how many are `left`, and the replies that were requested ahead."""

    number: int
    left: int
    ahead: dict[int, tuple[ChatRequest, Reply]] = field(default_factory=dict)

    def next(self) -> int:
        """Returns the index of the next sample."""
        self.number, self.left = self.number + 1, self.left - 1
        return self.number - 1


_draws: ContextVar[DrawNumbers | None] = ContextVar("ragc_draws", default=None)


@contextmanager
def number_draws(kwargs: Mapping[str, Any]) -> Iterator[None]:
    """Numbers the samples of one call until exit: 0, 1, …, or from 1024 times the rollout id."""
    token = _draws.set(DrawNumbers((kwargs.get("rollout_id") or 0) << _BITS, kwargs.get("n") or 1))
    try:
        yield
    finally:
        _draws.reset(token)


def next_draw() -> int:
    """Returns the index of the next sample in this context; 0 without `number_draws`."""
    draws = _draws.get()
    return 0 if draws is None else draws.next()


async def complete_ahead(complete: Complete, request: ChatRequest, *, several: bool) -> Reply:
    """Returns the reply to `request`, for the sample that `next_draw` numbered last.

    With `several`, the remaining samples of the call are requested at the same time, and held until needed.
    """
    draws = _draws.get()
    if draws is None or not several or request.sampling.temperature == 0:
        return await complete(request)
    known = draws.ahead.pop(request.sample, None)
    if known is not None and known[0] == request:
        return known[1]
    requests = [replace(request, sample=request.sample + i) for i in range(1 + max(0, draws.left))]
    first, *others = await asyncio.gather(*map(complete, requests))
    draws.ahead = {one.sample: (one, reply) for one, reply in zip(requests[1:], others, strict=True)}
    return first


Submit = Callable[[Coroutine[Any, Any, Reply]], Reply]

GREEDY = Sampling()

_ROLES = {"user": "user", "assistant": "assistant", "developer": "system"}
_UNUSED = ("frequency_penalty", "presence_penalty", "reasoning", "tool_choice", "probabilities")


def as_lm(
    complete: Complete,
    target: Target,
    *,
    sampling: Sampling = GREEDY,
    submit: Submit = event_loop.run,
    kind: type[RagLM] | None = None,
) -> dspy.LM:
    """Returns a `dspy.LM` named `ragc/<model>` that calls `complete`; a RagLM unless `kind` is given.

    `complete` is the store-backed gateway bound to `target`; `submit` runs it for synchronous callers and
    waits. `sampling` applies unless a call sets other values. With temperature > 0, `n` and `rollout_id`
    become sample indices, so that repeated samples are stored separately. `min_p` comes from `sampling` or an
    explicit lm15.Request: DSPy refuses it in an ordinary call.
    """
    engine = RagEngine(complete, target, sampling=sampling, submit=submit)
    return (kind or RagLM)(
        f"ragc/{target.model}",
        engine=engine,
        async_engine=AsyncRagEngine(engine),
        temperature=sampling.temperature,
        max_tokens=sampling.max_tokens,
        cache=False,
        num_retries=0,
    )


def cause(error: BaseException) -> RagcError | None:
    """Returns the ragc error in the cause chain of a DSPy error, or None: DSPy wraps an engine's errors."""
    at: BaseException | None = error
    while at is not None and not isinstance(at, RagcError):
        at = at.__cause__
    return at


class RagLM(dspy.LM):
    """A `dspy.LM` that numbers the samples of one call for its engine, which DSPy does not do.

    One that `answers_programs` replaces a program's target in `dspy.context(lm=...)`.
    """

    answers_programs: ClassVar[bool] = True

    def _get_initial_kwargs(self, *, temperature: Any, max_tokens: Any, **kwargs: Any) -> dict[str, Any]:
        # DSPy refuses these two for model names that look like OpenAI's reasoning models. Here the target
        # decides whether it takes them.
        return {"temperature": temperature, "max_tokens": max_tokens, **kwargs}

    def __call__(self, prompt: Any = None, *, messages: Any = None, **kwargs: Any) -> Any:
        """Calls the model as `dspy.LM` does, with numbered samples."""
        with number_draws(self.kwargs | kwargs):
            return super().__call__(prompt, messages=messages, **kwargs)

    async def acall(self, prompt: Any = None, *, messages: Any = None, **kwargs: Any) -> Any:
        """Awaits what `__call__` returns."""
        with number_draws(self.kwargs | kwargs):
            return await super().acall(prompt, messages=messages, **kwargs)


class OwnLM(RagLM):
    """The targets of a program as one LM, so that DSPy can copy it and number draws; it chooses no target."""


class RagEngine:
    """DSPy's engine interface over a target; a deep copy is the engine itself.

    It declares the target's capabilities; otherwise JSONAdapter would send no schema.
    """

    supports_function_calling = False
    supports_reasoning = False

    def __init__(self, complete: Complete, target: Target, *, sampling: Sampling, submit: Submit) -> None:
        self.target, self.sampling = target, sampling
        self._complete, self._submit = complete, submit

    def __deepcopy__(self, memo: object) -> RagEngine:
        return self

    @property
    def supports_response_schema(self) -> bool:
        """Whether replies can be constrained to a JSON schema."""
        return "schema" in self.target.capabilities

    @property
    def supported_params(self) -> frozenset[str]:
        """The OpenAI parameters that reach the target."""
        able = self.target.capabilities
        needs = {"response_format": "schema", "seed": "seed", "logprobs": "logprobs"}
        named = {name for name, capability in needs.items() if capability in able}
        return frozenset({"temperature", "max_tokens", "top_p", "top_k", "stop"} | named)

    def complete(self, request: lm15.Request) -> lm15.Response:
        """Returns the response to one request. Blocks, so it must not be called on the process's loop."""
        with _translate_errors():
            chat_request = self.to_chat(request)
            return self.to_response(self._submit(self.reply(chat_request)), chat_request)

    async def reply(self, request: ChatRequest) -> Reply:
        """Returns the reply for one sample; all samples of a call are asked at once if the target can."""
        return await complete_ahead(self._complete, request, several="n" in self.target.capabilities)

    def stream(self, request: lm15.Request) -> Iterator[Any]:
        """Yields the whole response as one batch of events."""
        yield from lm15.response_to_events(self.complete(request))

    def close(self) -> None:
        """Does nothing: the target belongs to the caller."""

    def to_chat(self, request: lm15.Request) -> ChatRequest:
        """Returns `request` as a ChatRequest; raises lm15.UnsupportedFeatureError for others."""
        config, able = request.config, self.target.capabilities
        unused = [name for name in _UNUSED if getattr(config, name) is not None]
        unused += sorted(set(config.extensions or {}) - {"min_p"}) + (["tools"] if request.tools else [])
        if unused:
            raise lm15.UnsupportedFeatureError(f"{self.target.name} takes no {', '.join(unused)}.")
        if config.logprobs is not None and "logprobs" not in able:
            raise lm15.UnsupportedFeatureError(f"{self.target.name} gives no logprobs.", feature="logprobs")
        if config.logprobs:
            raise lm15.UnsupportedFeatureError("A reply holds no top_logprobs; ask for logprobs alone.")
        names = ("temperature", "top_p", "max_tokens", "top_k", "seed", "stop")
        settings = {name: getattr(config, name) for name in names} | (config.extensions or {})
        sampling = replace(self.sampling, **{k: v for k, v in settings.items() if v is not None and v != ()})
        draw = next_draw()
        return ChatRequest(
            messages=_messages(request),
            schema=_schema(config.response_format) if "schema" in able else None,
            sampling=sampling,
            logprobs=config.logprobs is not None,
            sample=draw if sampling.temperature > 0 else 0,
        )

    def to_response(self, reply: Reply, request: ChatRequest) -> lm15.Response:
        """Returns `reply` as DSPy's response; its price is in `provider_data["usd"]`."""
        scored = tuple(lm15.TokenLogprob(t.token, t.logprob) for t in reply.logprobs)
        usage = reply.usage
        return lm15.Response(
            id=None,
            model=self.target.model,
            message=lm15.Message.assistant(reply.text),
            finish_reason="length" if reply.finish == "length" else "stop",
            usage=lm15.Usage(
                input_tokens=usage.prompt, output_tokens=usage.completion, cache_read_tokens=usage.cached
            ),
            logprobs=scored if request.logprobs else None,
            provider_data={"usd": reply.usd},
        )


class AsyncRagEngine:
    """The asynchronous counterpart of a RagEngine."""

    def __init__(self, sync: RagEngine) -> None:
        self.sync = sync

    def __deepcopy__(self, memo: object) -> AsyncRagEngine:
        return self

    async def complete(self, request: lm15.Request) -> lm15.Response:
        """Returns the response to one request."""
        with _translate_errors():
            chat_request = self.sync.to_chat(request)
            return self.sync.to_response(await self.sync.reply(chat_request), chat_request)

    async def stream(self, request: lm15.Request) -> AsyncIterator[Any]:
        """Yields the whole response as one batch of events."""
        for event in lm15.response_to_events(await self.complete(request)):
            yield event

    async def aclose(self) -> None:
        """Does nothing: the target belongs to the caller."""


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Translates ragc's errors to those of DSPy's engine interface; `cause` recovers them."""
    try:
        yield
    except CapabilityMissing as error:
        raise lm15.UnsupportedFeatureError(str(error)) from error
    except TargetUnavailable as error:
        raise lm15.TransportError(str(error)) from error
    except TargetError as error:
        kind = (
            lm15.ContextLengthError
            if isinstance(error, RequestRefused) and error.kind == "too long"
            else lm15.InvalidRequestError
        )
        raise kind(str(error)) from error
    except BudgetExhausted as error:
        raise lm15.BillingError(str(error)) from error


def _messages(request: lm15.Request) -> tuple[Message, ...]:
    messages = []
    if request.system is not None:
        system = request.system
        messages.append(Message("system", system if isinstance(system, str) else _text(system)))
    for message in request.messages:
        role = _ROLES.get(message.role)
        if role is None:
            raise lm15.UnsupportedFeatureError(f"Messages of role {message.role!r} cannot be sent.")
        messages.append(Message(role, _text(message.parts)))  # type: ignore[arg-type]
    return tuple(messages)


def _text(parts: Any) -> str:
    """Returns the parts' text in order, without earlier reasoning."""
    texts = []
    for part in parts:
        if part.type == "text":
            texts.append(part.text)
        elif part.type == "data":
            texts.append(canonical(part.value))
        elif part.type != "thinking":
            raise lm15.UnsupportedFeatureError(f"Only text can be sent, not a part of type {part.type!r}.")
    return "".join(texts)


def _schema(response_format: dict[str, Any] | None) -> dict[str, Any] | None:
    """Returns the JSON schema of a response format; any object if it only requires JSON."""
    if response_format is None:
        return None
    if response_format["type"] == "json_schema":
        schema: dict[str, Any] = response_format["schema"]
        return schema
    return {"type": "object"}
