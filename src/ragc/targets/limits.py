"""Circuit breaker and rate limits between the gateway and a server.

After several failures in a row the breaker makes calls to an endpoint fail at once for a while.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from ragc.core.rate_limit import Reservation, Sleep, SlidingWindow
from ragc.core.retry import pace
from ragc.errors import TargetUnavailable
from ragc.targets.base import ChatRequest, Reply, Target
from ragc.targets.options import ServerOptions

T = TypeVar("T")
Clock = Callable[[], float]


class Breaker:
    """Circuit breaker for the calls to one endpoint.

    After `break_after` consecutive calls that raised TargetUnavailable the breaker opens: calls fail at once
    for `cool_down_s` seconds. Then one probe call is allowed. It closes the breaker when the endpoint
    answers; otherwise the breaker opens again for as long. Any answer closes it, including a refusal of the
    request. `clock` returns monotonic seconds.
    """

    def __init__(
        self, endpoint: str, *, break_after: int = 5, cool_down_s: float = 30.0, clock: Clock = time.monotonic
    ) -> None:
        self.endpoint, self.break_after, self.cool_down_s = endpoint, break_after, cool_down_s
        self.failures = 0
        self._clock = clock
        self._opens_at = 0.0
        self._trying = False
        self._why = ""

    @property
    def open(self) -> bool:
        """Whether calls fail at once, except for the probe call."""
        return self.failures >= self.break_after

    async def call(self, work: Callable[[], Awaitable[T]]) -> T:
        """Returns the result of `work`. Raises TargetUnavailable without calling it while the breaker is
        open.
        """
        trial = self.open
        if trial:
            self._refuse_or_try()
        try:
            answer = await work()
        except TargetUnavailable as error:
            self._record_failure(error, trial=trial)
            raise
        except Exception:
            self.failures = 0  # the endpoint did answer, with an error
            raise
        else:
            self.failures = 0
            return answer
        finally:
            if trial:
                self._trying = False

    def _refuse_or_try(self) -> None:
        left = self._opens_at - self._clock()
        if left <= 0 and not self._trying:
            self._trying = True
            return
        then = "is being tried again now" if left <= 0 else f"is tried again in {left:.0f} s"
        text = (
            f"{self.endpoint} failed {self.failures} calls in a row and {then}; the last failure: {self._why}"
        )
        raise TargetUnavailable(text, endpoint=self.endpoint, refused=True)  # nothing is sent

    def _record_failure(self, error: TargetUnavailable, *, trial: bool) -> None:
        was_open = self.open
        self.failures += 1
        self._why = str(error)
        if trial or (self.open and not was_open):
            self._opens_at = self._clock() + self.cool_down_s


class EndpointGuard:
    """The circuit breaker and the rate limits of one model at one endpoint."""

    def __init__(
        self, endpoint: str, options: ServerOptions, *, clock: Clock = time.monotonic, sleep: Sleep
    ) -> None:
        self.breaker = Breaker(
            endpoint, break_after=options.break_after, cool_down_s=options.cool_down_s, clock=clock
        )
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
            return await self.breaker.call(lambda: target.complete(request))
        size = sum(target.count_tokens(m.content) for m in request.messages) + request.sampling.max_tokens
        last: list[Reservation] = []

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


def _lower_limit(held: int, limit: int) -> int:
    """Returns the lower of two limits; 0 means no limit."""
    return min(held, limit) if held and limit else held or limit


class EndpointGuards:
    """The guards of a gateway, one for each model at each endpoint."""

    def __init__(self, *, clock: Clock = time.monotonic, sleep: Sleep = asyncio.sleep) -> None:
        self._clock, self._sleep = clock, sleep
        self._held: dict[tuple[str, str], EndpointGuard] = {}

    def of(self, target: Any) -> EndpointGuard:
        """Returns the guard of `target`, a server."""
        options: ServerOptions = target.options
        endpoint = str(getattr(target, "endpoint", ""))
        guard = self._held.get((endpoint, target.model))
        if guard is None:
            guard = EndpointGuard(endpoint or target.model, options, clock=self._clock, sleep=self._sleep)
            self._held[endpoint, target.model] = guard
        else:
            guard.keep_to(options)
        return guard

    async def complete(self, target: Target, request: ChatRequest) -> Reply:
        """Returns the reply of `target`, through its guard."""
        return await self.of(target).complete(target, request)
