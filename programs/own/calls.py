"""OwnPredict: a predictor inside a user's module, and the state of the question it is called for.

A user's code may call predictors from its own threads, may catch every error, and may continue after its
caller has gone. So the question stores what must not get lost: how many calls were made, and the first error
that must end more than this question.
"""

from __future__ import annotations

import asyncio
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
from ragc.programs import trace
from ragc.programs.calls.chosen_lm import advice_for
from ragc.programs.calls.demos import forced_values, nearest_first, plain
from ragc.programs.calls.fit_context import cut_to_fit
from ragc.programs.calls.outputs import Reading
from ragc.programs.calls.predict import HINT, Exchange, RagPredict, note_history, track_usage
from ragc.programs.calls.prompt import PromptTemplate, why_unanswered
from ragc.programs.calls.streaming import stream_of
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
        lm, advice = kwargs.pop("lm", None), None if self._stands_for else advice_for(self)
        if lm is not None or advice is not None:
            twin: Any = self._stand_in(lm, advice)
            return twin._forward_by_adapter(**kwargs, **({HINT: advice} if advice else {}))
        spot, config = trace.allocate_position(), kwargs.pop("config", None)
        exchange = Exchange(spot, kwargs)
        known = forced_values(self.signature.output_fields)
        if known is not None:
            exchange.parsed = Reading(known)
        else:
            call = self._adapter_call(exchange, config)
            self._take(exchange, call, *call.run(exchange.inputs))
        return self._finish(exchange)

    async def _exchange(self, exchange: Exchange, config: dict[str, Any] | None) -> None:
        if self.chosen_adapter is None:
            self._count()
            await super()._exchange(exchange, config)
            return
        call = self._adapter_call(exchange, config)
        self._take(exchange, call, *await call.arun(exchange.inputs))

    @staticmethod
    def _count() -> None:
        if (question := current()) is not None:
            question.count_call()

    @property
    def chosen_adapter(self) -> Any:
        """The adapter that makes this call; None where ragc's layouts do."""
        if self.adapter is None or self._pinned or current() is None:
            return self.adapter
        chosen = dspy.settings.adapter
        # Refine gives its advice by an adapter of its own; it is read from there (`_with_hint`).
        return self.adapter if chosen is None or type(chosen).__module__ == "dspy.predict.refine" else chosen

    def _adapter_call(self, exchange: Exchange, config: dict[str, Any] | None) -> AdapterCall:
        """Returns the call of an exchange, whose inputs are cut to fit the context if needed."""
        self._count()
        inputs = exchange.inputs
        for name, info in self.signature.input_fields.items():
            if name not in inputs and info.default is not PydanticUndefined:
                inputs[name] = info.default
        exchange.messages = self.messages(**inputs)
        if not self.surely_fits(exchange.messages):
            exchange.inputs, exchange.messages = cut_to_fit(self, inputs)
        lm = self.chosen_lm
        target, shown = self.target_by(lm), list[Any]()
        ask = self._make_ask(target, shown)
        call = self._call_for(exchange.inputs, target, *self.sampling_for(config, lm), ask)
        call.shown = shown
        return call

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
            stream = None if self.layout == ADAPTER else stream_of(self.traced_as, of.model, self.layout)
            pending = self.runtime.gateway.ask(target, request)
            if stream is None:
                return await pending
            shown.append(stream)
            return await stream.watch(pending)

        return ask

    def _take(self, exchange: Exchange, call: AdapterCall, outputs: dict[str, Any], failure: str) -> None:
        """Takes what came of `call` into its exchange."""
        exchange.answers, exchange.parsed = call.answers, Reading(outputs)
        if failure and call.answers:
            failure = why_unanswered(exchange.replies[-1]) or failure
        exchange.failure = failure
        if call.shown and not failure:
            call.shown[-1].finish(outputs)
        counters.count(repairs=max(0, len(call.answers) - 1))
        lm = self.chosen_lm
        target = self.target_by(lm)
        track_usage(target.model, call.answers)
        if call.answers:
            note_history(lm or getattr(target, "lm", None), target.model, exchange)

    def shown_demos(self, inputs: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Returns the demonstrations that a call with `inputs` shows, in order."""
        demos = [plain(demo) for demo in self.demos]
        if self.nearest:
            places = nearest_first(demos, inputs)[: min(self.nearest, self.max_demos)]
            return [demos[at] for at in places[::-1]]
        return demos[: self.max_demos]

    def messages(self, **inputs: Any) -> tuple[Message, ...]:
        """Returns the messages of the adapter, if there is one."""
        if self.chosen_adapter is None:
            return super().messages(**inputs)
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
        rendering, mode = self._template, (self.signature, self.layout, self.max_demos, tuple(self.demos))
        if rendering is None or rendering.of != mode:
            rendering = self._template = self._adapter_template(mode)
        return rendering

    def _adapter_template(self, mode: tuple[Any, str, int, tuple[Any, ...]]) -> PromptTemplate:
        fields = [[name, str(info.annotation)] for name, info in self.signature.fields.items()]
        state = self.signature.dump_state()
        demos = [plain(demo) for demo in self.demos]
        mark = digest([to_json(self.adapter), state, fields, demos, [self.layout, self.max_demos]])
        return PromptTemplate((), mark, (), (), mode)

    def _stand_in(self, lm: Any, advice: str | None) -> RagPredict:
        twin = super()._stand_in(lm, advice)
        if self.adapter is not None and advice is not None:
            twin.signature = self.signature.append(HINT, dspy.InputField(desc=_HINT_ABOUT))
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

    def second_request(self, request: ChatRequest, reply: Reply, problem: str) -> ChatRequest | None:
        """Builds the request as TypedPrompt does, without a schema that leaves fields open."""
        again = super().second_request(request, reply, problem)
        return None if again is None else _without_open(again)


def _without_open(request: ChatRequest) -> ChatRequest:
    held: Mapping[str, Any] | None = request.schema
    return request if held is None or is_closed(held) else replace(request, schema=None)
