"""One call of a user's module as its DSPy adapter makes it: format, send, parse, and DSPy's second try.

The adapter gets a language model that passes every request through the gateway, so that store, budget and
counters apply, and sends DSPy's request to the user's own model. Parts of a reply beside its text (tool
calls, native reasoning) are stored as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import dspy
from dspy.adapters.decision import resolve_adapter
from dspy.clients.call_result import attributes
from dspy.utils.callback import with_callbacks
from dspy.utils.exceptions import AdapterParseError

from ragc.core import event_loop
from ragc.core.digest import canonical
from ragc.core.text import escape_markers
from ragc.targets import dspy_lm
from ragc.targets.base import ChatRequest, Message, Reply, Sampling, Target
from ragc.targets.dspy_lm import DspyTarget, as_lm, cause
from ragc.targets.gateway import GatewayReply

Ask = Callable[[Target, ChatRequest], Any]
"""Answers a request of a target, awaitable: the gateway's `ask`, with whatever follows the reply."""

WHOLE = "dspy.output"
"""The key of a reply that holds what DSPy made of a response, where that is more than a text."""

_SAMPLING = frozenset(Sampling.__slots__)
_UNSENT = frozenset({"n", "num_generations", "rollout_id"})


def settings_of(target: Target, sampling: Sampling, config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of a call, as DSPy's adapters pass them to a language model.

    `config` are the predictor's settings beside its sampling. A model that reasons has its own temperature
    and limit.
    """
    other = {name: value for name, value in config.items() if name not in _SAMPLING | _UNSENT}
    if isinstance(target, DspyTarget) and target.longest_reply:
        return other
    drawn = dspy_lm.settings_of(sampling)
    return other | {name: value for name, value in drawn.items() if value is not None}


class AdapterLM(dspy.BaseLM):
    """The language model of `target` for an adapter; its calls are sent with `ask`.

    `sample` is the number of the draw. `whole` says that the signature reads more of a response than its
    text.
    """

    def __init__(
        self, target: DspyTarget, ask: Ask, *, sampling: Sampling, sample: int = 0, whole: bool = False
    ) -> None:
        lm = target.lm
        super().__init__(lm.model, model_type=getattr(lm, "model_type", "chat"), callbacks=lm.callbacks)
        self.kwargs = dict(lm.kwargs)
        self.target, self._ask, self._sampling, self._sample = target, ask, sampling, sample
        self._whole = whole

    @property
    def supports_function_calling(self) -> bool:
        """Whether the language model supports it."""
        return bool(self.target.lm.supports_function_calling)

    @property
    def supports_reasoning(self) -> bool:
        """Whether the language model supports it."""
        return bool(self.target.lm.supports_reasoning)

    @property
    def supports_response_schema(self) -> bool:
        """Whether the language model supports it."""
        return bool(self.target.lm.supports_response_schema)

    @property
    def supported_params(self) -> set[str]:
        """The parameters that the language model supports."""
        return set(self.target.lm.supported_params)

    @with_callbacks  # type: ignore[untyped-decorator]
    def __call__(self, prompt: Any = None, *, messages: Any = None, **settings: Any) -> list[Any]:
        """Returns the outputs of one call in DSPy's form. Waits; not for the process's loop."""
        return event_loop.run(self._outputs(prompt, messages, settings))

    @with_callbacks  # type: ignore[untyped-decorator]
    async def acall(self, prompt: Any = None, *, messages: Any = None, **settings: Any) -> list[Any]:
        """Awaits what `__call__` returns."""
        return await self._outputs(prompt, messages, settings)

    async def _outputs(self, prompt: Any, messages: Any, settings: Mapping[str, Any]) -> list[Any]:
        sent = messages or [{"role": "user", "content": prompt}]
        target = copy(self.target)
        target.call = sent, settings, self._encode
        reply: Reply = (await self._ask(target, self._request(sent, settings))).reply
        return [_decode(reply.text)]

    def _encode(self, output: Any) -> str:
        if not isinstance(output, dict):
            return "" if output is None else str(output)
        more = {name: value for name, value in output.items() if value and name not in ("text", "logprobs")}
        if "tool_calls" not in more and not (self._whole and more):
            return str(output.get("text") or "")
        return canonical({WHOLE: json.loads(json.dumps({**more, "text": output.get("text")}, default=str))})

    def _request(self, messages: Sequence[Mapping[str, Any]], settings: Mapping[str, Any]) -> ChatRequest:
        """Builds the request that store and budget use: everything that affects the reply."""
        merged = {**self.target.lm.kwargs, **settings}
        drawn = {name: merged[name] for name in _SAMPLING & merged.keys() if merged[name] is not None}
        if stop := drawn.get("stop"):
            drawn["stop"] = (stop,) if isinstance(stop, str) else tuple(stop)
        if (longest := merged.get("max_completion_tokens")) is not None:
            drawn["max_tokens"] = longest
        other = {name: value for name, value in settings.items() if name not in _SAMPLING | _UNSENT}
        shown = tuple(Message(one["role"], _content(one.get("content"))) for one in messages)
        schema = {"settings": json.loads(json.dumps(other, default=_schema_of, sort_keys=True))}
        return ChatRequest(
            messages=shown,
            schema=schema if other else None,
            sampling=replace(self._sampling, **drawn),
            sample=self._sample,
        )


def _content(value: Any) -> str:
    return value if isinstance(value, str) else canonical(json.loads(json.dumps(value, default=str)))


def _schema_of(value: Any) -> Any:
    schema = getattr(value, "model_json_schema", None)
    return schema() if callable(schema) else repr(value)


def _decode(text: str) -> Any:
    """Decodes the output that `AdapterLM` stored as text."""
    if not text.startswith(f'{{"{WHOLE}":'):
        return text
    try:
        return attributes(json.loads(text)[WHOLE])
    except (ValueError, KeyError):
        return text


def defuse(value: Any) -> Any:
    """Returns `value` with the markers in its texts defused, which DSPy would read as parts of a message."""
    if isinstance(value, str):
        return escape_markers(value)
    if type(value) in (list, tuple):
        return type(value)(map(defuse, value))
    if type(value) is dict:
        return {name: defuse(item) for name, item in value.items()}
    return value


class AdapterCall:
    """One call of `signature` through `adapter`; `answers` are the gateway's so far, in order.

    `shown` are the replies that were shown to `dspy.streamify` as they came.

    `settings` are those of `settings_of`. Raises the error of ours that ended a request, which DSPy wraps.
    """

    def __init__(
        self,
        adapter: Any,
        target: Target,
        ask: Ask,
        *,
        signature: Any,
        demos: Sequence[Mapping[str, Any]],
        fields: Mapping[str, Any],
        sampling: Sampling,
        sample: int,
        settings: Mapping[str, Any],
    ) -> None:
        self.answers: list[GatewayReply] = []
        self.shown: Sequence[Any] = ()
        self._adapter, self._signature, self._demos = adapter, signature, demos
        self._settings = settings
        self._lm = self._model(target, ask, sampling, sample)
        self._resolved = resolve_adapter(self._lm, adapter, signature, dict(fields), signature)

    def _model(self, target: Target, ask: Ask, sampling: Sampling, sample: int) -> Any:
        async def ask_target(of: Target, request: ChatRequest) -> GatewayReply:
            answer: GatewayReply = await ask(of, request)
            self.answers.append(answer)
            return answer

        if isinstance(target, DspyTarget):
            native = getattr(self._adapter, "native_response_types", ())
            whole = any(info.annotation in native for info in self._signature.output_fields.values())
            return AdapterLM(target, ask_target, sampling=sampling, sample=sample, whole=whole)

        async def complete(request: ChatRequest) -> Reply:
            return (await ask_target(target, replace(request, sample=sample))).reply

        return as_lm(complete, target, sampling=sampling)

    def _arguments(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "lm_kwargs": dict(self._settings),
            "signature": self._signature,
            "demos": [dict(demo) for demo in self._demos],
            "inputs": defuse(dict(inputs)),
        }

    def messages(self, inputs: Mapping[str, Any]) -> tuple[Message, ...]:
        """Returns the messages that a call with `inputs` sends first; no model is called."""
        arguments = self._arguments(inputs)
        adapter, settings = self._adapter, arguments["lm_kwargs"]
        signature = adapter._call_preprocess(self._lm, settings, self._signature, arguments["inputs"])
        formatted = adapter.format(signature, arguments["demos"], arguments["inputs"])
        return tuple(Message(one["role"], _content(one.get("content"))) for one in formatted)

    def run(self, inputs: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
        """Returns the outputs, or nothing and the reason. Waits; not for the process's loop."""
        try:
            with _quiet():
                return self._read(self._resolved(self._lm, **self._arguments(inputs)))
        except Exception as error:
            return self._failed(error)

    async def arun(self, inputs: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
        """Awaits what `run` returns."""
        try:
            with _quiet():
                return self._read(await self._resolved.acall(self._lm, **self._arguments(inputs)))
        except Exception as error:
            return self._failed(error)

    def _read(self, completions: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], str]:
        first = dict(completions[0])
        return {name: first.get(name) for name in self._signature.output_fields}, ""

    def _failed(self, error: Exception) -> tuple[dict[str, Any], str]:
        if (own := cause(error)) is not None:
            raise own from error
        if not isinstance(error, AdapterParseError):
            raise error
        fields = ", ".join(self._signature.output_fields)
        return {}, f"{type(self._adapter).__name__} found no {fields} in the reply."


def _quiet() -> Any:
    """Returns a context without DSPy's own history: the caller records the call once."""
    return dspy.context(disable_history=True, usage_tracker=None)
