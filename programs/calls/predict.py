"""RagPredict: DSPy's predictor on a target of ragc.

    render ─► ask ─► parse ─► else ask once more, with the schema and the problem ─► parse, or fail

Requests pass through the gateway, which has every reply by its request: a call that was made before sends
nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import dspy

from ragc.core import counters, event_loop
from ragc.errors import ParseFailure, RequestRefused
from ragc.programs import trace
from ragc.programs.calls.chosen_lm import advice_for
from ragc.programs.calls.demos import forced_values, plain
from ragc.programs.calls.fit_context import cut_to_fit
from ragc.programs.calls.parsing import Parsed
from ragc.programs.calls.prompt import TypedPrompt
from ragc.programs.calls.streaming import stream_of
from ragc.targets.base import ChatRequest, Message, Reply, Target
from ragc.targets.gateway import GatewayReply

_SPECIAL = frozenset({"signature", "demos", "_trace"})
"""Arguments of DSPy's own predictors that change nothing here."""

HINT = "hint_"
HINT_ABOUT = "Advice from an earlier attempt."
"""The input that Refine adds to a call, by the name that DSPy gives it."""


@dataclass(slots=True)
class Exchange:
    """One typed call: its position in the trace, its inputs, what was sent, and what came of it.

    Without `answers` nothing was sent. `failure` says why no reply could be parsed. `raised_limit` is the
    limit in tokens of the second request if the first reply reached its own; 0 if the second is a repair.
    """

    spot: tuple[trace.Run, tuple[int, ...]] | None
    inputs: dict[str, Any]
    messages: tuple[Message, ...] = ()
    answers: list[GatewayReply] = field(default_factory=list)
    parsed: Parsed = field(default_factory=lambda: Parsed({}))
    failure: str = ""
    raised_limit: int = 0

    @property
    def replies(self) -> list[Reply]:
        """The replies, in order."""
        return [answer.reply for answer in self.answers]

    @property
    def tokens(self) -> tuple[int, int]:
        """The tokens of all prompts, and of all replies."""
        usages = [reply.usage for reply in self.replies]
        return sum(usage.prompt for usage in usages), sum(usage.completion for usage in usages)

    @property
    def sent(self) -> trace.Sent | None:
        """What was sent and the replies, for the trace; None when nothing was sent."""
        if not self.answers:
            return None
        messages, replies = self.messages, self.replies
        texts, reasoning = (reply.text for reply in replies), (reply.reasoning for reply in replies)
        return trace.Sent(lambda: messages, texts, reasoning)


class RagPredict(TypedPrompt):
    """A typed call with the role, sampling and layout of its program."""

    _stands_for: RagPredict | None = None

    @property
    def traced_as(self) -> RagPredict:
        """Returns the predictor that DSPy's trace names for a call of this one."""
        return self._stands_for or self

    async def try_call(self, **inputs: Any) -> Any:
        """Returns the prediction of a call; None, noted and counted as dropped, for an unreadable reply."""
        try:
            return await self.acall(**inputs)
        except ParseFailure:
            counters.count(dropped=1)
            return None

    def forward(self, **kwargs: Any) -> dspy.Prediction:
        """Calls and waits; for use outside the process's loop."""
        return event_loop.run(self.aforward(**kwargs))

    async def aforward(self, **kwargs: Any) -> dspy.Prediction:
        """Returns one typed call. Raises ParseFailure when the second reply cannot be parsed either."""
        lm, advice = kwargs.pop("lm", None), None if self._stands_for else advice_for(self)
        if lm is not None or advice is not None:
            return await self._stand_in(lm, advice).aforward(**kwargs, **({HINT: advice} if advice else {}))
        spot, config = trace.allocate_position(), kwargs.pop("config", None)
        exchange = Exchange(spot, {name: v for name, v in kwargs.items() if name not in _SPECIAL})
        known = forced_values(self.signature.output_fields)
        if known is not None:
            exchange.parsed = Parsed(known)
        else:
            await self._exchange(exchange, config)
        return self._finish(exchange)

    def _stand_in(self, lm: Any, advice: str | None) -> RagPredict:
        """Returns this call with another LM, or with DSPy Refine's advice as one more input."""
        twin = copy.deepcopy(self)
        twin._stands_for = self.traced_as
        if lm is not None:
            twin.lm = lm
        if advice is not None:
            twin.signature = self.signature.append(HINT, dspy.InputField(desc=HINT_ABOUT))
        return twin

    async def _exchange(self, exchange: Exchange, config: dict[str, Any] | None) -> None:
        """Sends the request of a call, and a second one if the reply is unreadable."""
        lm = self.chosen_lm
        target = self.target_by(lm)
        exchange.messages = self.messages(**exchange.inputs)
        if not self.surely_fits(exchange.messages):
            exchange.inputs, exchange.messages = cut_to_fit(self, exchange.inputs)
        request = self.chat_request(exchange.messages, *self.sampling_for(config, lm))
        stream = stream_of(self.traced_as, target.model, self.layout)
        pending = self.runtime.gateway.ask(target, request)
        exchange.answers = [await (pending if stream is None else stream.watch(pending))]
        self._parse_last(exchange, request)
        first = exchange.replies[0]
        again = self.second_request(request, first, exchange.failure) if exchange.failure else None
        if again is not None and (second := await self._ask_again(target, again)) is not None:
            counters.count(repairs=1)
            exchange.answers.append(second)
            limit = again.sampling.max_tokens
            exchange.raised_limit = limit if limit > request.sampling.max_tokens else 0
            self._parse_last(exchange, again)
            if exchange.failure and exchange.raised_limit:
                exchange.failure += (
                    f" It was asked for again with more room, after {first.usage.completion:,} tokens had "
                    "not been enough."
                )
        if stream is not None and not exchange.failure:
            stream.finish(exchange.parsed.outputs)
        track_usage(target.model, exchange.answers)
        note_history(lm or getattr(target, "lm", None), target.model, exchange)

    def _parse_last(self, exchange: Exchange, request: ChatRequest) -> None:
        """Parses the last reply, to `request`, into `exchange`."""
        again, enforced = len(exchange.answers) > 1, request.schema is not None
        exchange.failure = ""
        try:
            exchange.parsed = self.parse_reply(
                exchange.replies[-1], enforced=enforced, again=again and not exchange.raised_limit
            )
        except ParseFailure as error:
            exchange.failure = str(error)

    async def _ask_again(self, target: Target, request: ChatRequest) -> GatewayReply | None:
        """Sends `request`, the second of a call; returns None if it does not fit the context."""
        size = sum(target.count_tokens(message.content) for message in request.messages)
        if size + request.sampling.max_tokens > target.context_tokens:
            return None
        try:
            return await self.runtime.gateway.ask(target, request)
        except RequestRefused as error:
            if error.kind != "too long":  # the size is a bound, and the server's tokenizer decides
                raise
            return None

    def _finish(self, exchange: Exchange) -> dspy.Prediction:
        """Returns the prediction of a call, which is traced; raises ParseFailure when there is none."""
        spot, parsed, replies = exchange.spot, exchange.parsed, exchange.replies
        prompt_tokens, completion_tokens = exchange.tokens
        if exchange.failure:
            if spot is not None:
                unreadable = trace.UnreadableReply(
                    self.name,
                    f"unreadable: {exchange.failure}",
                    spot[1],
                    self.role,
                    len(replies),
                    prompt_tokens,
                    completion_tokens,
                    sent=exchange.sent,
                    raised_limit=exchange.raised_limit,
                )
                spot[0].add(spot[1], unreadable)
            raise ParseFailure(exchange.failure)
        if parsed.repaired or parsed.dropped:
            counters.count(mended=parsed.repaired, dropped=parsed.dropped)
        prediction = dspy.Prediction(**parsed.outputs)
        if self.logprobs:
            prediction["logprobs"] = replies[-1].logprobs if replies else ()
        truncated = bool(replies) and replies[-1].finish == "length"
        if truncated:
            prediction["truncated"] = True
        entry = (self.traced_as, dict(exchange.inputs), prediction)
        if spot is None:
            extend_trace([entry])
            return prediction
        event = trace.Call(
            self.name,
            self.role,
            plain(exchange.inputs),
            plain(parsed.outputs),
            truncated=truncated,
            repaired=len(replies) > 1,
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            at=spot[1],
            mended=parsed.repaired,
            sent=exchange.sent,
            raised_limit=exchange.raised_limit,
        )
        spot[0].add(spot[1], event, entry)
        return prediction


def extend_trace(entries: Sequence[Any]) -> None:
    """Adds `entries` to DSPy's trace, if there is one. Beyond `max_trace_size` the oldest are dropped."""
    entries_so_far, most = dspy.settings.trace, dspy.settings.max_trace_size
    if entries_so_far is not None and most > 0:
        entries_so_far.extend(entries)
        del entries_so_far[:-most]


def note_history(lm: Any, model: str, exchange: Exchange) -> None:
    """Adds an exchange, also one of stored replies, to the histories that `inspect_history` reads.

    They are those of `lm`, of the modules that call, and DSPy's own.
    """
    if dspy.settings.disable_history:
        return
    prompt_tokens, completion_tokens = exchange.tokens
    entry = {
        "prompt": None,
        "messages": list(map(_message, exchange.messages)),
        "kwargs": {},
        "response": None,
        "outputs": [exchange.replies[-1].text],
        "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens},
        "cost": sum(reply.usd for reply in exchange.replies),
        "timestamp": datetime.now(UTC).isoformat(),
        "uuid": exchange.answers[-1].key,
        "model": model,
        "response_model": model,
        "model_type": "chat",
    }
    (dspy.BaseLM(model) if lm is None else lm).update_history(entry)


@lru_cache(maxsize=1024)  # thousands of entries share the messages before the last
def _message(message: Message) -> dict[str, str]:
    return {"role": message.role, "content": message.content}


def track_usage(model: str, answers: Sequence[GatewayReply]) -> None:
    """Reports sent requests to DSPy's usage tracker, if there is one; cached ones are free there."""
    tracker = dspy.settings.usage_tracker
    if tracker is None:
        return
    for answer in answers:
        if not answer.cached:
            prompt, completion = answer.reply.usage.prompt, answer.reply.usage.completion
            spent = {"prompt_tokens": prompt, "completion_tokens": completion}
            tracker.add_usage(f"ragc/{model}", spent | {"total_tokens": prompt + completion})
