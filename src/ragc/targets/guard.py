"""What stands between the gateway and a server: its breaker and its rates."""

from __future__ import annotations

import asyncio
import time

from ragc.targets.base import ChatRequest, Reply, Target
from ragc.targets.breaker import Breaker, Clock
from ragc.targets.options import ServerOptions
from ragc.targets.pacing import Sleep, Taken, Window
from ragc.targets.retry import pace


class Guard:
    """The breaker and the rates of one model at one endpoint."""

    def __init__(
        self, endpoint: str, options: ServerOptions, *, clock: Clock = time.monotonic, sleep: Sleep
    ) -> None:
        self.breaker = Breaker(
            endpoint, break_after=options.break_after, cool_down_s=options.cool_down_s, clock=clock
        )
        self._window = Window(clock=clock, sleep=sleep)
        self.keep_to(options)

    def keep_to(self, options: ServerOptions) -> None:
        """Keep to the rates of `options` too: of two limits the lower one holds."""
        window = self._window
        window.requests = _lower(window.requests, options.requests_per_minute)
        window.tokens = _lower(window.tokens, options.tokens_per_minute)

    async def complete(self, target: Target, request: ChatRequest) -> Reply:
        """The reply of `target`, every try of it within the rates.

        Until it is there, a request counts as its prompt and the longest reply that it allows.
        """
        if not (self._window.requests or self._window.tokens):
            return await self.breaker.call(lambda: target.complete(request))
        size = sum(target.count_tokens(m.content) for m in request.messages) + request.sampling.max_tokens
        last: list[Taken] = []

        async def paced() -> None:
            last[:] = [await self._window.take(size)]

        token = pace.set(paced)
        try:
            reply = await self.breaker.call(lambda: target.complete(request))
        finally:
            pace.reset(token)
        for taken in last:
            taken.tokens = reply.usage.prompt + reply.usage.completion
        return reply


def _lower(held: int, limit: int) -> int:
    """The lower of two limits, 0 being none."""
    return min(held, limit) if held and limit else held or limit


class Guards:
    """The guards of a gateway, one for each model at each endpoint."""

    def __init__(self, *, clock: Clock = time.monotonic, sleep: Sleep = asyncio.sleep) -> None:
        self._clock, self._sleep = clock, sleep
        self._held: dict[tuple[str, str], Guard] = {}

    def of(self, target: Target) -> Guard | None:
        """The guard of `target`; None for one that is no server."""
        options = getattr(target, "options", None)
        if not isinstance(options, ServerOptions):
            return None
        endpoint = str(getattr(target, "endpoint", ""))
        guard = self._held.get((endpoint, target.model))
        if guard is None:
            guard = Guard(endpoint or target.model, options, clock=self._clock, sleep=self._sleep)
            self._held[endpoint, target.model] = guard
        else:
            guard.keep_to(options)
        return guard

    async def complete(self, target: Target, request: ChatRequest) -> Reply:
        """The reply of `target`, through its guard where it has one."""
        guard = self.of(target)
        return await (target.complete(request) if guard is None else guard.complete(target, request))
