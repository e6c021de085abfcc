"""OwnPredict: a predictor inside a user's module, and the state of the question it is called for.

A user's code may call predictors from its own threads, may catch every error, and may continue after its
caller has gone. So the question stores what must not get lost: how many calls were made, and the first error
that must end more than this question.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import dspy
from pydantic_core import PydanticUndefined

from ragc.core import counters, event_loop
from ragc.core.digest import digest
from ragc.corpora.sources.base import current_question
from ragc.errors import ParseFailure, RagcError, RequestRefused, UsageError
from ragc.programs.calls.chosen_lm import named_lm
from ragc.programs.calls.demos import nearest_first, plain
from ragc.programs.calls.fit_context import cut_to_fit
from ragc.programs.calls.predict import HINT, Invocation, RagPredict, track_usage
from ragc.programs.calls.prompt import PromptTemplate, setting, why_unanswered
from ragc.programs.calls.replay import ReadReply, Recording, to_plain
from ragc.programs.knobs import ADAPTER
from ragc.programs.own.adapter_calls import AdapterCall, settings_of
from ragc.programs.own.adapters import to_json
from ragc.programs.own.schemas import is_closed
from ragc.records import Passage
from ragc.targets.base import ChatRequest, Message, Reply, Sampling, Target
from ragc.targets.gateway import GatewayReply

T = TypeVar("T")

SETTING = "ragc_own_question"
"""The name of the question among DSPy's settings, which DSPy carries into its threads."""


@dataclass(slots=True)
class Running:
    """A question that the module called `name` answers, with at most `most` calls.

    `hits` are the passages of searches, by their text in a prompt. `stopped` is the first error that ends
    more than this question. Calls of a question that was `cancelled` are refused.
    """

    name: str
    most: int
    says: bool
    hits: dict[str, Passage] = field(default_factory=dict)
    stopped: RagcError | None = None
    cancelled: bool = False
    context: Context | None = None
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def count_call(self) -> None:
        """Counts one call. Raises UsageError beyond the number that the module declared."""
        if self.cancelled:
            raise asyncio.CancelledError
        if next(self.numbers) > self.most:
            where = "as its `most_calls` says" if self.says else "taken to be the most, as it does not say"
            raise UsageError(
                f"The module {self.name} made more than {self.most} calls of its predictors for one "
                f"question, {where}; set most_calls on the class to the most that a question takes."
            )

    def join(self, work: Callable[[], T]) -> T:
        """Calls `work` with this question's trace and counters, also in a DSPy thread that lacks them."""
        held = self.context
        if held is None or running.get() is self:
            return work()

        def joined() -> T:
            for variable, value in held.items():
                if variable.name.startswith("ragc_") or variable is current_question:
                    variable.set(value)
            return work()

        return copy_context().run(joined)

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Stores the first error that must end more than this question, even if user code catches it."""
        try:
            yield
        except (ParseFailure, RequestRefused):
            raise
        except RagcError as error:
            self.stopped = self.stopped or error
            raise


running: ContextVar[Running | None] = ContextVar("ragc_own_running", default=None)


def current() -> Running | None:
    """Returns the question of this context, or of the thread of DSPy's that a call comes from."""
    return running.get() or dspy.settings.get(SETTING)


_HINT_ABOUT = "A hint to the module from an earlier run"
"""What DSPy's Refine says of its advice, to a call that is made by an adapter."""


class OwnPredict(RagPredict):
    """A typed call of a user's module. A reply whose schema leaves a field open is not constrained by one.

    A DSPy `adapter` makes the prompt, sends it and reads the reply, as in plain DSPy, and makes the second
    try instead of ours. A `dspy.context(adapter=...)` in the module has precedence. A copy that is made while
    a question is answered, as BestOfN makes them, is traced as its original, so that its calls can become
    demonstrations.
    """

    adapter: Any = None
    _copied_from: OwnPredict | None = None
    _pinned = False

    def __deepcopy__(self, memo: dict[int, Any]) -> OwnPredict:
        twin = super().__deepcopy__(memo)
        twin._copied_from = (self._copied_from or self) if running.get() is not None else None
        return twin

    @property
    def traced_as(self) -> RagPredict:
        """Returns the predictor that DSPy's trace names for a call of this one."""
        return self._copied_from or super().traced_as

    def forward(self, **kwargs: Any) -> dspy.Prediction:
        """Calls as RagPredict does, and counts the call for the current question."""
        question = current()
        call_forward = super().forward if self.chosen_adapter is None else self._forward_by_adapter
        if question is None:
            return call_forward(**kwargs)
        with question.watch():
            return question.join(lambda: call_forward(**kwargs))

    def _forward_by_adapter(self, **kwargs: Any) -> dspy.Prediction:
        """Calls as `forward` does, by the adapter's own synchronous call in this thread."""
        if event_loop.is_on_loop():
            return event_loop.run(super().aforward(**kwargs))
        if (lm := kwargs.pop("lm", None)) is not None:
            with named_lm(self, lm):
                return self._forward_by_adapter(**kwargs)
        if self._stands_for is None and (hint := self._hint) is not None:
            twin = self._with_hint()
            return twin._forward_by_adapter(**kwargs, **{HINT: hint})
        invocation = self._prepare(kwargs)
        known = self._answer_from_memory(invocation)
        if known is not None:
            return known
        inputs, call = self._adapter_call(invocation)
        return self._finish_call(invocation, inputs, call, *call.run(inputs))

    async def _answer(self, invocation: Invocation) -> dspy.Prediction:
        if self.chosen_adapter is None:
            return await super()._answer(invocation)
        inputs, call = self._adapter_call(invocation)
        return self._finish_call(invocation, inputs, call, *await call.arun(inputs))

    @property
    def chosen_adapter(self) -> Any:
        """The adapter that makes this call; None where ragc's layouts do."""
        if self.adapter is None or self._pinned or current() is None:
            return self.adapter
        chosen = setting("adapter")
        # Refine gives its advice by an adapter of its own; it is read from there (`_with_hint`).
        return self.adapter if chosen is None or type(chosen).__module__ == "dspy.predict.refine" else chosen

    def _adapter_call(self, invocation: Invocation) -> tuple[dict[str, Any], AdapterCall]:
        """Returns the inputs of `invocation`, cut to fit the context if needed, and its call."""
        inputs = invocation.inputs
        for name, info in self.signature.input_fields.items():
            if name not in inputs and info.default is not PydanticUndefined:
                inputs[name] = info.default
        if not self.surely_fits(self.messages(**inputs)):
            inputs, _ = cut_to_fit(self, inputs)
        target, shown = invocation.target, list[Any]()
        ask = self._make_ask(target, shown)
        call = self._call_for(inputs, target, invocation.sampling, invocation.sample, ask)
        call.shown = shown
        return inputs, call

    def _call_for(
        self, inputs: Mapping[str, Any], target: Target, sampling: Sampling, sample: int, ask: Any
    ) -> AdapterCall:
        return AdapterCall(
            self.chosen_adapter,
            target,
            ask,
            signature=self.signature,
            demos=self.shown_demos(inputs),
            fields=self.fields,
            sampling=sampling,
            sample=sample,
            settings=settings_of(target, sampling, self.config),
        )

    def _make_ask(self, of: Target, shown: list[Any]) -> Callable[[Target, ChatRequest], Any]:
        """Returns a function that asks the gateway, and shows replies to `dspy.streamify` as they come.

        `shown` lists the replies shown so far. Replies for a user's own adapter come whole.
        """

        async def ask(target: Target, request: ChatRequest) -> GatewayReply:
            stream = None if self.layout == ADAPTER else self._shown_reply(of)
            pending = self.runtime.gateway.ask(target, request)
            if stream is None:
                return await pending
            shown.append(stream)
            return await stream.watch(pending)

        return ask

    def _finish_call(
        self,
        invocation: Invocation,
        inputs: dict[str, Any],
        call: AdapterCall,
        outputs: dict[str, Any],
        failure: str,
    ) -> dspy.Prediction:
        """Returns the prediction of a call. Raises ParseFailure if its replies were unreadable."""
        answers = tuple(call.answers)
        if failure and answers:
            failure = why_unanswered(answers[-1].reply) or failure
        if call.shown and not failure:
            call.shown[-1].finish(outputs)
        counters.count(repairs=max(0, len(answers) - 1))
        track_usage(invocation.target.model, answers)
        recording = Recording(answers, failure, inputs != invocation.inputs)
        outcome = ReadReply(recording, outputs, to_plain(outputs), failure, self.template.fields)
        return self._to_prediction(invocation, inputs, outcome)

    def shown_demos(self, inputs: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Returns the demonstrations that a call with `inputs` shows, in order."""
        demos = [plain(demo) for demo in self.demos]
        if self.nearest:
            places = nearest_first(demos, inputs)[: min(self.nearest, self.max_demos)]
            return [demos[at] for at in places[::-1]]
        return demos[: self.max_demos]

    def made_elsewhere(self, inputs: Mapping[str, Any]) -> tuple[Message, ...] | None:
        """Returns the messages of the adapter, if there is one."""
        if self.chosen_adapter is None:
            return None
        lm = self.chosen_lm
        call = self._call_for(inputs, self.target_by(lm), *self.sampling_for(None, lm), self._reject_request)
        return call.messages(inputs)

    async def _reject_request(self, target: Target, request: ChatRequest) -> GatewayReply:
        raise RuntimeError("a prompt that is only formatted is not sent")

    @property
    def template(self) -> PromptTemplate:
        """TypedPrompt's template; an adapter's prompt has no constant part."""
        if self.adapter is None:
            return super().template
        rendering, mode = self._rendered, (self.layout, self.max_demos, tuple(self.demos))
        if rendering is None or rendering.of != mode:
            rendering = self._rendered = self._adapter_template(mode)
        return rendering

    def _adapter_template(self, mode: tuple[str, int, tuple[Any, ...]]) -> PromptTemplate:
        outputs = self.signature.output_fields
        read = tuple((name, info.annotation, *info.metadata) for name, info in outputs.items())
        fields = [[name, str(info.annotation)] for name, info in self.signature.fields.items()]
        state = self.signature.dump_state()
        demos = [plain(demo) for demo in self.demos]
        mark = digest([to_json(self.adapter), state, fields, demos, [self.layout, self.max_demos]])
        return PromptTemplate((), mark, repr(state), (), (), outputs, read, mode)

    @property
    def unchanged(self) -> Any:
        """TypedPrompt's copy, with the present adapter."""
        if self.adapter is None:
            return super().unchanged
        twin = copy.copy(self)
        kept = {"demos": list(self.demos), "adapter": self.chosen_adapter, "_pinned": True}
        twin.__dict__ = {**self.__dict__, **kept}
        return twin

    def _key(self, inputs: dict[str, Any], target: Target, sampling: Sampling, sample: int) -> str | None:
        """Returns RagPredict's key; None with an adapter, which is known by its requests alone."""
        return None if self.adapter is not None else super()._key(inputs, target, sampling, sample)

    def _with_hint(self) -> RagPredict:
        if self.adapter is None:
            return super()._with_hint()
        twin = copy.deepcopy(self)
        twin.signature = self.signature.append(HINT, dspy.InputField(desc=_HINT_ABOUT))
        twin._stands_for = self
        return twin

    def dump_state(self, *args: Any, **more: Any) -> dict[str, Any]:
        """Returns DSPy's state, and the measured settings, which plain DSPy uses as its `config`."""
        state = super().dump_state(*args, **more)
        lm = self.chosen_lm
        sampling, _ = self.sampling_for(None, lm)
        state["config"] = settings_of(self.target_by(lm), sampling, self.config)
        if not self.nearest:
            state["demos"] = state["demos"][: self.max_demos]
        return state

    def load_state(self, state: dict[str, Any], *args: Any, **more: Any) -> Any:
        """Loads `state`, without its `config`: the knobs decide how replies are drawn."""
        rest = {name: value for name, value in state.items() if name != "config"}
        return super().load_state(rest, *args, **more)

    async def aforward(self, **kwargs: Any) -> dspy.Prediction:
        """Calls as RagPredict does, and counts the call for the current question."""
        question = current()
        if question is None:
            return await super().aforward(**kwargs)
        with question.watch():
            return await super().aforward(**kwargs)

    def _prepare(self, kwargs: dict[str, Any]) -> Any:
        if (question := current()) is not None:
            question.count_call()
        return super()._prepare(kwargs)

    def sampling_for(self, config: dict[str, Any] | None, lm: Any) -> tuple[Sampling, int]:
        """Returns the sampling as TypedPrompt does; refuses several completions of one call."""
        if int((config or {}).get("n") or self.config.get("n") or 1) > 1:
            raise UsageError(
                f"The predictor {self.name or 'without a name'!r} draws several completions (n), and a call "
                "has one reply here; call it once for each, with other numbers in "
                "config={'rollout_id': 1, 'temperature': 0.7}."
            )
        return super().sampling_for(config, lm)

    def chat_request(self, messages: tuple[Message, ...], sampling: Sampling, sample: int) -> ChatRequest:
        """Builds the request as TypedPrompt does, without a schema that leaves fields open."""
        return _without_open(super().chat_request(messages, sampling, sample))

    def repair_request(self, request: ChatRequest, reply: Reply, error: str) -> ChatRequest:
        """Builds the request as TypedPrompt does, without a schema that leaves fields open."""
        return _without_open(super().repair_request(request, reply, error))


def _without_open(request: ChatRequest) -> ChatRequest:
    held: Mapping[str, Any] | None = request.schema
    return request if held is None or is_closed(held) else replace(request, schema=None)
