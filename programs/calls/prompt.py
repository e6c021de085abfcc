"""Prompt of a typed call: its messages and requests, and how a reply is parsed.

Instructions and demonstrations, the same for all calls of one predictor, are rendered once. All texts of
others, inputs and demonstrations alike, are made safe here: their role markers lose their effect.
"""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import dspy

from ragc.core.digest import digest
from ragc.core.text import escape_markers, escape_value, repair_surrogates
from ragc.errors import ParseFailure
from ragc.metrics.failures import CALLS_TOOLS, CUT, DECLINED
from ragc.programs.calls.chosen_lm import is_own, lm_of, rollout_of, target_for
from ragc.programs.calls.demos import nearest_first, plain
from ragc.programs.calls.layouts import JSON_LAYOUTS, adapter
from ragc.programs.calls.outputs import reply_schema
from ragc.programs.calls.parsing import Parsed, parse
from ragc.programs.runtime import Runtime
from ragc.targets.base import ChatRequest, Message, Reply, Role, Sampling, Target

GREEDY = Sampling()

VIEWS = 512
"""Choices of demonstrations that are cached rendered, at most."""

REPEATED = 8000
"""Characters of a reply that is shown again when another is asked for in its place."""

MORE_TOKENS_FACTOR, MIN_MORE_TOKENS = 4, 2048
"""How much longer the second reply may be where the first ran out of tokens: times, and tokens more."""

_AROUND = 16
"""Tokens that a chat template puts around a message, at most."""

_LESS_REASONING = "Set thinking_tokens for this target, or have the model think less."

_REPAIR = (
    "That reply could not be read: {problem} "
    "Reply again with only a JSON object that has exactly these fields: {fields}."
)


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """What is constant between calls: instructions and demonstrations as messages.

    `fingerprint` is a digest of everything in the prompt except the inputs, `echoes` maps inputs that repeat
    another one to that one, `optional` are inputs that a call may lack. `of` are the signature, the layout,
    the most demonstrations shown and the demonstrations.
    """

    prefix: tuple[Message, ...]
    fingerprint: str
    echoes: tuple[tuple[str, str], ...]
    optional: tuple[str, ...]
    of: tuple[Any, str, int, tuple[Any, ...]]


def render(signature: Any, layout: str, max_demos: int, demos: tuple[Any, ...]) -> PromptTemplate:
    """Returns the template of `signature` and the first `max_demos` of `demos` in `layout`."""
    extras = {name: info.json_schema_extra or {} for name, info in signature.input_fields.items()}
    echoes = tuple((name, extra["echo"]) for name, extra in extras.items() if extra.get("echo"))
    optional = tuple(name for name, extra in extras.items() if extra.get("optional"))
    shown = [shown_values(demo, echoes) for demo in demos[:max_demos]]
    messages = [{"role": "system", "content": adapter(layout).format_system_message(signature)}]
    messages += adapter(layout).format_demos(signature, shown)
    prefix = tuple(Message(m["role"], repair_surrogates(m["content"])) for m in messages)
    fields = [[name, str(info.annotation)] for name, info in signature.fields.items()]
    fingerprint = digest([[list(m) for m in prefix], reply_schema(signature), fields, layout])
    return PromptTemplate(prefix, fingerprint, echoes, optional, (signature, layout, max_demos, demos))


def shown_values(values: Mapping[str, Any], echoes: Sequence[tuple[str, str]] = ()) -> dict[str, Any]:
    """Returns `values` as a prompt shows them: JSON values, with markers defused and echoes filled in."""
    shown: dict[str, Any] = escape_value(plain(values))
    return shown | {name: shown[original] for name, original in echoes if original in shown}


class TypedPrompt(dspy.Predict):
    """The prompt of a typed call and the parsing of its reply, with its program's role, sampling and layout.

    `max_demos` bounds how many demonstrations are shown, in order. With `nearest` above 0 a call shows at
    most that many, those nearest to its question, the nearest last. A subclass that shows its inputs
    differently includes that in its `fingerprint`.
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
        self._template: PromptTemplate | None = None
        self._views: tuple[PromptTemplate | None, dict[Any, TypedPrompt]] = (None, {})
        self.runtime, self.layout = runtime, layout
        self.role: Role = role
        self.sampling, self.max_demos, self.logprobs = sampling, max_demos, logprobs
        self.name, self.nearest = "", 0
        super().__init__(signature)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        twin = copy.copy(self)
        memo[id(self)] = twin
        lists = {"demos": list(self.demos), "traces": list(self.traces), "train": list(self.train)}
        twin.__dict__ = {**self.__dict__, **lists}
        return twin

    @property
    def template(self) -> PromptTemplate:
        """The parts that are constant between calls, rendered when first needed."""
        template = self._template
        present = (self.signature, self.layout, self.max_demos, tuple(self.demos))
        if template is None or template.of != present:
            template = self._template = render(*present)
        return template

    @property
    def fingerprint(self) -> str:
        """Returns a digest of everything in the prompt except the inputs."""
        if not self.nearest:
            return self.template.fingerprint
        return digest([self.template.fingerprint, [plain(demo) for demo in self.demos], self.nearest])

    @property
    def chosen_lm(self) -> Any:
        """The LM that DSPy was told to use for this call; None if the target of its role answers."""
        return None if self.lm is None and dspy.settings.lm is None else lm_of(self)

    @property
    def target(self) -> Target:
        """The target that answers: the LM that DSPy was told to use, else the target of the role."""
        return self.target_by(self.chosen_lm)

    def target_by(self, lm: Any) -> Target:
        """Returns the target of `lm`, or of the call's role when no `lm` is chosen."""
        return target_for(self, lm)

    @property
    def signature_sent(self) -> Any:
        """The signature as it is sent."""
        return self.signature

    def messages(self, **inputs: Any) -> tuple[Message, ...]:
        """Returns the chat messages that a call with `inputs` sends; no model is called."""
        template = self.template
        if self.nearest:
            places = nearest_first(self.demos, inputs)[: min(self.nearest, self.max_demos)]
            return self.view(places[::-1]).messages(**inputs)
        absent = tuple(name for name in template.optional if name not in inputs)
        if absent:
            return self.view(None, absent).messages(**inputs)
        values = shown_values(inputs, template.echoes)
        content = adapter(self.layout).format_user_message_content(self.signature, values, main_request=True)
        return (*template.prefix, Message("user", repair_surrogates(content)))

    def view(self, places: tuple[int, ...] | None, absent: tuple[str, ...] = ()) -> TypedPrompt:
        """Returns the prompt with the demonstrations at `places`, in order, and without the inputs `absent`.

        With None it has all demonstrations. It is cached for each choice.
        """
        rendered, views = self._views
        if rendered is not self.template or len(views) >= VIEWS:
            views = {}
            self._views = (self.template, views)
        if (places, absent) not in views:
            signature = self.signature_sent
            for name in absent:
                signature = signature.delete(name)
            most = self.max_demos if places is None else len(places)
            prompt = TypedPrompt(signature, self.runtime, layout=self.layout, max_demos=most)
            prompt.demos = self.demos if places is None else [self.demos[place] for place in places]
            views[places, absent] = prompt
        return views[places, absent]

    def dump_state(self, *args: Any, **more: Any) -> dict[str, Any]:
        """Returns DSPy's state, without an LM that represents the program's own targets.

        It has `nearest` if the question decides which demonstrations are shown.
        """
        call = self
        if self.lm is not None and is_own(self.lm):
            call = copy.copy(self)
            call.lm = None
        state: dict[str, Any] = dspy.Predict.dump_state(call, *args, **more)
        return {**state, **({"nearest": self.nearest} if self.nearest else {})}

    def load_state(self, state: dict[str, Any], *args: Any, **more: Any) -> Any:
        """Loads `state`."""
        self.nearest = 0
        return super().load_state(state, *args, **more)

    def request(self, *, config: dict[str, Any] | None = None, **inputs: Any) -> ChatRequest:
        """Returns the request that a call with `inputs` sends. `config` overrides sampling values by name."""
        return self.chat_request(self.messages(**inputs), *self.sampling_for(config, self.chosen_lm))

    def sampling_for(self, config: dict[str, Any] | None, lm: Any) -> tuple[Sampling, int]:
        """Returns the sampling of `lm` under `config` (values by name), and the number of the draw."""
        drawn = {} if lm is None and dspy.settings.lm is None else rollout_of(lm)
        if not (drawn or self.config or config):
            return self.sampling, 0
        chosen = {**drawn, **self.config, **(config or {})}
        sample = int(chosen.pop("rollout_id", None) or 0)
        values = {name: v for name, v in chosen.items() if name in Sampling.__slots__ and v is not None}
        return replace(self.sampling, **values), sample

    def chat_request(self, messages: tuple[Message, ...], sampling: Sampling, sample: int) -> ChatRequest:
        """Builds the request as `request` does, with known messages, sampling and draw."""
        enforced = self.layout in JSON_LAYOUTS and "schema" in self.target.capabilities
        return ChatRequest(
            messages=messages,
            schema=reply_schema(self.signature) if enforced else None,
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

    def fits(self, **inputs: Any) -> bool:
        """Returns whether a call with `inputs` and its longest reply fits the context of its target."""
        # A bound that needs no tokenizer comes first.
        return self.surely_fits(self.messages(**inputs)) or self.size(**inputs) <= self.target.context_tokens

    def surely_fits(self, messages: Sequence[Message]) -> bool:
        """Returns whether `messages` fit the target's context even if every byte is a token."""
        most = sum(len(message.content.encode()) + _AROUND for message in messages)
        return most + self.sampling.max_tokens <= self.target.context_tokens

    def second_request(self, request: ChatRequest, reply: Reply, problem: str) -> ChatRequest | None:
        """Returns the request after an unreadable `reply`: with the schema and the `problem`.

        A reply that ran out of tokens is asked for again with a higher limit, if the context has space. None
        when another reply would not help: the model refuses, or reasoning used up all tokens.
        """
        if reply.finish == "refusal":
            return None
        if reply.finish == "length":
            limit = self._higher_limit(request, reply)
            if limit > request.sampling.max_tokens:
                return replace(request, sampling=replace(request.sampling, max_tokens=limit))
            if not reply.text.strip():
                return None
        fields = ", ".join(f'"{name}"' for name in self.signature.output_fields)
        again = Message("user", _REPAIR.format(problem=escape_markers(problem), fields=fields))
        messages = (*request.messages, Message("assistant", reply.text[:REPEATED]), again)
        schema = reply_schema(self.signature) if "schema" in self.target.capabilities else None
        return replace(request, messages=messages, schema=schema)

    def _higher_limit(self, request: ChatRequest, reply: Reply) -> int:
        """Returns a higher limit of tokens than that of `request`, after which `reply` was cut.

        It is `MORE_TOKENS_FACTOR` times that, and at least `MIN_MORE_TOKENS` and the tokens of `reply` more,
        within the context. 0 where the model's own limit holds.
        """
        target, limit = self.target, request.sampling.max_tokens
        if getattr(target, "longest_reply", None) is not None:
            return 0
        prompt = sum(target.count_tokens(message.content) + _AROUND for message in request.messages)
        higher = max(MORE_TOKENS_FACTOR * limit, limit + max(MIN_MORE_TOKENS, reply.usage.completion))
        return min(higher, target.context_tokens - prompt)

    def parse_reply(self, reply: Reply, *, enforced: bool, again: bool = False) -> Parsed:
        """Parses `reply`, the second one of a call if it is asked for `again`, which should be JSON.

        `enforced` says that the target was given the schema. Raises ParseFailure.
        """
        if failure := why_unanswered(reply):
            raise ParseFailure(failure)
        signature = self.signature
        layout = "json" if again else self.layout
        if layout not in JSON_LAYOUTS and dspy.settings.callbacks:  # who watches DSPy's adapters sees them
            with contextlib.suppress(Exception):
                adapter(layout).parse(signature, reply.text)
        try:
            return parse(signature, reply.text, layout=layout, enforced=enforced, finish=reply.finish)
        except ParseFailure as error:
            cut = f"{CUT}{reply.usage.completion:,} tokens before it could be read. "
            raise ParseFailure(f"{cut if reply.finish == 'length' else ''}{error}") from error


def why_unanswered(reply: Reply) -> str:
    """Returns why `reply` cannot hold an answer; "" if it may."""
    begun = f"It began {json.dumps(repair_surrogates(reply.text[:80]), ensure_ascii=False)}."
    if reply.finish == "refusal":
        return f"{DECLINED}the request. {begun}"
    if reply.finish == "tool_calls":
        return f"{CALLS_TOOLS}in place of an answer. {begun}"
    if reply.text.strip():
        return ""
    tokens, reasons = reply.usage.completion, bool(reply.reasoning or reply.usage.reasoning)
    if reply.finish == "length" and reasons:
        return f"{CUT}{tokens:,} tokens while thinking. {_LESS_REASONING}"
    if reply.finish == "length":
        return f"{CUT}{tokens:,} tokens before it said anything."
    return f"A reply ends with its thoughts, and no answer follows. {_LESS_REASONING}" if reasons else ""
