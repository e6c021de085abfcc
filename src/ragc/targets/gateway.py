"""The gateway: every request passes through it to the call store, the budget, the limits and the target.

A fallback target answers when the requested one is unavailable.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import uuid4

from ragc.core import counters, event_loop
from ragc.core.digest import canonical, digest
from ragc.core.redact import mask_keys
from ragc.core.text import repair_surrogates
from ragc.errors import CapabilityMissing, TargetUnavailable, UnknownName, UsageError
from ragc.store.call_store import CallStore
from ragc.targets.base import ChatRequest, Reply, Sampling, Target, Usage
from ragc.targets.charges import Charge, Ledger
from ragc.targets.reasoning import room_of, set_aside_cut, with_room
from ragc.targets.retry import meter
from ragc.targets.token_price import priced

log = logging.getLogger("ragc.targets")


class GatewayReply(NamedTuple):
    """A reply, the store's key of its request, and whether it was replayed or came from a fallback."""

    key: str
    reply: Reply
    replayed: bool = True
    fallback: bool = False


@lru_cache(maxsize=256)
def _sampling_json(sampling: Sampling) -> Mapping[str, Any]:
    return asdict(sampling)


def request_key(target: Target, request: ChatRequest, epoch: str = "") -> str:
    """Returns the store's key: a digest of the target's identity and of everything that affects the reply.

    With an `epoch`, it is the key of a reply that was requested again in that epoch.
    """
    body: dict[str, Any] = {
        "endpoint": target.identity,
        "model": target.model,
        "messages": [list(m) for m in request.messages],
        "schema": request.schema,
        "sampling": _sampling_json(request.sampling),
        "logprobs": request.logprobs,
        "sample": request.sample,
    }
    if request.prompt_logprobs:
        body["prompt_logprobs"] = True
    if epoch:
        body["epoch"] = epoch
    return digest(body)


def _read(text: str) -> Reply | None:
    """Returns the reply stored as `text`; None when it is not a valid reply."""
    try:
        return Reply.from_json(json.loads(text))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _write(reply: Reply) -> str:
    """Returns the text that `_read` reads."""
    return canonical(reply.to_json())


class Gateway:
    """Answers requests from the call store, else from the target.

    Concurrent equal requests share one call. `memo` says whether typed calls may be replayed whole
    (`calls.replay`), which changes no result. `fallbacks` are tried in this order when a target is
    unavailable, if they have the capabilities that the request needs. Fallbacks of fallbacks are not used.

    `epoch` names the time from which replies count: with one, replies stored before it began stay stored but
    are not replayed. `run` is the epoch of targets whose replies are not replayed later (`forgets`), such as
    a `dspy.LM(cache=False)`: a study sets its own, so that a resumed one sends nothing twice; else it is a
    new one. `sent` and `replayed` count answers, and `used` sums up their tokens by the identity of the
    target. `targets_used` has the name of each target that was asked, and whether it forgets.
    """

    def __init__(self, store: CallStore, ledger: Ledger | None = None) -> None:
        self.store = store
        self.ledger = ledger
        self.memo = True
        self.epoch = self.run = ""
        self.sent = self.replayed = 0
        self.used: dict[str, Usage] = {}
        self.targets_used: set[tuple[str, bool]] = set()
        self.fallbacks: Mapping[Target, tuple[Target, ...]] = {}
        self._limits: dict[str, asyncio.Semaphore] = {}
        self._noted: set[tuple[str, str]] = set()
        self._callers: Counter[str] = Counter()

    def __deepcopy__(self, memo: object) -> Gateway:
        return self

    async def complete(self, target: Target, request: ChatRequest) -> Reply:
        """Returns the reply to `request`, stored under the key of the target that gave it.

        Raises BudgetExhausted before sending, TargetError or TargetUnavailable from the target, and
        StoreError when the reply cannot be stored.
        """
        return (await self.ask(target, request)).reply

    async def ask(self, target: Target, request: ChatRequest) -> GatewayReply:
        """Completes as `complete` does; returns the key of the request too. May be awaited on any loop."""
        return await event_loop.on_loop(self._ask(target, request))

    async def _ask(self, target: Target, request: ChatRequest) -> GatewayReply:
        if request.prompt_logprobs and "prompt_logprobs" not in target.capabilities:
            raise CapabilityMissing(f"{target.name} gives no prompt_logprobs; a server of vLLM does.")
        failed: list[TargetUnavailable] = []
        requested = {name for name in ("logprobs", "prompt_logprobs") if getattr(request, name)}
        able = [other for other in self.fallbacks.get(target, ()) if requested <= set(other.capabilities)]
        for candidate in (target, *able):
            try:
                answer = await self._ask_one(candidate, request)
            except TargetUnavailable as error:
                failed.append(error)
                continue
            if not failed:
                return answer
            counters.count(fallbacks=1)
            self._warn_fallback(target, candidate, failed[0])
            return answer._replace(fallback=True)
        if len(failed) == 1:
            raise failed[0]
        text = " ".join(str(error) for error in failed)
        raise TargetUnavailable(f"{target.name} and its fallbacks are not available: {text}") from failed[0]

    def _warn_fallback(self, target: Target, substitute: Target, error: TargetUnavailable) -> None:
        """Logs once that `substitute` answers instead of `target`."""
        if (target.name, substitute.name) not in self._noted:
            self._noted.add((target.name, substitute.name))
            log.warning("%s answers in the place of %s: %s", substitute.name, target.name, error)

    def forgets(self, target: Target) -> bool:
        """Returns whether the replies of `target` count for this run alone and are not replayed later."""
        return not self.epoch and bool(getattr(target, "forgets", False))

    def epoch_of(self, target: Target) -> str:
        """Returns the epoch of the replies of `target`; "" if all stored replies count."""
        if not self.forgets(target):
            return self.epoch
        if not self.run:
            self.run = uuid4().hex[:16]
        return self.run

    async def _ask_one(self, target: Target, request: ChatRequest) -> GatewayReply:
        self.targets_used.add((target.name, self.forgets(target)))
        request = with_room(target, request)
        key = request_key(target, request, self.epoch_of(target))

        async def send() -> Reply:
            async with self._limit(target):
                return await self._send(key, target, request)

        self._callers[key] += 1
        began = time.monotonic()
        try:
            reply, replayed = await self.store.get_or_make(key, send, _read, _write)
        finally:
            self._callers[key] -= 1
            if not self._callers[key]:
                del self._callers[key]
        if replayed:
            reply = replace(reply, usd=priced(target, reply))
        answer = GatewayReply(key, reply, replayed)
        self._charge(answer, target, waited=time.monotonic() - began)
        return answer

    async def _send(self, key: str, target: Target, request: ChatRequest) -> Reply:
        """Returns the reply of `target`; each of its tries is reserved before it is sent, and charged.

        The reply is charged even if its caller was cancelled meanwhile.
        """
        charge = None
        if self.ledger is not None:
            charge = Charge(self.ledger, key, target, request, lambda: bool(self._callers[key]))
        token = meter.set(charge)
        try:
            if charge is not None:
                await charge.begin()
            began = time.monotonic()
            reply = self._sanitize(target, request, await self._complete(target, request))
            reply = replace(reply, usd=priced(target, reply), seconds=round(time.monotonic() - began, 4))
        except BaseException as error:
            if charge is not None:
                charge.fail(error)
            raise
        finally:
            meter.reset(token)
        if charge is not None:
            charge.settle(reply)
        return reply

    async def _complete(self, target: Target, request: ChatRequest) -> Reply:
        """Returns the reply of `target`."""
        return await target.complete(request)

    @staticmethod
    def _sanitize(target: Target, request: ChatRequest, reply: Reply) -> Reply:
        """Returns `reply` made safe to store: repaired text, plausible numbers, no incomplete thoughts."""
        if room_of(target):
            reply = set_aside_cut(reply)
        try:
            text, reasoning = repair_surrogates(reply.text), mask_keys(repair_surrogates(reply.reasoning))
        except (TypeError, AttributeError) as error:
            raise TargetUnavailable(f"{target.name} gave a reply that cannot be stored ({error}).") from error
        masked = mask_keys(text)
        scored = reply.logprobs if masked == text else tuple(t._replace(token="") for t in reply.logprobs)
        return replace(reply, text=masked, reasoning=reasoning, logprobs=scored)

    @property
    def charges_anywhere(self) -> bool:
        """Whether `replay` may be called in this thread: a ledger may only be used on the process's loop."""
        return self.ledger is None or event_loop.is_on_loop()

    def replay(self, answers: Sequence[GatewayReply], target: Target) -> None:
        """Charges replayed `answers` of `target` in a recorded typed call as if they were requested again.

        Unless `charges_anywhere`, this must be called on the process's loop.
        """
        for answer in answers:
            reply = replace(answer.reply, usd=priced(target, answer.reply))
            self._charge(answer._replace(reply=reply), target)

    def _charge(self, answer: GatewayReply, target: Target, waited: float = 0.0) -> None:
        """Charges and counts one answer of `target`, which was `waited` for in seconds.

        A request charged before is free in the ledger.
        """
        reply = answer.reply
        if answer.replayed:
            counters.pass_time(reply.seconds, waited)
        if self.ledger is not None:
            self.ledger.replay(answer.key, reply.usage.prompt + reply.usage.completion, reply.usd)
        self.sent, self.replayed = self.sent + (not answer.replayed), self.replayed + answer.replayed
        self.used[target.identity] = self.used.get(target.identity, Usage()) + reply.usage
        counters.count(
            lm_calls=1,
            prompt_tokens=reply.usage.prompt,
            completion_tokens=reply.usage.completion,
            thinking_tokens=reply.usage.reasoning,
            usd=reply.usd,
            truncated=reply.finish == "length",
            sent=not answer.replayed,
            replayed=answer.replayed,
        )

    def _limit(self, target: Target) -> asyncio.Semaphore:
        limit = self._limits.get(target.identity)
        if limit is None:
            limit = self._limits[target.identity] = asyncio.Semaphore(max(1, target.concurrency))
        return limit


def fallback_names(target: Target) -> tuple[str, ...]:
    """Returns the names in the option `fallbacks` of `target`, best first."""
    return tuple(getattr(getattr(target, "options", None), "fallbacks", ()))


def fallback_chains(targets: Mapping[str, Target]) -> dict[Target, tuple[Target, ...]]:
    """Returns the fallbacks of each target that has any; `targets` are by name.

    Raises UnknownName for a fallback that is not among them, UsageError for a target that names itself.
    """
    fallbacks: dict[Target, tuple[Target, ...]] = {}
    for name, target in targets.items():
        for other in fallback_names(target):
            if other == name:
                raise UsageError(f"Target {name!r} lists itself in fallbacks; name other targets there.")
            if other not in targets:
                raise UnknownName(f"target (in fallbacks of [targets.{name}])", other, targets)
        if fallback_names(target):
            fallbacks[target] = tuple(targets[other] for other in fallback_names(target))
    return fallbacks


def check_contexts(fallbacks: Mapping[Target, tuple[Target, ...]]) -> None:
    """Raises UsageError if an opened fallback has a smaller context than the target it replaces."""
    for target, others in fallbacks.items():
        for other in others:
            if other.context_tokens < target.context_tokens:
                raise UsageError(
                    f"{other.name} is a fallback of {target.name} and reads {other.context_tokens} tokens, "
                    f"which is less than its {target.context_tokens}; set context_tokens = "
                    f"{other.context_tokens} for {target.name}, so that its prompts fit both."
                )
