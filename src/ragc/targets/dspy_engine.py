"""Targets as DSPy language models, for DSPy's own optimizers and modules.

DSPy 3.4.1 calls a custom engine with one canonical request for one response (`dspy/clients/engines/base.py`).
Its cache and its retries are off here: the call store and the target replace them.

`RagLM` numbers the samples of one DSPy call; DSPy requests them from an engine one by one, without numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, ClassVar

import dspy
from dspy import lm15

from ragc.core import event_loop
from ragc.errors import RagcError, RequestRefused
from ragc.targets.base import ChatRequest, Message, Reply, Sampling, Target

Complete = Callable[[ChatRequest], Coroutine[Any, Any, Reply]]

GREEDY = Sampling()

_BITS = 10
"""Maximum number of samples per rollout, as a power of two."""

_ROLES: Mapping[str, Any] = {"developer": "system"}
_UNUSED = ("frequency_penalty", "presence_penalty", "reasoning", "tool_choice", "probabilities")

_numbers: ContextVar[Iterator[int]] = ContextVar("ragc_sample_numbers")
"""The numbers of the next samples of the DSPy call in this context."""


def as_lm(
    complete: Complete, target: Target, *, sampling: Sampling = GREEDY, kind: type[RagLM] | None = None
) -> dspy.LM:
    """Returns a `dspy.LM` named `ragc/<model>` that calls `complete`; a RagLM unless `kind` is given.

    `complete` is the store-backed gateway bound to `target`. `sampling` applies unless a call sets other
    values. With temperature > 0, `n` and `rollout_id` become sample indices, so that repeated samples are
    stored separately. `min_p` comes from `sampling` or an explicit lm15.Request: DSPy refuses it in an
    ordinary call.
    """
    engine = RagEngine(complete, target, sampling)
    lm = (kind or RagLM)(
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
        _numbers.set(itertools.count(rollout << _BITS))


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
