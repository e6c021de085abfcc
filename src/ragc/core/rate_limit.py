"""Rate limits: a sliding window of sixty seconds, or evenly spaced requests.

Existing libraries (aiolimiter) use a token bucket, which allows nearly twice the limit in some windows.
Providers count windows. So does this module: it remembers the requests of the last window.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from threading import Lock

Clock = Callable[[], float]
Sleep = Callable[[float], Awaitable[None]]

WINDOW_S = 60.0
_LOOK_S = 1.0
"""Longest delay in seconds before capacity that was returned early is used."""


class Reservation:
    """One request in a window: when it was allowed, and its tokens."""

    __slots__ = ("at", "tokens")

    def __init__(self, at: float, tokens: int) -> None:
        self.at, self.tokens = at, tokens


class SlidingWindow:
    """At most `requests` and `tokens` in any WINDOW_S seconds, first come first served; 0 is no limit.

    A request of more tokens than the limit counts as the limit. `clock` returns monotonic seconds.
    """

    def __init__(
        self,
        requests: int = 0,
        tokens: int = 0,
        *,
        clock: Clock = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.requests, self.tokens = requests, tokens
        self._clock, self._sleep = clock, sleep
        self._taken: deque[Reservation] = deque()
        self._turn = asyncio.Lock()

    async def take(self, tokens: int = 0) -> Reservation:
        """Waits until a request of `tokens` fits, and records it."""
        async with self._turn:
            while (wait := self._wait(tokens)) > 0:
                await self._sleep(min(wait, _LOOK_S))
            taken = Reservation(self._clock(), tokens)
            self._taken.append(taken)
            return taken

    def _wait(self, tokens: int) -> float:
        """Returns seconds until a request of `tokens` fits into the window."""
        now = self._clock()
        while self._taken and now - self._taken[0].at >= WINDOW_S:
            self._taken.popleft()
        wait = 0.0
        if self.requests and len(self._taken) >= self.requests:
            wait = self._taken[len(self._taken) - self.requests].at + WINDOW_S - now
        if self.tokens:
            excess = sum(map(self._weight, self._taken)) + min(tokens, self.tokens) - self.tokens
            for taken in self._taken:
                if excess <= 0:
                    break
                excess -= self._weight(taken)
                wait = max(wait, taken.at + WINDOW_S - now)
        return wait

    def _weight(self, taken: Reservation) -> int:
        return min(taken.tokens, self.tokens)


class Spacing:
    """At most `per_second` requests a second, evenly spaced, first come first served. Thread-safe."""

    def __init__(self, per_second: float) -> None:
        self._gap, self._free, self._lock = 1 / per_second, 0.0, Lock()

    async def take(self) -> None:
        """Waits until the next request may be sent."""
        with self._lock:
            now = time.monotonic()
            at = max(now, self._free)
            self._free = at + self._gap
        if at > now:
            await asyncio.sleep(at - now)
