"""The tries of one request, with a server's Retry-After, and limits on the rate of requests.

A plain loop: tenacity's cost is 80 microseconds of processor a request.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from contextvars import ContextVar
from functools import cache
from typing import Protocol, TypeVar

from ragc.errors import TargetUnavailable

T = TypeVar("T")

WINDOW_S = 60.0
"""Seconds of the window in which a rate is counted."""


class Again(Exception):
    """A failure that a further try may cure; the text completes the sentence "the endpoint …".

    `wait` is the server's Retry-After in seconds, `request_id` its id of the request. `refused` says that
    nothing was computed, so that the try costs nothing.
    """

    def __init__(
        self, reason: str, wait: float | None = None, *, request_id: str = "", refused: bool = False
    ) -> None:
        super().__init__(reason)
        self.wait, self.request_id, self.refused = wait, request_id, refused


class Meter(Protocol):
    """Counts the tries of one request against a budget."""

    async def begin(self) -> None:
        """Reserves the greatest cost of a try, before it is sent; raises BudgetExhausted beyond the budget.

        Does nothing if a try is reserved already.
        """

    def fail(self, failure: BaseException) -> None:
        """Ends the present try with `failure`, whose `refused` says that it costs nothing."""


meter: ContextVar[Meter | None] = ContextVar("ragc_meter", default=None)
"""Counts every try of a language model's request, so that a request sent again is paid for again."""


class RateLimit:
    """At most so many `requests` and `tokens` in any sixty seconds, first come first served.

    A request of more tokens than the limit waits for an empty window.
    """

    def __init__(self, requests: float = math.inf, tokens: float = math.inf) -> None:
        self.requests, self.tokens = requests, tokens
        self._sent: list[list[float]] = []
        self._turn = asyncio.Lock()

    async def take(self, size: int) -> list[float]:
        """Waits until a request of `size` tokens may be sent; returns its time and size, to be lowered."""
        async with self._turn:
            while self._is_full(size):  # noqa: ASYNC110 - time passes by itself
                await asyncio.sleep(0.5)  # what others did not use is free again
            taken = [time.monotonic(), float(size)]
            self._sent.append(taken)
        return taken

    def _is_full(self, size: int) -> bool:
        since = time.monotonic() - WINDOW_S
        self._sent = [taken for taken in self._sent if taken[0] > since]
        tokens = size + sum(tokens for _, tokens in self._sent)
        return bool(self._sent) and (len(self._sent) >= self.requests or tokens > self.tokens)


@cache
def rate_of(endpoint: str, model: str, requests: int, tokens: int) -> RateLimit | None:
    """Returns the limit that all targets of `model` at `endpoint` with these numbers share; 0 is none."""
    return RateLimit(requests or math.inf, tokens or math.inf) if requests or tokens else None


async def with_tries(
    attempt: Callable[[], Awaitable[T]],
    endpoint: str,
    *,
    tries: int = 4,
    total_s: float = math.inf,
    first_wait_s: float = 0.5,
    longest_wait_s: float = 20.0,
    rate: RateLimit | None = None,
    size: int = 0,
    may_repeat: Callable[[], bool] = lambda: True,
    sleep: Callable[[float], Awaitable[None]] | None = None,
) -> T:
    """Returns the result of `attempt`, which is called again while it raises Again.

    At most `tries` tries are made, within `total_s` seconds without waits for the rate limit and the budget.
    The wait before try n+1 is drawn from the upper half of `first_wait_s * 2**(n-1)`, at most
    `longest_wait_s`; a server's Retry-After replaces it. No wait begins that would pass `total_s`. Each try
    waits for `rate` as a request of `size` tokens, and for the `meter` of this context. At the end raises
    TargetUnavailable, which says the last failure and the number of tries.
    """
    counting, spent, number = meter.get(), 0.0, 0
    while True:
        number += 1
        taken = [0.0, 0.0] if rate is None else await rate.take(size)
        if counting is not None:
            await counting.begin()
        began = time.monotonic()
        try:
            unlimited = nullcontext()  # a timeout needs a loop, and a call in a thread has none
            async with unlimited if total_s == math.inf else asyncio.timeout(max(0.0, total_s - spent)):
                result = await attempt()
            if (usage := getattr(result, "usage", None)) is not None:
                taken[1] = usage.prompt + usage.completion
            return result
        except Again as again:
            failure = again
        except TimeoutError:
            failure = Again(f"gave no answer within {total_s:g} s")
        if counting is not None:
            counting.fail(failure)
        full = min(longest_wait_s, first_wait_s * 2.0 ** min(number - 1, 30))
        wait = full * random.uniform(0.5, 1.0) if failure.wait is None else failure.wait + random.random() / 2
        spent += time.monotonic() - began + wait
        if number >= tries or spent > total_s or not may_repeat():
            tried = f" (tried {number} times)" if number > 1 else ""
            raise TargetUnavailable(
                f"{endpoint} {failure}{tried}.",
                endpoint=endpoint,
                request_id=failure.request_id,
                refused=failure.refused,
            ) from None
        await (sleep or asyncio.sleep)(wait)
