"""The gateway: every request passes through it to the store, the budget, and the target or its fallbacks."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, NamedTuple, Protocol
from uuid import uuid4

from pydantic import TypeAdapter, ValidationError

from ragc.core import counters, event_loop
from ragc.core.digest import canonical
from ragc.core.event_loop import wait
from ragc.core.redact import mask_keys
from ragc.core.text import repair_surrogates
from ragc.errors import (
    CapabilityMissing,
    RagcError,
    RequestRefused,
    TargetError,
    TargetStopped,
    TargetUnavailable,
    UnknownName,
    UsageError,
)
from ragc.store.calls import CallStore
from ragc.targets.base import ChatRequest, Message, Reply, Sampling, Target, Usage
from ragc.targets.prices import check_priced, most_tokens, most_usd, priced
from ragc.targets.reasoning import reasoning_of, set_aside_cut, with_reasoning
from ragc.targets.retry import meter

log = logging.getLogger("ragc.targets")

REPEAT_SHIFT = 1 << 20
"""Added to the number of a sample for each repetition, so that a seeded target draws another reply."""


class GatewayReply(NamedTuple):
    """A reply, the store's key of its request, and whether it was cached."""

    key: str
    reply: Reply
    cached: bool


class Budget(Protocol):
    """Allows or refuses a try before it is sent, and records its cost.

    All methods are called on the process's event loop.
    """

    limits_usd: bool
    """Whether dollars are limited, so that every request needs a price."""

    async def reserve(self, key: str, tokens: int, usd: float) -> int:
        """Reserves the most that a try of the request `key` may cost; returns the number of the try.

        Waits while tries in flight may cost less than they reserved. Raises BudgetExhausted.
        """
        ...

    def settle(self, number: int, tokens: int, usd: float) -> None:
        """Replaces the reservation of the try `number` by its cost."""

    def keep(self, number: int) -> None:
        """Charges the try `number` as it was reserved: it failed, and its cost is unknown."""

    def release(self, number: int) -> None:
        """Charges nothing for the try `number`: it was not sent, or was refused."""

    def charge_cached(self, key: str, tokens: int, usd: float) -> None:
        """Charges a stored reply, once for each key."""


class Tries:
    """The tries of one request, one after another; the `meter` of its target.

    Each is reserved at `most`, tokens and dollars, before it is sent. None is sent that is not `wanted` any
    more. Without a budget none is charged.
    """

    def __init__(
        self, budget: Budget | None, key: str, most: tuple[int, float], wanted: Callable[[], bool]
    ) -> None:
        self._budget, self._key, self._most, self._wanted = budget, key, most, wanted
        self._number: int | None = None

    async def begin(self) -> None:
        """Reserves a try, unless one is reserved. Raises BudgetExhausted."""
        if self._number is None:
            most = self._most
            self._number = await wait(self._budget.reserve(self._key, *most)) if self._budget else 0
            if not self._wanted():
                self.end("release")
                raise asyncio.CancelledError

    def fail(self, failure: BaseException) -> None:
        """Ends the try with `failure`; it is free if it was refused, or never sent, by ragc's own errors."""
        is_free = getattr(failure, "refused", isinstance(failure, RagcError))
        self.end("release" if is_free else "keep")

    def end(self, how: str, *cost: float) -> None:
        """Ends the try, if one is reserved, by the method `how` of the budget."""
        number, self._number = self._number, None
        if self._budget and number is not None:
            _on_loop(getattr(self._budget, how), number, *cost)


def _on_loop(method: Callable[..., None], *arguments: Any) -> None:
    """Calls a `method` of the budget on the process's loop, and waits for it elsewhere."""

    async def called() -> None:
        method(*arguments)

    event_loop.step(wait(called()))


class _ThreadLimit(threading.Semaphore):
    """A semaphore of threads, which `event_loop.step` enters as one of a loop."""

    async def __aenter__(self) -> None:
        self.acquire()

    async def __aexit__(self, *_: object) -> None:
        self.release()


def request_key(target: Target, request: ChatRequest, salt: str = "") -> str:
    """Returns the store's key: a digest of the target's identity and of everything that affects the reply.

    A `salt` sets the replies of a run apart.
    """
    body: dict[str, Any] = {
        "endpoint": target.identity,
        "model": target.model,
        "messages": [],
        "schema": request.schema,
        "sampling": {name: getattr(request.sampling, name) for name in Sampling.__slots__},
        "logprobs": request.logprobs,
        "sample": request.sample,
    }
    if request.prompt_logprobs:
        body["prompt_logprobs"] = True
    if salt:
        body["salt"] = salt
    start, opening, end = canonical(body).partition('"messages":[')
    key = _hashed(start + opening, request.messages[:-1]).copy()
    key.update(f"{','.join(map(canonical, request.messages[-1:]))}{end}".encode("utf-8", "surrogatepass"))
    return str(key.hexdigest())


@lru_cache(maxsize=256)
def _hashed(start: str, messages: tuple[Message, ...]) -> Any:
    """Returns the hash of a body up to its last message, which many requests have in common."""
    parts = "".join(f"{canonical(message)}," for message in messages)
    return hashlib.sha256(f"{start}{parts}".encode("utf-8", "surrogatepass"))


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that was refused, and will be again, as it is stored."""

    refused: Literal["filtered", "too long"]
    message: str
    endpoint: str = ""
    request_id: str = ""


REPLY: TypeAdapter[Reply] = TypeAdapter(Reply)
"""Reads and writes a reply as JSON, whose fields at their defaults are left out."""

_STORED: TypeAdapter[Reply | Refusal] = TypeAdapter(Reply | Refusal)


def _read(text: str) -> Reply | Refusal | None:
    """Returns what is stored as `text`; None when it is neither a reply nor a refusal."""
    try:
        return _STORED.validate_json(text)
    except ValidationError:
        return None


def _write(value: Reply | Refusal) -> str:
    """Returns the text that `_read` reads."""
    return _STORED.dump_json(value, exclude_defaults=True, warnings=False).decode()


class Gateway:
    """Answers requests from the call store, else from the target.

    Concurrent equal requests share one call. `fallbacks` are tried in this order when a target is
    unavailable, if they have the capabilities that the request needs. Fallbacks of fallbacks are not used.

    `salt` names the run whose replies alone count (`--no-cache`); what was stored before stays stored. `run`
    is the salt of targets whose replies count for one run alone (`forgets`), such as a
    `dspy.LM(cache=False)`: a study sets its own, so that a resumed one sends nothing twice. `repeats` numbers
    the repetitions of targets, from 1: their replies are those of no other run, and sampled ones have another
    seed. `sent` and `cached` count answers, and `used` sums up their tokens by the identity of the target.
    `targets_used` has the name of each target that was asked, and whether it forgets.
    """

    def __init__(self, store: CallStore, budget: Budget | None = None) -> None:
        self.store = store
        self.budget = budget
        self.salt, self.run = "", uuid4().hex[:16]
        self.repeats: Mapping[Target, int] = {}
        self.sent = self.cached = 0
        self.used: dict[str, Usage] = {}
        self.targets_used: set[tuple[str, bool]] = set()
        self.fallbacks: Mapping[Target, tuple[Target, ...]] = {}
        self._limits: dict[Any, Any] = {}
        self._noted: set[tuple[str, str]] = set()
        self._callers: Counter[str] = Counter()
        self._lock = threading.Lock()

    def __deepcopy__(self, memo: object) -> Gateway:
        return self

    async def complete(self, target: Target, request: ChatRequest) -> Reply:
        """Returns the reply to `request`, stored under the key of the target that gave it.

        Raises BudgetExhausted before sending; RequestRefused, TargetUnavailable, TargetStopped or another
        TargetError from the target; and StoreError when the reply cannot be stored.
        """
        return (await self.ask(target, request)).reply

    async def ask(self, target: Target, request: ChatRequest) -> GatewayReply:
        """Completes as `complete` does; returns the key of the request too. May be awaited on any loop."""
        return await event_loop.on_loop(self._ask(target, request))

    def ask_here(self, target: Target, request: ChatRequest) -> GatewayReply:
        """Asks as `ask` does and waits, off the process's loop: an LMRequest is sent in this thread."""
        return event_loop.step(self._ask(target, request))

    async def _ask(self, target: Target, request: ChatRequest) -> GatewayReply:
        if request.prompt_logprobs and "prompt_logprobs" not in target.capabilities:
            raise CapabilityMissing(f"{target.name} gives no prompt_logprobs; a server of vLLM does.")
        requested = {name for name in ("logprobs", "prompt_logprobs") if getattr(request, name)}
        able = [other for other in self.fallbacks.get(target, ()) if requested <= set(other.capabilities)]
        failed: list[TargetUnavailable] = []
        for candidate in (target, *able):
            try:
                answer = await self._ask_one(candidate, request)
            except TargetUnavailable as error:
                failed.append(error)
                continue
            if failed:
                counters.count(fallbacks=1)
                if (target.name, candidate.name) not in self._noted:
                    self._noted.add((target.name, candidate.name))
                    log.warning("%s answers in the place of %s: %s", candidate.name, target.name, failed[0])
            return answer
        if len(failed) == 1:
            raise failed[0]
        are_stopped = all(isinstance(error, TargetStopped) for error in failed)
        text = f"{target.name} and its fallbacks are not available: {' '.join(map(str, failed))}"
        raise (TargetStopped if are_stopped else TargetUnavailable)(text) from failed[0]

    def forgets(self, target: Target) -> bool:
        """Returns whether the replies of `target` count for this run alone."""
        return not self.salt and bool(getattr(target, "forgets", False))

    def salt_of(self, target: Target) -> str:
        """Returns what sets this run's replies of `target` apart; "" if all stored ones count."""
        salt = self.run if self.forgets(target) else self.salt
        return f"{salt}, run {self.repeats[target] + 1}" if target in self.repeats else salt

    async def _ask_one(self, target: Target, request: ChatRequest) -> GatewayReply:
        self.targets_used.add((target.name, self.forgets(target)))
        request = with_reasoning(target, request)
        if target in self.repeats and request.sampling.temperature > 0:
            request = replace(request, sample=request.sample + REPEAT_SHIFT * self.repeats[target])
        key, began = request_key(target, request, self.salt_of(target)), time.monotonic()
        with self._lock:
            self._callers[key] += 1
        try:
            value, cached = await self.store.get_or_make(
                key, lambda: self._send(key, target, request), _read, _write
            )
        finally:
            with self._lock:
                self._callers[key] -= 1
                if not self._callers[key]:
                    del self._callers[key]
        reply = value if isinstance(value, Reply) else Reply("")
        if cached:
            reply = replace(reply, usd=priced(target, reply))
            if (passed := counters.passed.get()) is not None:  # the time that it took passes, less the wait
                passed.append(max(0.0, reply.seconds - (time.monotonic() - began)))
        self._charge(key, reply, target, cached=cached)
        if isinstance(value, Refusal):
            raise RequestRefused(
                value.message, value.refused, endpoint=value.endpoint, request_id=value.request_id
            )
        return GatewayReply(key, reply, cached)

    async def _send(self, key: str, target: Target, request: ChatRequest) -> Reply | Refusal:
        """Returns what the target makes of a request, to be stored: a reply, or a refusal that will stand.

        The reply is charged even if its caller was cancelled meanwhile. Runs in a task of the store's own.
        """
        most = (0, 0.0)
        if self.budget is not None:
            tokens = most_tokens(target, request)
            usd = most_usd(target, tokens.prompt, tokens.completion)
            if usd is None and self.budget.limits_usd:
                check_priced({"NAME": target})
            most = (tokens.prompt + tokens.completion, usd or 0.0)
        tries = Tries(self.budget, key, most, lambda: bool(self._callers[key]))
        outer = meter.set(tries)
        try:
            async with self._limit(target):
                await tries.begin()
                began = time.monotonic()
                reply = _safe(target, await target.complete(request))
        except RequestRefused as error:
            if error.kind == "failed":
                tries.fail(error)
                raise
            tries.end("settle", *((0, 0.0) if error.refused else most))
            kind: Literal["filtered", "too long"] = "filtered" if error.kind == "filtered" else "too long"
            return Refusal(kind, mask_keys(str(error)), error.endpoint, error.request_id)
        except BaseException as error:
            tries.fail(error)
            if isinstance(error, SystemExit | KeyboardInterrupt):  # would end the loop that all wait for
                text = f"{target.name} ended its program ({error!r}) in the place of a reply."
                raise TargetError(text) from error
            raise
        finally:
            meter.reset(outer)
        reply = replace(reply, usd=priced(target, reply), seconds=round(time.monotonic() - began, 4))
        tries.end("settle", reply.usage.prompt + reply.usage.completion, reply.usd)
        return reply

    def _limit(self, target: Target) -> Any:
        """Returns the `concurrency` places of `target`; threads and the loop have their own each."""
        kind = asyncio.Semaphore if event_loop.is_on_loop() else _ThreadLimit
        if (limit := self._limits.get((target.identity, kind))) is None:
            made = kind(max(1, target.concurrency))
            limit = self._limits.setdefault((target.identity, kind), made)
        return limit

    def _charge(self, key: str, reply: Reply, target: Target, *, cached: bool) -> None:
        """Charges and counts the `reply` to the request `key`; one that was charged before is free."""
        if cached and self.budget is not None:
            tokens = reply.usage.prompt + reply.usage.completion
            _on_loop(self.budget.charge_cached, key, tokens, reply.usd)
        with self._lock:
            self.sent, self.cached = self.sent + (not cached), self.cached + cached
            self.used[target.identity] = self.used.get(target.identity, Usage()) + reply.usage
        counters.count(
            lm_calls=1,
            prompt_tokens=reply.usage.prompt,
            completion_tokens=reply.usage.completion,
            thinking_tokens=reply.usage.reasoning,
            usd=reply.usd,
            truncated=reply.finish == "length",
            sent=not cached,
            replayed=cached,
        )


def _safe(target: Target, reply: Reply) -> Reply:
    """Returns `reply` as it is stored: whole characters, plausible numbers, and no key of this user's."""
    try:
        if reasoning_of(target):
            reply = set_aside_cut(reply)
        text, reasoning = repair_surrogates(reply.text), mask_keys(repair_surrogates(reply.reasoning))
        masked = mask_keys(text)
        scored = reply.logprobs if masked == text else tuple(t._replace(token="") for t in reply.logprobs)
        return REPLY.validate_json(_write(replace(reply, text=masked, reasoning=reasoning, logprobs=scored)))
    except (TypeError, AttributeError, ValueError) as error:
        raise TargetUnavailable(
            f"{target.name} gave a reply that cannot be stored (see its types and counts)."
        ) from error


def fallback_chains(targets: Mapping[str, Target]) -> dict[Target, tuple[Target, ...]]:
    """Returns the fallbacks of each target that has any; `targets` are by name.

    Raises UnknownName for a fallback that is not among them, UsageError for a target that names itself.
    """
    chains: dict[Target, tuple[Target, ...]] = {}
    for name, target in targets.items():
        fallbacks = getattr(getattr(target, "options", None), "fallbacks", ())
        if name in fallbacks:
            raise UsageError(f"Target {name!r} lists itself in fallbacks; name other targets there.")
        if unknown := [other for other in fallbacks if other not in targets]:
            raise UnknownName(f"target (in fallbacks of [targets.{name}])", unknown[0], targets)
        if fallbacks:
            chains[target] = tuple(targets[other] for other in fallbacks)
    return chains


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
