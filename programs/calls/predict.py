"""RagPredict: DSPy's predictor on a target of ragc.

It sends requests through the gateway and returns typed outputs. A reply that does not fit is mended, or
requested again if that fails; both are counted. A repeated call is replayed whole, see
`ragc.programs.calls.replay`.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import dspy
from dspy.clients.base_lm import GLOBAL_HISTORY, MAX_HISTORY_SIZE

from ragc.core import counters, event_loop
from ragc.errors import ParseFailure, RequestRefused
from ragc.programs import trace
from ragc.programs.calls.chosen_lm import hint_for, named_lm
from ragc.programs.calls.demos import forced, forced_values
from ragc.programs.calls.parsing import Parsed
from ragc.programs.calls.prompt import TypedPrompt, setting
from ragc.programs.calls.replay import (
    ReadReply,
    Recording,
    ReplayCache,
    call_key,
    fresh,
    prompt_digest,
    replay_cache_of,
    to_plain,
)
from ragc.targets.base import ChatRequest, Message, Reply, Sampling, Target
from ragc.targets.gateway import GatewayReply

if TYPE_CHECKING:
    from ragc.programs.calls.streaming import ReplyStream

_SPECIAL = frozenset({"lm", "signature", "demos", "_trace"})

HINT = "hint_"
HINT_ABOUT = "Advice from an earlier attempt."
"""The input that Refine adds to a call, by the name that DSPy gives it."""


@dataclass(slots=True)
class Invocation:
    """One call: its position in the trace, inputs, DSPy's chosen LM, its target, sampling, and its key."""

    spot: tuple[trace.Run, tuple[int, ...]] | None
    inputs: dict[str, Any]
    lm: Any
    target: Target
    sampling: Sampling
    sample: int
    key: str | None = None


class RagPredict(TypedPrompt):
    """A typed call with the role, sampling and layout of its program."""

    _stands_for: RagPredict | None = None

    @property
    def traced_as(self) -> RagPredict:
        """Returns the predictor that DSPy's trace names for a call of this one."""
        return self._stands_for or self

    @property
    def _memo(self) -> ReplayCache:
        return replay_cache_of(self.runtime.gateway.store)

    def _key(self, inputs: dict[str, Any], target: Target, sampling: Sampling, sample: int) -> str | None:
        """Returns the memo's key of a call; None if it cannot be replayed whole."""
        runtime = self.runtime
        if not runtime.gateway.memo:
            return None
        salt = runtime.gateway.salt_of(target)
        printed = self.for_inputs(inputs).cached_fingerprint
        mark = prompt_digest(printed, self.template.wording, sampling, self.logprobs, target)
        return call_key(f"{mark} {salt}" if salt else mark, sample, inputs)

    def fits(self, **inputs: Any) -> bool:
        """Returns whether a call with `inputs` and its longest reply fits the context of its target."""
        target = self.target
        key = self._key(inputs, target, self.sampling, 0)
        size = self._memo.sizes.get(key) if key else None
        if size is None:
            size = self.size(**inputs)
            if key:
                self._memo.put_size(key, size)
        return size <= target.context_tokens

    async def try_call(self, **inputs: Any) -> Any:
        """Returns the prediction of a call; None, noted and counted as dropped, for an unreadable reply."""
        try:
            return await self.acall(**inputs)
        except ParseFailure:
            counters.count(dropped=1)
            return None

    def __call__(self, *args: Any, **inputs: Any) -> dspy.Prediction:
        """Calls and waits; for use outside the process's loop."""
        if args or _is_watched(self):
            return super().__call__(*args, **inputs)
        return self.forward(**inputs)

    async def acall(self, *args: Any, **inputs: Any) -> dspy.Prediction:
        """Returns one typed call, as `aforward`. May be awaited on any loop."""
        if args or _is_watched(self):
            return await super().acall(*args, **inputs)
        return await self.aforward(**inputs)

    def forward(self, **kwargs: Any) -> dspy.Prediction:
        """Calls and waits; for use outside the process's loop."""
        if kwargs.get("lm") is not None or self._hint is not None or event_loop.is_on_loop():
            return event_loop.run(self.aforward(**kwargs))
        invocation = self._prepare(kwargs)
        known = self._answer_from_memory(invocation)
        return event_loop.run(self._answer(invocation)) if known is None else known

    async def aforward(self, **kwargs: Any) -> dspy.Prediction:
        """Returns one typed call. Raises ParseFailure when the second reply cannot be read either."""
        if (lm := kwargs.pop("lm", None)) is not None:
            with named_lm(self, lm):
                return await self.aforward(**kwargs)
        if self._stands_for is None and (hint := self._hint) is not None:
            return await self._with_hint().aforward(**kwargs, **{HINT: hint})
        invocation = self._prepare(kwargs)
        known = self._answer_from_memory(invocation)
        return await self._answer(invocation) if known is None else known

    @property
    def _hint(self) -> str | None:
        """The advice of DSPy's Refine, which gives it by an adapter."""
        return None if setting("adapter") is None else hint_for(self)

    def _with_hint(self) -> RagPredict:
        """Returns the same call with DSPy Refine's advice as one more input; its trace names this one."""
        twin = copy.deepcopy(self)
        twin.signature = self.signature.append(HINT, dspy.InputField(desc=HINT_ABOUT))
        twin._stands_for = self
        return twin

    def _prepare(self, kwargs: dict[str, Any]) -> Invocation:
        spot = trace.allocate_position()
        config = kwargs.pop("config", None)
        for special in _SPECIAL & kwargs.keys():
            del kwargs[special]
        lm = self.chosen_lm
        return Invocation(spot, kwargs, lm, self.target_by(lm), *self.sampling_for(config, lm))

    def _answer_from_memory(self, invocation: Invocation) -> dspy.Prediction | None:
        """Returns an answer that is known without waiting: forced outputs, or a call held in memory.

        With DSPy callbacks no call is replayed whole, since they are shown every step.
        """
        known = None if forced.get() is None else forced_values(self.template.outputs)
        if known is not None:
            return self._record(invocation, invocation.inputs, known, known)
        if not (self.callbacks or setting("callbacks")):
            invocation.key = self._key(
                invocation.inputs, invocation.target, invocation.sampling, invocation.sample
            )
        gateway = self.runtime.gateway
        if invocation.key is None or not gateway.charges_anywhere:
            return None
        outcome = replay_cache_of(gateway.store).recall(invocation.key, self.template.fields)
        if outcome is None:
            return None
        gateway.charge(outcome.recording.answers, invocation.target)
        return self._replay(invocation, outcome)

    async def _answer(self, invocation: Invocation) -> dspy.Prediction:
        """Answers a call from the store, or sends it."""
        if invocation.key is not None:
            cached_outcome = await event_loop.on_loop(self._find_recorded(invocation.key, invocation.target))
            if cached_outcome is not None:
                return self._replay(invocation, cached_outcome)
        inputs, messages = invocation.inputs, self.messages(**invocation.inputs)
        if not self.surely_fits(messages):
            inputs, messages = self._cut_to_fit(inputs)
        request = self.chat_request(messages, invocation.sampling, invocation.sample)
        outcome = await self._send(request, cut=inputs != invocation.inputs)
        # What a fallback answered stands under the fallback's name only.
        by_fallback = any(answer.fallback for answer in outcome.recording.answers)
        if invocation.key is not None and not by_fallback:
            await event_loop.on_loop(self._memo.keep(invocation.key, outcome))
        return self._to_prediction(invocation, inputs, outcome)

    async def _find_recorded(self, key: str, target: Target) -> ReadReply | None:
        """Returns the call under `key` from memory or the store, and charges it. On the process's loop."""
        memo = self._memo
        outcome = memo.recall(key, self.template.fields) or await memo.find(key, self._read)
        if outcome is not None:
            self.runtime.gateway.charge(outcome.recording.answers, target)
        return outcome

    async def _send(self, request: ChatRequest, *, cut: bool) -> ReadReply:
        """Sends `request`, and a second request if the reply is unreadable."""
        gateway, target = self.runtime.gateway, self.target
        shown = self._shown_reply(target)
        pending = gateway.ask(target, request)
        answers = [await (pending if shown is None else shown.watch(pending))]
        reading, error = self.parse_reply(answers[0].reply)
        failure, raised_limit = error, 0
        again = None if reading is not None else self._second_request(request, answers[0].reply, error)
        second = None if again is None else await self._repair(again)
        if again is not None and second is not None:
            counters.count(repairs=1)
            answers.append(second)
            longest = again.sampling.max_tokens
            raised_limit = longest if longest > request.sampling.max_tokens else 0
            reading, failure = self._parse_second(answers, raised_limit)
        track_usage(target.model, answers)
        if shown is not None and reading is not None:
            shown.finish(reading.outputs)
        replayed_answers = tuple(answer._replace(cached=True) for answer in answers)
        return self._outcome(Recording(replayed_answers, error, cut, raised_limit), reading, failure)

    def _second_request(self, request: ChatRequest, reply: Reply, error: str) -> ChatRequest | None:
        """Returns the request after an unreadable `reply`: a repair, or the same with a higher token limit.

        None when another reply would not help: the model or a filter refuses, or reasoning used up all
        tokens.
        """
        if reply.finish == "refusal":
            return None
        if reply.finish == "length":
            roomier = self.roomier_request(request, reply)
            if roomier is not None or not reply.text.strip():
                return roomier
        return self.repair_request(request, reply, error)

    def _parse_second(self, answers: Sequence[GatewayReply], raised_limit: int) -> tuple[Parsed | None, str]:
        """Reads the second of `answers`; returns None and the reason when neither can be read."""
        reading, failure = self.parse_reply(answers[1].reply, again=not raised_limit)
        if failure and raised_limit:
            tokens = answers[0].reply.usage.completion
            failure += f" It was asked for again with more room, after {tokens:,} tokens had not been enough."
        return reading, failure

    def _shown_reply(self, target: Target) -> ReplyStream | None:
        """Returns the stream that shows the next reply to the listeners of `dspy.streamify`, if any."""
        if setting("send_stream") is None:
            return None
        from ragc.programs.calls.streaming import stream_of

        return stream_of(self._stands_for or self, target.model, self.layout)

    async def _repair(self, request: ChatRequest) -> GatewayReply | None:
        """Sends `request`, the second of a call; returns None if it does not fit the context."""
        target = self.target
        size = sum(target.count_tokens(message.content) for message in request.messages)
        if size + request.sampling.max_tokens > target.context_tokens:
            return None
        try:
            return await self.runtime.gateway.ask(target, request)
        except RequestRefused as error:
            if error.kind != "too long":  # the size is a bound, and the server's tokenizer decides
                raise
            return None

    def _read(self, recording: Recording) -> ReadReply | None:
        """Reads `recording` with this signature; None if it would send another second request."""
        first, *second = recording.answers
        reading, failure = self.parse_reply(first.reply)
        if reading is not None:
            recording = Recording((first,), "", recording.cut)
        elif failure != recording.error:
            return None
        elif second:
            reading, failure = self._parse_second(recording.answers, recording.raised_limit)
        return self._outcome(recording, reading, failure)

    def _outcome(self, recording: Recording, reading: Parsed | None, failure: str) -> ReadReply:
        read = reading or Parsed({})
        shown = to_plain(read.outputs)
        return ReadReply(
            recording, read.outputs, shown, failure, self.template.fields, read.repaired, read.dropped
        )

    def _cut_to_fit(self, inputs: dict[str, Any]) -> tuple[dict[str, Any], tuple[Message, ...]]:
        from ragc.programs.calls.fit_context import cut_to_fit

        return cut_to_fit(self, inputs)

    def _replay(self, invocation: Invocation, outcome: ReadReply) -> dspy.Prediction:
        """Returns the prediction of a replayed call with this `outcome`, which is charged already."""
        inputs = invocation.inputs
        if outcome.recording.cut:
            inputs, _ = self._cut_to_fit(inputs)
        counters.count(memo=1, repairs=len(outcome.recording.answers) - 1)
        return self._to_prediction(invocation, inputs, outcome)

    def _to_prediction(
        self, invocation: Invocation, inputs: dict[str, Any], outcome: ReadReply
    ) -> dspy.Prediction:
        """Returns the prediction of `outcome`, with outputs of its own; raises ParseFailure when there is
        none.
        """
        if outcome.failure:
            self._record_unreadable(invocation, inputs, outcome)
            raise ParseFailure(outcome.failure)
        if outcome.mended or outcome.dropped:
            counters.count(mended=outcome.mended, dropped=outcome.dropped)
        outputs = {name: fresh(value) for name, value in outcome.outputs.items()}
        answers, mended = outcome.recording.answers, outcome.mended
        raised_limit = outcome.recording.raised_limit
        return self._record(
            invocation, inputs, outputs, outcome.shown, answers, mended=mended, raised_limit=raised_limit
        )

    def _sent(self, inputs: Mapping[str, Any], answers: Sequence[GatewayReply]) -> trace.Sent | None:
        """Returns what was sent with `inputs`, and the replies, for the trace; None when nothing was sent."""
        if not answers:
            return None
        prompt, replies = self.unchanged, [answer.reply for answer in answers]
        return trace.Sent(
            lambda: prompt.messages(**inputs),
            (reply.text for reply in replies),
            (reply.reasoning for reply in replies),
        )

    def _record_unreadable(
        self, invocation: Invocation, inputs: Mapping[str, Any], outcome: ReadReply
    ) -> None:
        """Records the cost of a call whose reply was unreadable."""
        if invocation.spot is None:
            return
        spent = [answer.reply.usage for answer in outcome.recording.answers]
        event = trace.UnreadableReply(
            self.name,
            f"unreadable: {outcome.failure}",
            invocation.spot[1],
            self.role,
            len(spent),
            sum(usage.prompt for usage in spent),
            sum(usage.completion for usage in spent),
            sent=self._sent(inputs, outcome.recording.answers),
            raised_limit=outcome.recording.raised_limit,
        )
        invocation.spot[0].add(invocation.spot[1], event)

    def _note(
        self, invocation: Invocation, inputs: Mapping[str, Any], answers: Sequence[GatewayReply]
    ) -> None:
        """Adds messages and replies, also replayed ones, to the histories that `inspect_history` reads."""
        if not answers or setting("disable_history"):
            return
        target = invocation.target
        entry = HistoryEntry(self.unchanged, dict(inputs), answers, target.model)
        _append(GLOBAL_HISTORY, entry, MAX_HISTORY_SIZE)
        if not (most := setting("max_history_size")):
            return
        client, call = invocation.lm or getattr(target, "lm", None), self._stands_for or self
        owners = (call,) if client is None else (call, client)
        for owner in owners:
            _append(owner.history, entry, most)
        for caller in setting("caller_modules") or ():
            if caller is not call:
                _append(caller.history, entry, most)

    def _record(
        self,
        invocation: Invocation,
        inputs: dict[str, Any],
        outputs: dict[str, Any],
        shown_outputs: Mapping[str, Any],
        answers: Sequence[GatewayReply] = (),
        *,
        mended: int = 0,
        raised_limit: int = 0,
    ) -> dspy.Prediction:
        prediction = dspy.Prediction(**outputs)
        if self.logprobs:
            prediction["logprobs"] = answers[-1].reply.logprobs if answers else ()
        truncated = bool(answers) and answers[-1].reply.finish == "length"
        if truncated:
            prediction["truncated"] = True
        entry = (self.traced_as, dict(inputs), prediction)
        self._note(invocation, inputs, answers)
        if invocation.spot is not None:
            event = trace.Call(
                self.name,
                self.role,
                to_plain(inputs),
                to_plain(shown_outputs),
                truncated=truncated,
                repaired=len(answers) > 1,
                prompt_tokens=sum(answer.reply.usage.prompt for answer in answers),
                completion_tokens=sum(answer.reply.usage.completion for answer in answers),
                at=invocation.spot[1],
                mended=mended,
                sent=self._sent(inputs, answers),
                raised_limit=raised_limit,
            )
            invocation.spot[0].add(invocation.spot[1], event, entry)
        else:
            extend_trace([entry])
        return prediction


def extend_trace(entries: Sequence[Any]) -> None:
    """Adds `entries` to DSPy's trace, if there is one. Beyond `max_trace_size` the oldest are dropped."""
    trace_entries, most = setting("trace"), setting("max_trace_size")
    if trace_entries is not None and most > 0:
        trace_entries.extend(entries)
        del trace_entries[:-most]


def _append(history: list[Any], entry: HistoryEntry, most: int) -> None:
    if len(history) >= most:
        del history[: len(history) + 1 - most]
    history.append(entry)


class HistoryEntry(dict[str, Any]):
    """An entry of DSPy's history, filled on first access: every call writes one, few are read."""

    def __init__(
        self, call: TypedPrompt, inputs: dict[str, Any], answers: Sequence[GatewayReply], model: str
    ) -> None:
        super().__init__(prompt=None)  # whoever writes JSON takes an empty dictionary at its size
        self._unread: tuple[Any, ...] | None = (call, inputs, answers, model, time.time())

    def fill(self) -> None:
        """Fills in the request and the replies, once."""
        if self._unread is None:
            return
        call, inputs, answers, model, seconds = self._unread
        usage = [answer.reply.usage for answer in answers]
        super().update(
            messages=[{"role": m.role, "content": m.content} for m in call.messages(**inputs)],
            kwargs={},
            response=None,
            outputs=[answers[-1].reply.text],
            usage={
                "prompt_tokens": sum(one.prompt for one in usage),
                "completion_tokens": sum(one.completion for one in usage),
            },
            cost=sum(answer.reply.usd for answer in answers),
            timestamp=datetime.fromtimestamp(seconds, UTC).isoformat(),
            uuid=answers[-1].key,
            model=model,
            response_model=model,
            model_type="chat",
        )
        self._unread = None

    def __reduce__(self) -> Any:
        self.fill()
        return dict, (dict(self),)


def _filled(name: str) -> Any:
    """Returns the method `name` of a dictionary, which fills the entry first."""
    method = getattr(dict, name)

    def look(self: HistoryEntry, *args: Any, **kwargs: Any) -> Any:
        self.fill()
        return method(self, *args, **kwargs)

    return look


_LOOKS = (
    "__contains__ __delitem__ __eq__ __ge__ __getitem__ __ior__ __iter__ __len__ __ne__ __or__ __repr__ "
    "__reversed__ __ror__ __setitem__ clear copy get items keys pop popitem setdefault update values"
)
for _name in _LOOKS.split():
    if hasattr(dict, _name):
        setattr(HistoryEntry, _name, _filled(_name))


def _is_watched(call: RagPredict) -> bool:
    """Returns whether DSPy's own bookkeeping of a call is in use, which costs more than a replayed call."""
    return bool(call.callbacks or setting("callbacks") or setting("track_usage"))


def track_usage(model: str, answers: Sequence[GatewayReply]) -> None:
    """Reports sent requests to DSPy's usage tracker, if there is one; replayed ones are free there."""
    tracker = setting("usage_tracker")
    if tracker is None:
        return
    for answer in answers:
        if not answer.cached:
            usage = answer.reply.usage
            spent = {"prompt_tokens": usage.prompt, "completion_tokens": usage.completion}
            tracker.add_usage(f"ragc/{model}", {**spent, "total_tokens": usage.prompt + usage.completion})
