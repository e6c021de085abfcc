"""The gateway before the language models of a user's module: store, budget, counters and trace.

A gated LM is a copy of the user's, of a subclass of its class. What it sends, the class sends, in the thread
or on the loop of the call: callbacks, usage, streams, tools, images and engines stay DSPy's own.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache, partial
from typing import Any

import dspy
from dspy.adapters.utils import serialize_for_json
from dspy.clients.call_result import attributes
from dspy.utils.callback import with_callbacks

from ragc.core import counters
from ragc.core.digest import canonical
from ragc.corpora.sources.base import current_question
from ragc.errors import ParseFailure, RagcError, RequestRefused
from ragc.programs import trace
from ragc.programs.runtime import Runtime
from ragc.targets.base import ChatRequest, Message, Reply, Sampling, Usage
from ragc.targets.dspy_lm import DspyTarget, LMRequest, OwnLM, RagLM, as_lm, cause, target_of
from ragc.targets.gateway import GatewayReply
from ragc.targets.wire import bound_tokens, read_usage

SETTING = "ragc_own_question"
"""The name of the question among DSPy's settings, which DSPy carries into its threads."""

running: ContextVar[OwnQuestion | None] = ContextVar("ragc_own_running", default=None)

ATOMS = (str, int, float, type(None))
"""Values that are JSON; DSPy's serializer needs 100 us for each."""

Messages = tuple[tuple[Any, str], ...]
"""The messages of a call as (role, content); what is no text alone is JSON."""


@dataclass(slots=True)
class LMCall:
    """One call of a language model: its place in the trace, its caller, what came, and what DSPy raised."""

    messages: Messages
    spot: tuple[trace.Run, tuple[int, ...]] | None = None
    caller: Any = None
    place: object = None
    text: str = ""
    usage: Usage = field(default_factory=Usage)
    raised: BaseException | None = None

    def add(self, reply: Reply) -> None:
        """Adds a reply; those of several draws are joined."""
        self.text, self.usage = f"{self.text}{reply.text}", self.usage + reply.usage

    def replied(self, request: LMRequest, outputs: Any, tracker: Any) -> Reply:
        """Returns `outputs` as the reply that is stored, with the tokens that DSPy tracked."""
        text = json.dumps(outputs, default=_plain)
        usage: dict[str, Any] = {"usage": next(iter(tracker.get_total_tokens().values()), {})}
        return Reply(text, usage=read_usage(usage, request, text, bound_tokens))


@dataclass(slots=True)
class OwnQuestion:
    """A question that a user's module answers.

    `names` are names and predictors by identity, and by `stage`, which copies made in a call keep. `stopped`
    is the first error that ends more than this question, as the module may catch it. Calls are refused once
    whoever waited for the answer has `gone`. `calls` wait for their predictor's entry in DSPy's trace;
    `tracked` counts their entries in DSPy's usage tracker.
    """

    names: Mapping[Any, tuple[str, Any]]
    context: Context = field(default_factory=Context)
    calls: list[LMCall] = field(default_factory=list)
    tracked: int = 0
    stopped: RagcError | None = None
    gone: bool = False

    def take(self, predictor: Any, inputs: Any, prediction: Any) -> tuple[Any, Any, Any]:
        """Records the calls that `predictor` made for `prediction`; returns the entry of DSPy's trace."""
        place = _place()
        made = [call for call in self.calls if call.caller is predictor and call.place == place]
        self.calls = [call for call in self.calls if call not in made]
        entry = self.name_of(predictor)[1], inputs, prediction
        if made:
            counters.count(repairs=len(made) - 1)
            self.record(made, _values(inputs), _values(prediction), entry)
        return entry

    def record(self, calls: list[LMCall], inputs: Any, outputs: Any, entry: Any = None) -> None:
        """Adds `calls` of one predictor to the trace, where the first began."""
        used, name = sum((call.usage for call in calls), Usage()), self.name_of(calls[0].caller)[0]
        if calls[0].spot is None:
            return
        run, position = calls[0].spot
        sent = trace.Sent(lambda: calls[0].messages, [call.text for call in calls])
        event = trace.Call(
            name, "main", inputs, outputs, repaired=len(calls) > 1, prompt_tokens=used.prompt,
            completion_tokens=used.completion, at=position, sent=sent,
        )  # fmt: skip
        run.add(position, event, entry)

    def name_of(self, predictor: Any) -> tuple[str, Any]:
        """Returns name and original of `predictor`, which may be a copy, or made while the module runs."""
        known = self.names.get(id(predictor)) or self.names.get(getattr(predictor, "stage", None))
        return known or (type(predictor).__name__, predictor)


class Steps(list[Any]):
    """DSPy's trace of a question, which ragc's trace follows."""

    def __init__(self, question: OwnQuestion) -> None:
        super().__init__()
        self._question = question

    def append(self, entry: Any) -> None:
        """Adds `entry`: a predictor, its inputs and its prediction."""
        super().append(self._question.take(*entry))

    def extend(self, entries: Iterable[Any]) -> None:
        """Adds `entries`, such as those of the best of several runs."""
        for entry in entries:
            self.append(entry)


def _values(record: Any) -> dict[str, Any]:
    """Returns the values of inputs or of a prediction as JSON can hold them."""
    return {n: v if isinstance(v, ATOMS) else serialize_for_json(v) for n, v in record.items()}


def loop_here() -> Any:
    """Returns the loop that runs in this thread; None outside of one."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _place() -> object:
    """Returns what a call and its predictor share: the task, or else the thread."""
    return threading.get_ident() if loop_here() is None else asyncio.current_task()


def current() -> OwnQuestion | None:
    """Returns the question of this context, or of the thread of DSPy's that a call comes from."""
    question: OwnQuestion | None = dspy.settings.get(SETTING)
    if question is not None and running.get() is not question:  # a thread of DSPy's has its settings alone
        for variable, value in question.context.items():
            if variable.name.startswith("ragc_") or variable is current_question:
                variable.set(value)
    return question


_calling: ContextVar[LMCall | None] = ContextVar("ragc_own_call", default=None)
"""The call of a gated LM in this context."""

_awaited: Counter[Any] = Counter()
"""The number of calls that are awaited, by the loop that sends them."""


class Gated(dspy.BaseLM):
    """Comes before the class of a user's LM: its calls pass the gateway, and are sent as the class does."""

    ragc_lm: Any
    ragc_runtime: Runtime

    def __deepcopy__(self, memo: object) -> Gated:
        return self

    def dump_state(self) -> dict[str, Any]:
        """Returns the state of the user's own LM."""
        return {**super().dump_state(), "cache": self.ragc_lm.cache}

    def __call__(self, prompt: Any = None, *, messages: Any = None, **settings: Any) -> Any:
        """Returns the outputs of a call, sent in this thread unless they are stored."""
        with self._called(prompt, messages, settings) as (call, tracker):
            send = partial(super().__call__, prompt, messages=messages, **settings)
            if not self._is_users(prompt):
                return send()

            async def send_here() -> Reply:
                try:
                    return call.replied(request, send(), tracker)
                except BaseException as error:
                    call.raised = error
                    raise

            request = self._request(call, settings, send_here)
            if _awaited[loop_here()]:  # a twin that is awaited would be sent on the loop that waits here
                request = replace(request, sample=1)
            answer = self.ragc_runtime.gateway.ask_here(target_of(self.ragc_lm), request)
            return self._found(call, answer, prompt, messages, settings)

    async def acall(self, prompt: Any = None, *, messages: Any = None, **settings: Any) -> Any:
        """Awaits what `__call__` returns; sent on this loop unless the outputs are stored."""
        with self._called(prompt, messages, settings) as (call, tracker):
            send = partial(super().acall, prompt, messages=messages, **settings)
            if not self._is_users(prompt):
                return await send()
            context, loop = copy_context(), loop_here()

            async def send_here() -> Reply:
                try:
                    return call.replied(request, await send(), tracker)
                except BaseException as error:
                    call.raised = error
                    raise

            async def ordered() -> Reply:
                sent = context.run(asyncio.run_coroutine_threadsafe, send_here(), loop)
                return await asyncio.wrap_future(sent)

            request = self._request(call, settings, ordered)
            _awaited[loop] += 1
            try:
                answer = await self.ragc_runtime.gateway.ask(target_of(self.ragc_lm), request)
            finally:
                _awaited[loop] -= 1
            return self._found(call, answer, prompt, messages, settings)

    def _is_users(self, prompt: Any) -> bool:
        """Whether a call is the user's own LM's; a target of ragc passes the gateway by its engine."""
        return not isinstance(self.ragc_lm, RagLM) and not isinstance(prompt, dspy.lm15.Request)

    def _request(self, call: LMCall, settings: Mapping[str, Any], send: Any) -> LMRequest:
        """Returns the request by which store and budget know a call: all that affects its outputs."""
        merged = {name: value for name, value in {**self.kwargs, **settings}.items() if value is not None}
        merged.pop("api_key", None)
        longest = merged.get("max_tokens") or merged.get("max_completion_tokens")
        most = int(longest or target_of(self.ragc_lm).context_tokens) * int(merged.get("n", 1))
        return LMRequest(
            messages=tuple(Message(*message) for message in call.messages),
            schema={"settings": {n: v if isinstance(v, ATOMS) else _json(v) for n, v in merged.items()}},
            sampling=Sampling(temperature=float(merged.get("temperature", 1.0)), max_tokens=most),
            send=send,
        )

    def _found(self, call: LMCall, answer: GatewayReply, prompt: Any, messages: Any, settings: Any) -> Any:
        """Returns the outputs in `answer`. Callbacks and histories hear of stored ones, as in DSPy."""
        call.add(answer.reply)
        outputs = attributes(json.loads(answer.reply.text))
        if not answer.cached:
            return outputs

        @with_callbacks  # type: ignore[untyped-decorator]
        def cached(lm: Any, prompt: Any = None, *, messages: Any = None, **settings: Any) -> Any:
            if not dspy.settings.disable_history:
                lm.update_history(
                    {
                        "prompt": prompt, "messages": messages, "kwargs": settings, "response": None,
                        "outputs": outputs, "usage": {}, "cost": None, "uuid": answer.key,
                        "timestamp": datetime.now(UTC).isoformat(), "model": lm.model,
                        "response_model": lm.model, "model_type": lm.model_type,
                    }
                )  # fmt: skip
            return outputs

        return cached(self, prompt, messages=messages, **settings)

    @contextmanager
    def _called(self, prompt: Any, messages: Any, settings: dict[str, Any]) -> Iterator[tuple[LMCall, Any]]:
        """Records a call of the question of this context, its usage, and an error that ends more than it.

        Raises CancelledError if nobody waits for the answer, and in the place of the gateway's error what
        DSPy raised, also where the refusal of a prompt that is too long was stored.
        """
        question, call = current(), LMCall(shown_messages(prompt, messages), place=_place())
        settings.pop("cache", None)  # DSPy's own, whose key lacks the address
        if question is not None:
            if question.gone:
                raise asyncio.CancelledError
            call.spot, call.caller = trace.allocate_position(), (dspy.settings.caller_modules or [None])[-1]
            question.calls.append(call)
        token = _calling.set(call)
        try:
            with dspy.track_usage() as tracker:
                yield call, tracker
            if question is not None and not isinstance(prompt, dspy.lm15.Request):
                question.tracked += sum(map(len, tracker.usage_data.values()))
        except Exception as error:
            own = cause(error)
            if question is not None and not isinstance(own, ParseFailure | RequestRefused):
                question.stopped = question.stopped or own
            if isinstance(error, RagcError) and call.raised is not None:
                raise call.raised from error
            if isinstance(error, RequestRefused) and error.kind == "too long":
                raise dspy.ContextWindowExceededError(model=self.model, message=str(error)) from error
            raise
        finally:
            _calling.reset(token)


def shown_messages(prompt: Any, messages: Any) -> Messages:
    """Returns the messages of a call of a language model."""
    listed = (
        messages
        if messages is not None
        else [{"role": "user", "content": prompt if isinstance(prompt, str) else repr(prompt)}]
    )
    return tuple((message.get("role"), _content(message)) for message in listed)


def _content(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str) and len(message) == 2:
        return content
    more = {name: value for name, value in message.items() if name != "role"}
    return canonical(_json(more))


def _json(value: Any) -> Any:
    """Returns `value` as JSON can hold it."""
    return json.loads(json.dumps(value, default=_plain))


def _plain(value: Any) -> Any:
    """Returns a value of a call's settings or outputs as JSON can hold it."""
    dump = getattr(value, "model_json_schema" if isinstance(value, type) else "model_dump", None)
    return repr(value) if dump is None else dump()


@cache
def _gated_class(cls: Any) -> type:
    return type(cls.__name__, (Gated, cls), {"__module__": cls.__module__, "__qualname__": cls.__qualname__})


def gate(lm: Any, runtime: Runtime) -> Any:
    """Returns a copy of `lm` whose calls pass the gateway of `runtime`; a gated one as it is.

    Raises UsageError if it is no language model of DSPy.
    """
    if isinstance(lm, Gated):
        return lm
    target_of(lm)
    gated = lm.copy()
    gated.__class__ = _gated_class(type(lm))  # type: ignore[arg-type]  # a type is hashable
    gated.cache, gated.ragc_lm, gated.ragc_runtime = False, lm, runtime
    return gated


def lm_of(runtime: Runtime, sampling: Sampling) -> Any:
    """Returns the gated LM of the role main: the user's own, or one that stands for a target of ragc."""
    target = runtime.target("main")
    if isinstance(target, DspyTarget):
        return gate(target.lm, runtime)

    async def complete(request: ChatRequest) -> Reply:
        call, reply = _calling.get(), await runtime.gateway.complete(target, request)
        if call is not None:
            call.add(reply)
        return reply

    return gate(as_lm(complete, target, sampling=sampling, kind=OwnLM), runtime)
