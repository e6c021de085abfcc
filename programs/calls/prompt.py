"""Prompt of a typed call: its messages, and how its reply is read.

The parts that are constant between calls of one predictor (instructions, demonstrations, reply schema) are
rendered once: the messages before the last one, and their marks.
"""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import dspy
from dspy.dsp.utils.settings import main_thread_config, thread_local_overrides

from ragc.core.digest import digest
from ragc.core.text import repair_surrogates
from ragc.errors import ParseFailure
from ragc.metrics.failures import CALLS_TOOLS, CUT, DECLINED
from ragc.programs.calls.chosen_lm import call_lm, is_own, lm_of, rollout_of, target_for
from ragc.programs.calls.demos import nearest_first, plain
from ragc.programs.calls.layouts import JSON_LAYOUTS, adapter
from ragc.programs.calls.outputs import forgiving, reply_schema
from ragc.programs.calls.parsing import Parsed, parse
from ragc.programs.runtime import Runtime
from ragc.targets.base import ChatRequest, Message, Reply, Role, Sampling, Target


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """Instructions and demonstrations as messages.

    `fingerprint` is a digest of everything in the prompt except the inputs, `wording` are the descriptions of
    the inputs beside their names and types, `echoes` maps inputs that repeat another one to that one,
    `optional` are inputs that a call may lack, `outputs` are the output fields and `fields` how they are
    read, `of` are the layout, the most demonstrations shown and the demonstrations.
    """

    prefix: tuple[Message, ...]
    fingerprint: str
    wording: str
    echoes: tuple[tuple[str, str], ...]
    optional: tuple[str, ...]
    outputs: Mapping[str, Any]
    fields: tuple[Any, ...]
    of: tuple[str, int, tuple[Any, ...]]


def render(signature: Any, demos: Sequence[Any], layout: str, max_demos: int) -> PromptTemplate:
    """Returns the messages of `signature` and the first `max_demos` of `demos` in `layout`."""
    style = adapter(layout)
    extras = [(name, info.json_schema_extra or {}) for name, info in signature.input_fields.items()]
    echoes = tuple((name, extra["echo"]) for name, extra in extras if extra.get("echo"))
    optional = tuple(name for name, extra in extras if extra.get("optional"))
    shown = [fill_echoes(plain(demo), echoes) for demo in demos[:max_demos]]
    messages = [{"role": "system", "content": style.format_system_message(signature)}]
    messages += style.format_demos(signature, shown)
    prefix = tuple(Message(m["role"], repair_surrogates(m["content"])) for m in messages)
    fields = [[name, str(info.annotation)] for name, info in signature.fields.items()]
    mark = digest([[list(m) for m in prefix], reply_schema(signature), fields, layout])
    outputs = signature.output_fields
    read = tuple((name, info.annotation, *info.metadata) for name, info in outputs.items())
    return PromptTemplate(
        prefix, mark, repr(extras), echoes, optional, outputs, read, (layout, max_demos, tuple(demos))
    )


def fill_echoes(values: Mapping[str, Any], echoes: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Returns `values` with every input that repeats another filled in."""
    return {**values, **{name: values[of] for name, of in echoes if of in values}}


GREEDY = Sampling()

VIEWS = 512
"""How many choices of demonstrations are kept rendered."""

REPEATED = 8000
"""Characters of a reply that is shown again when another is asked for in its place."""

MORE_TOKENS_FACTOR, MIN_MORE_TOKENS = 4, 2048
"""How much longer the second reply may be where the first ran out of tokens: times, and tokens more."""

_MORE_THOUGHTS = "Set thinking_tokens for this target, or have the model think less."

_AROUND = 16
"""Tokens that a chat template puts around a message, at most."""

_AGAIN = (
    "That reply could not be read: {error} "
    "Reply again with only a JSON object that has exactly these fields: {fields}."
)


def setting(name: str) -> Any:
    """Returns `name` of `dspy.settings`, three times as fast: a replayed call reads nine values."""
    overrides = thread_local_overrides.get()
    return overrides[name] if name in overrides else main_thread_config[name]


class TypedPrompt(dspy.Predict):
    """The prompt of a typed call and the reading of its reply, with its program's role, sampling and layout.

    `max_demos` bounds how many demonstrations are shown, in order. With `nearest` above 0 a call shows at
    most that many, those nearest to its question, the nearest last. A subclass that shows its inputs
    differently includes that in its `fingerprint`, which may depend on what is rendered and on what never
    changes.
    """

    # DSPy's own looks at every access, to warn of direct calls of `forward`, which are welcome here.
    __getattribute__ = object.__getattribute__

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
        self._rendered: PromptTemplate | None = None
        self._printed: tuple[PromptTemplate | None, str] = (None, "")
        self._unchanged: tuple[PromptTemplate | None, Any] = (None, None)
        self._views: tuple[PromptTemplate | None, dict[tuple[int | str, ...], TypedPrompt]] = (None, {})
        self._nearest = 0
        self.runtime, self.layout = runtime, layout
        self.role: Role = role
        self.sampling, self.max_demos, self.logprobs = sampling, max_demos, logprobs
        self.name = ""
        super().__init__(signature)

    @property
    def nearest(self) -> int:
        """How many demonstrations a call shows, chosen by its question; 0: the first `max_demos`."""
        return self._nearest

    @nearest.setter
    def nearest(self, value: int) -> None:
        self._nearest = value
        self._rendered = None

    @property
    def signature(self) -> Any:
        """The typed contract of the call."""
        return self._signature

    @signature.setter
    def signature(self, value: Any) -> None:
        self._signature = value
        self._rendered = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        twin = copy.copy(self)
        memo[id(self)] = twin
        lists = {"demos": list(self.demos), "traces": list(self.traces), "train": list(self.train)}
        twin.__dict__ = {**self.__dict__, **lists}
        return twin

    @property
    def fingerprint(self) -> str:
        """Returns a digest of everything in the prompt except the inputs."""
        if not self._nearest:
            return self.template.fingerprint
        return digest([self.template.fingerprint, [plain(demo) for demo in self.demos], self._nearest])

    @property
    def template(self) -> PromptTemplate:
        """The parts that are constant between calls, rendered when first needed."""
        rendering, settings = self._rendered, (self.layout, self.max_demos, tuple(self.demos))
        if rendering is None or rendering.of != settings:
            rendering = self._rendered = render(self._signature, self.demos, self.layout, self.max_demos)
        return rendering

    @property
    def cached_fingerprint(self) -> str:
        """The `fingerprint`, computed once for each rendering."""
        rendered = self.template
        if self._printed[0] is not rendered:
            self._printed = (rendered, self.fingerprint)
        return self._printed[1]

    @property
    def unchanged(self) -> Self:
        """A copy with the present prompt, which later changes do not affect; the same copy until then."""
        rendered = self.template
        if self._unchanged[0] is not rendered:
            twin = copy.deepcopy(self)
            twin._unchanged = (None, None)
            self._unchanged = (rendered, twin)
        held: Self = self._unchanged[1]  # which a tuple of any values does not tell
        return held

    @property
    def target(self) -> Target:
        """The target that answers: the LM that DSPy was told to use, else the target of the role."""
        return self.target_by(self.chosen_lm)

    @property
    def chosen_lm(self) -> Any:
        """The LM that DSPy was told to use for this call; None if the target of its role answers."""
        if self.lm is None and setting("lm") is None and call_lm.get() is None:
            return None
        return lm_of(self)

    def target_by(self, lm: Any) -> Target:
        """Returns the target of `lm`, or of the call's role when no `lm` is chosen."""
        return self.runtime.target(self.role) if lm is None else target_for(self, lm)

    def messages(self, **inputs: Any) -> tuple[Message, ...]:
        """Returns the chat messages that a call with `inputs` sends; no model is called."""
        if (elsewhere := self.made_elsewhere(inputs)) is not None:
            return elsewhere
        if (shorter := self.for_inputs(inputs)) is not self:
            return shorter.messages(**inputs)
        if self._nearest:
            places = nearest_first(self.demos, inputs)[: min(self._nearest, self.max_demos)]
            return self.view(places[::-1]).messages(**inputs)
        style, rendered = adapter(self.layout), self.template
        shown = fill_echoes(inputs, rendered.echoes)
        content = style.format_user_message_content(self._signature, shown, main_request=True)
        return (*rendered.prefix, Message("user", repair_surrogates(content)))

    def made_elsewhere(self, inputs: Mapping[str, Any]) -> tuple[Message, ...] | None:
        """Returns the messages if they are not made by a layout but, for example, by a user's adapter."""
        return None

    @property
    def signature_sent(self) -> Any:
        """The signature as it is sent."""
        return self._signature

    def view(self, places: tuple[int, ...]) -> TypedPrompt:
        """Returns the same prompt with the demonstrations at `places`, in order; cached for each choice."""
        views = self._kept_views
        if places not in views:
            prompt = TypedPrompt(self.signature_sent, self.runtime, layout=self.layout, max_demos=len(places))
            prompt.demos = [self.demos[at] for at in places]
            views[places] = prompt
        return views[places]

    def for_inputs(self, inputs: Mapping[str, Any]) -> TypedPrompt:
        """Returns the same prompt without optional inputs that `inputs` lack; cached for each choice."""
        absent = tuple(name for name in self.template.optional if name not in inputs)
        if not absent:
            return self
        views = self._kept_views
        if absent not in views:
            signature = self.signature_sent
            for name in absent:
                signature = signature.delete(name)
            prompt = TypedPrompt(signature, self.runtime, layout=self.layout, max_demos=self.max_demos)
            prompt.demos, prompt.nearest = self.demos, self._nearest
            views[absent] = prompt
        return views[absent]

    @property
    def _kept_views(self) -> dict[tuple[int | str, ...], TypedPrompt]:
        """The cached views of the present rendering."""
        rendered, views = self._views
        if rendered is not self.template or len(views) >= VIEWS:
            views = {}
            self._views = (self.template, views)
        return views

    def dump_state(self, *args: Any, **more: Any) -> dict[str, Any]:
        """Returns DSPy's state, and `nearest` if the question decides which demonstrations are shown."""
        state = super().dump_state(*args, **more) if self.lm is None else self._dump_with_lm(*args, **more)
        return {**state, **({"nearest": self._nearest} if self._nearest else {})}

    def _dump_with_lm(self, *args: Any, **more: Any) -> dict[str, Any]:
        """Returns DSPy's state without an LM that represents the program's own targets."""
        plain_call = copy.copy(self)
        if is_own(self.lm):
            plain_call.lm = None
        state: dict[str, Any] = dspy.Predict.dump_state(plain_call, *args, **more)
        return state

    def load_state(self, state: dict[str, Any], *args: Any, **more: Any) -> Any:
        """Loads `state`."""
        self.nearest = 0
        return super().load_state(state, *args, **more)

    def request(self, *, config: dict[str, Any] | None = None, **inputs: Any) -> ChatRequest:
        """Returns the request that a call with `inputs` sends. `config` overrides sampling values by name."""
        return self.chat_request(self.messages(**inputs), *self.sampling_for(config, self.chosen_lm))

    def sampling_for(self, config: dict[str, Any] | None, lm: Any) -> tuple[Sampling, int]:
        """Returns the sampling of `lm` under `config` (values by name), and the number of the draw."""
        drawn = {} if lm is None and setting("lm") is None else rollout_of(lm)
        if not (drawn or self.config or config):
            return self.sampling, 0
        chosen = {**drawn, **self.config, **(config or {})}
        sample = int(chosen.pop("rollout_id", None) or 0)
        known = {name: v for name, v in chosen.items() if name in Sampling.__slots__ and v is not None}
        return replace(self.sampling, **known), sample

    def chat_request(self, messages: tuple[Message, ...], sampling: Sampling, sample: int) -> ChatRequest:
        """Builds the request as `request` does, with known messages, sampling and draw."""
        enforced = self.layout in JSON_LAYOUTS and "schema" in self.target.capabilities
        return ChatRequest(
            messages=messages,
            schema=reply_schema(self._signature) if enforced else None,
            sampling=sampling,
            logprobs=self.logprobs,
            sample=sample,
        )

    def size(self, **inputs: Any) -> int:
        """Estimates the tokens of a call with `inputs`, its longest reply included.

        So are the tokens that the chat template of a model in this process puts around each message.
        """
        target, messages = self.target, self.messages(**inputs)
        text = "\n".join(message.content for message in messages)
        around = getattr(target, "template_tokens", 0) * len(messages)
        return target.count_tokens(text) + around + self.sampling.max_tokens

    def surely_fits(self, messages: Sequence[Message]) -> bool:
        """Returns whether `messages` fit the target's context even if every byte is a token."""
        most = sum(len(message.content.encode()) + _AROUND for message in messages)
        return most + self.sampling.max_tokens <= self.target.context_tokens

    def repair_request(self, request: ChatRequest, reply: Reply, error: str) -> ChatRequest:
        """Returns the request for a readable reply."""
        fields = ", ".join(f'"{name}"' for name in self._signature.output_fields)
        again = Message("user", _AGAIN.format(error=error, fields=fields))
        messages = (*request.messages, Message("assistant", reply.text[:REPEATED]), again)
        able = "schema" in self.target.capabilities
        return replace(request, messages=messages, schema=reply_schema(self._signature) if able else None)

    def roomier_request(self, request: ChatRequest, reply: Reply) -> ChatRequest | None:
        """Returns the same request with a higher token limit; None if the context has no space.

        It gets `MORE_TOKENS_FACTOR` times its limit, and at least `MIN_MORE_TOKENS` and the tokens of
        `reply` more.
        """
        target, limit = self.target, request.sampling.max_tokens
        if getattr(target, "longest_reply", None) is not None:  # the model's own limit holds
            return None
        prompt = sum(target.count_tokens(message.content) + _AROUND for message in request.messages)
        more = max(MORE_TOKENS_FACTOR * limit, limit + max(MIN_MORE_TOKENS, reply.usage.completion))
        more = min(more, target.context_tokens - prompt)
        return replace(request, sampling=replace(request.sampling, max_tokens=more)) if more > limit else None

    def parse_reply(self, reply: Reply, *, again: bool = False) -> tuple[Parsed | None, str]:
        """Parses `reply`; None and the reason if unreadable. The second (`again`) should be JSON."""
        if failure := why_unanswered(reply):
            return None, failure
        signature = forgiving(self._signature) if again else self._signature
        layout = "json" if again else self.layout
        enforced = layout in JSON_LAYOUTS and "schema" in self.target.capabilities
        if layout not in JSON_LAYOUTS and dspy.settings.callbacks:  # who watches DSPy's adapters sees them
            with contextlib.suppress(Exception):
                adapter(layout).parse(signature, reply.text)
        try:
            parsed = parse(signature, reply.text, layout=layout, enforced=enforced, finish=reply.finish)
        except ParseFailure as error:
            cut = f"{CUT}{reply.usage.completion:,} tokens before it could be read. "
            return None, f"{cut if reply.finish == 'length' else ''}{error}"
        return parsed, ""


def why_unanswered(reply: Reply) -> str:
    """Returns why `reply` cannot hold an answer; "" if it may."""
    begun = f"It began {json.dumps(repair_surrogates(reply.text[:80]), ensure_ascii=False)}."
    if reply.finish == "refusal":
        return f"{DECLINED}the request. {begun}"
    if reply.finish == "tool_calls":
        return f"{CALLS_TOOLS}in place of an answer. {begun}"
    if reply.text.strip():
        return ""
    tokens, thinks = reply.usage.completion, bool(reply.reasoning or reply.usage.reasoning)
    if reply.finish == "length" and thinks:
        return f"{CUT}{tokens:,} tokens while thinking. {_MORE_THOUGHTS}"
    if reply.finish == "length":
        return f"{CUT}{tokens:,} tokens before it said anything."
    return f"A reply ends with its thoughts, and no answer follows. {_MORE_THOUGHTS}" if thinks else ""
