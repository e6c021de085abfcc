"""The one way to a target: through the store, the ledger and the limit of requests in flight."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from typing import Any, Protocol

from ragc import counters, loop
from ragc.errors import StoreError
from ragc.fingerprint import canonical, digest
from ragc.store import CallStore
from ragc.targets.base import ChatRequest, Reply, Target


class Ledger(Protocol):
    """What a budget must do: allow or refuse a request before it is sent, and record what it cost."""

    def reserve(self, key: str, tokens: int) -> None:
        """Set aside one call of about `tokens`; raises BudgetExhausted when it would not fit.

        A key that was charged before costs nothing again.
        """
        ...

    def settle(self, key: str, tokens: int, usd: float) -> None:
        """Replace what was set aside by what it cost."""
        ...

    def release(self, key: str) -> None:
        """Give back what was set aside for a request that failed."""
        ...


def request_key(target: Target, request: ChatRequest) -> str:
    """The store's key: what answers, and everything that shapes the answer."""
    body: dict[str, Any] = {
        "endpoint": target.identity,
        "model": target.model,
        "messages": [list(m) for m in request.messages],
        "schema": request.schema,
        "sampling": asdict(request.sampling),
        "logprobs": request.logprobs,
        "sample": request.sample,
    }
    return digest(body)


class Gateway:
    """Answers requests from the store, else from the target.

    Calls must come from the process's loop. Equal requests at the same time make one call.
    """

    def __init__(self, store: CallStore, ledger: Ledger | None = None) -> None:
        self.store = store
        self.ledger = ledger
        self._limits: dict[str, asyncio.Semaphore] = {}

    def __deepcopy__(self, memo: object) -> Gateway:
        return self

    async def complete(self, target: Target, request: ChatRequest) -> Reply:
        """The reply to `request`.

        Raises BudgetExhausted before sending, TargetError or TargetUnavailable from the target, and
        StoreError when the reply cannot be kept.
        """
        return await loop.bridge(self._complete(target, request))

    async def _complete(self, target: Target, request: ChatRequest) -> Reply:
        key = request_key(target, request)

        async def call() -> str:
            if self.ledger is not None:
                size = sum(target.count_tokens(m.content) for m in request.messages)
                self.ledger.reserve(key, size + request.sampling.max_tokens)
            try:
                async with self._limit(target):
                    reply = await target.complete(request)
            except BaseException:
                if self.ledger is not None:
                    self.ledger.release(key)
                raise
            return canonical(reply.to_json())

        text, replayed = await self.store.fetch(key, call)
        try:
            reply = Reply.from_json(json.loads(text))
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"The call store holds something that is not a reply under {key[:12]}… ({error}); "
                f"move {self.store.directory} away to start a new one."
            ) from error
        tokens = reply.usage.prompt + reply.usage.completion
        if self.ledger is not None:
            self.ledger.settle(key, tokens, reply.usd)
        counters.count(
            lm_calls=1,
            prompt_tokens=reply.usage.prompt,
            completion_tokens=reply.usage.completion,
            usd=reply.usd,
            truncated=reply.finish == "length",
            sent=not replayed,
            replayed=replayed,
        )
        return reply

    def _limit(self, target: Target) -> asyncio.Semaphore:
        limit = self._limits.get(target.identity)
        if limit is None:
            limit = self._limits[target.identity] = asyncio.Semaphore(max(1, target.concurrency))
        return limit
