"""Rates: never more than so much in any sixty seconds, or requests that are evenly spaced.

The libraries at hand keep a bucket that refills (aiolimiter), which lets nearly twice the limit through in
some windows. Providers count windows, and so does this: it remembers what the last one held.
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
"""What is given back early frees its place after at most so many seconds."""


class Reservation:
    """One request of a window: when it was let through, and its tokens."""

    __slots__ = ("at", "tokens")

    def __init__(self, at: float, tokens: int) -> None:
        self.at, self.tokens = at, tokens


class SlidingWindow:
    """At most `requests` and at most `tokens` in any WINDOW_S seconds, in the order of asking; 0: no limit.

    A request of more tokens than the limit counts as the limit. `clock` gives seconds that only grow.
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
        """Wait until a request of `tokens` fits, and let it through."""
        async with self._turn:
            while (wait := self._wait(tokens)) > 0:
                await self._sleep(min(wait, _LOOK_S))
            taken = Reservation(self._clock(), tokens)
            self._taken.append(taken)
            return taken

    def _wait(self, tokens: int) -> float:
        """Seconds until a request of `tokens` fits into the window that ends then."""
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
    """At most `per_second` requests a second, evenly spaced, in the order of asking, for any thread."""

    def __init__(self, per_second: float) -> None:
        self._gap, self._free, self._lock = 1 / per_second, 0.0, Lock()

    async def take(self) -> None:
        """Wait until the next request may go."""
        with self._lock:
            now = time.monotonic()
            at = max(now, self._free)
            self._free = at + self._gap
        if at > now:
            await asyncio.sleep(at - now)
