"""RagPredict: DSPy's predictor on a target of ours.

It renders what does not change (instructions, demonstrations, reply schema) once, sends requests
through the gateway, and gives back typed outputs. A reply that does not parse is asked for once
more, and counted.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import dspy

from ragc import counters, loop
from ragc.errors import ParseFailure
from ragc.fingerprint import digest
from ragc.programs import trace
from ragc.programs.cutting import cut_to_fit
from ragc.programs.demos import FrozenDemos, plain
from ragc.programs.forced import forced
from ragc.programs.layouts import JSON_LAYOUTS, adapter
from ragc.programs.runtime import Runtime
from ragc.programs.typed import read_json, reply_schema
from ragc.targets.base import ChatRequest, Message, Reply, Role, Sampling, TokenLogprob

GREEDY = Sampling()

_AGAIN = (
    "That reply could not be read: {error} "
    "Reply again with only a JSON object that has exactly these fields: {fields}."
)


@dataclass(frozen=True, slots=True)
class _Rendered:
    """What stays the same between calls: the messages before the last one, and the fingerprint."""

    prefix: tuple[Message, ...]
    fingerprint: str


class RagPredict(dspy.Predict):
    """A typed call with the role, sampling and layout of its program.

    Demonstrations are frozen: assign a new list to change them. `max_demos` bounds how many are
    shown, in order.
    """

    def __init__(
        self,
        signature: Any,
        runtime: Runtime,
        *,
        role: Role = "main",
        layout: str = "minimal",
        sampling: Sampling = GREEDY,
        max_demos: int = 16,
        logprobs: bool = False,
    ) -> None:
        self._rendered: _Rendered | None = None
        self.runtime, self.role, self.layout = runtime, role, layout
        self.sampling, self.max_demos, self.logprobs = sampling, max_demos, logprobs
        self.name = ""
        super().__init__(signature)

    @property
    def demos(self) -> Any:
        """The demonstrations, a list that refuses changes."""
        return self._demos

    @demos.setter
    def demos(self, value: Any) -> None:
        self._demos = FrozenDemos(value)
        self._rendered = None

    @property
    def signature(self) -> Any:
        """The typed contract of the call."""
        return self._signature

    @signature.setter
    def signature(self, value: Any) -> None:
        self._signature = value
        self._rendered = None

    def __deepcopy__(self, memo: dict[int, Any]) -> RagPredict:
        twin = copy.copy(self)
        memo[id(self)] = twin
        twin.__dict__ = {**self.__dict__, "traces": list(self.traces), "train": list(self.train)}
        return twin

    @property
    def fingerprint(self) -> str:
        """A digest of all that shapes the prompt apart from the inputs."""
        return self._render().fingerprint

    def _render(self) -> _Rendered:
        if self._rendered is None:
            style, signature = adapter(self.layout), self._signature
            shown = [self._echoed(plain(demo)) for demo in self._demos[: self.max_demos]]
            messages = [{"role": "system", "content": style.format_system_message(signature)}]
            messages += style.format_demos(signature, shown)
            prefix = tuple(Message(m["role"], m["content"]) for m in messages)
            fields = [[name, str(info.annotation)] for name, info in signature.fields.items()]
            mark = digest([[list(m) for m in prefix], reply_schema(signature), fields, self.layout])
            self._rendered = _Rendered(prefix, mark)
        return self._rendered

    def _echoed(self, values: dict[str, Any]) -> dict[str, Any]:
        """`values` with every input that repeats another filled in."""
        extra = [
            (name, (info.json_schema_extra or {}).get("echo"))
            for name, info in self._signature.input_fields.items()
        ]
        return values | {name: values[of] for name, of in extra if of in values}

    def messages(self, **inputs: Any) -> tuple[Message, ...]:
        """The chat messages that a call with `inputs` sends; no model is called."""
        style = adapter(self.layout)
        content = style.format_user_message_content(self._signature, self._echoed(inputs), main_request=True)
        return (*self._render().prefix, Message("user", content))

    def request(self, *, config: dict[str, Any] | None = None, **inputs: Any) -> ChatRequest:
        """The request that a call with `inputs` sends. `config` overrides sampling values by name."""
        target = self.runtime.target(self.role)
        enforced = self.layout in JSON_LAYOUTS and "schema" in target.capabilities
        chosen = {**self.config, **(config or {})}
        sample = int(chosen.pop("rollout_id", None) or 0)
        known = {
            name: value for name, value in chosen.items() if name in Sampling.__slots__ and value is not None
        }
        return ChatRequest(
            messages=self.messages(**inputs),
            schema=reply_schema(self._signature) if enforced else None,
            sampling=replace(self.sampling, **known),
            logprobs=self.logprobs,
            sample=sample,
        )

    def size(self, **inputs: Any) -> int:
        """About how many tokens a call with `inputs` takes, its longest reply included."""
        target = self.runtime.target(self.role)
        text = "\n".join(m.content for m in self.messages(**inputs))
        return target.count_tokens(text) + self.sampling.max_tokens

    def fits(self, **inputs: Any) -> bool:
        """Whether a call with `inputs`, its longest reply included, fits the context of its target."""
        return self.size(**inputs) <= self.runtime.target(self.role).context_tokens

    async def attempt(self, **inputs: Any) -> Any:
        """The prediction of a call; None, noted and counted as dropped, when its reply cannot be read."""
        try:
            return await self.acall(**inputs)
        except ParseFailure as error:
            counters.count(dropped=1)
            trace.record(trace.Note(self.name, f"unreadable: {error}"))
            return None

    def forward(self, **kwargs: Any) -> dspy.Prediction:
        """Call and wait; for use outside the process's loop."""
        return loop.run(self.aforward(**kwargs))

    async def aforward(self, **kwargs: Any) -> dspy.Prediction:
        """One typed call. Raises ParseFailure when the second reply cannot be read either."""
        spot = trace.place()
        config = kwargs.pop("config", None)
        for special in ("lm", "signature", "demos", "_trace"):
            kwargs.pop(special, None)
        known = forced(self._signature.output_fields)
        if known is not None:
            return self._recorded(spot, kwargs, known, logprobs=())
        kwargs = cut_to_fit(self, kwargs)
        request = self.request(config=config, **kwargs)
        reply = await self.runtime.gateway.complete(self.runtime.target(self.role), request)
        outputs, last = await self._read(request, reply)
        replies = [reply] if last is reply else [reply, last]
        marks = {
            "truncated": last.finish == "length",
            "repaired": last is not reply,
            "prompt_tokens": sum(r.usage.prompt for r in replies),
            "completion_tokens": sum(r.usage.completion for r in replies),
        }
        return self._recorded(spot, kwargs, outputs, last.logprobs, **marks)

    def _recorded(
        self,
        spot: tuple[trace.Run, tuple[int, ...]] | None,
        inputs: dict[str, Any],
        outputs: dict[str, Any],
        logprobs: tuple[TokenLogprob, ...],
        **marks: Any,
    ) -> dspy.Prediction:
        prediction = dspy.Prediction(**outputs)
        if self.logprobs:
            prediction.logprobs = logprobs
        event = trace.Call(self.name, self.role, plain(inputs), plain(outputs), **marks)
        if spot is not None:
            spot[0].add(spot[1], event, (self, dict(inputs), prediction))
        elif dspy.settings.trace is not None:
            dspy.settings.trace.append((self, dict(inputs), prediction))
        return prediction

    async def _read(self, request: ChatRequest, reply: Reply) -> tuple[dict[str, Any], Reply]:
        """The outputs and the reply they are from: `reply`, or a second one when it cannot be read."""
        try:
            return self._parse(reply), reply
        except ParseFailure as error:
            counters.count(repairs=1)
            fields = ", ".join(f'"{name}"' for name in self._signature.output_fields)
            again = Message("user", _AGAIN.format(error=error, fields=fields))
            target = self.runtime.target(self.role)
            schema = reply_schema(self._signature) if "schema" in target.capabilities else None
            second = replace(
                request, messages=(*request.messages, Message("assistant", reply.text), again), schema=schema
            )
            mended = await self.runtime.gateway.complete(target, second)
            return read_json(self._signature, mended.text, truncated=mended.finish == "length"), mended

    def _parse(self, reply: Reply) -> dict[str, Any]:
        if self.layout in JSON_LAYOUTS:
            return read_json(self._signature, reply.text, truncated=reply.finish == "length")
        try:
            return dict(adapter(self.layout).parse(self._signature, reply.text))
        except dspy.utils.exceptions.AdapterParseError as error:
            raise ParseFailure(
                f"the {self.layout} layout found no {', '.join(self._signature.output_fields)}."
            ) from error
