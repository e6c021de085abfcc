"""Rate limits between the gateway and a server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from ragc.core.rate_limit import Reservation, Sleep, SlidingWindow
from ragc.core.retry import pace
from ragc.targets.base import ChatRequest, Reply, Target
from ragc.targets.options import ServerOptions

Clock = Callable[[], float]


class EndpointLimits:
    """The rate limits of one model at one endpoint."""

    def __init__(self, options: ServerOptions, *, clock: Clock = time.monotonic, sleep: Sleep) -> None:
        self._window = SlidingWindow(clock=clock, sleep=sleep)
        self.keep_to(options)

    def keep_to(self, options: ServerOptions) -> None:
        """Applies the rate limits of `options` too; the lower of two limits holds."""
        window = self._window
        window.requests = _lower_limit(window.requests, options.requests_per_minute)
        window.tokens = _lower_limit(window.tokens, options.tokens_per_minute)

    async def complete(self, target: Target, request: ChatRequest) -> Reply:
        """Returns the reply of `target`; every try is subject to the rate limits.

        Until the reply arrives, a request counts as its prompt plus its maximum reply length.
        """
        if not (self._window.requests or self._window.tokens):
            return await target.complete(request)
        size = sum(target.count_tokens(m.content) for m in request.messages) + request.sampling.max_tokens
        last: list[Reservation] = []

        async def paced() -> None:
            last[:] = [await self._window.take(size)]

        token = pace.set(paced)
        try:
            reply = await target.complete(request)
        finally:
            pace.reset(token)
        for taken in last:
            taken.tokens = reply.usage.prompt + reply.usage.completion
        return reply


def _lower_limit(held: int, limit: int) -> int:
    """Returns the lower of two limits; 0 means no limit."""
    return min(held, limit) if held and limit else held or limit


class RateLimits:
    """The rate limits of a gateway, for each model at each endpoint."""

    def __init__(self, *, clock: Clock = time.monotonic, sleep: Sleep = asyncio.sleep) -> None:
        self._clock, self._sleep = clock, sleep
        self._held: dict[tuple[str, str], EndpointLimits] = {}

    def of(self, target: Any) -> EndpointLimits:
        """Returns the limits of `target`, a server."""
        options: ServerOptions = target.options
        endpoint = str(getattr(target, "endpoint", ""))
        limits = self._held.get((endpoint, target.model))
        if limits is None:
            limits = EndpointLimits(options, clock=self._clock, sleep=self._sleep)
            self._held[endpoint, target.model] = limits
        else:
            limits.keep_to(options)
        return limits

    async def complete(self, target: Target, request: ChatRequest) -> Reply:
        """Returns the reply of `target`, within its limits."""
        return await self.of(target).complete(target, request)
