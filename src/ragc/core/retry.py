"""The retry policy of targets, sources and downloads: jittered waits, a number of tries, a cap on the time.

Not tenacity: a call that succeeds at once takes 18 to 24 microseconds with tenacity and 5 with this. Tenacity
counts tries and seconds; this also excludes waits for a rate limit from the cap.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Protocol, TypeVar

from ragc.errors import TargetUnavailable

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]
Pace = Callable[[], Awaitable[None]]

PASSING_STATUS = frozenset({408, 429, 500, 502, 503, 504})


def is_refusal(status: int) -> bool:
    """Returns whether an HTTP status says that the request was refused, so that no reply was computed.

    408 does not say so, nor does 5xx: a gateway may give up while a reply is computed behind it.
    """
    return 400 <= status < 500 and status != 408


pace: ContextVar[Pace | None] = ContextVar("ragc_pace", default=None)
"""Awaited before every try, so that retries obey the rate limit too; its waiting time is outside the cap."""


class Meter(Protocol):
    """Counts the tries of one request against a budget."""

    async def begin(self) -> None:
        """Reserves the greatest cost of a try, before it is sent; raises BudgetExhausted beyond the budget.

        Does nothing if a try is reserved already.
        """
        ...

    def fail(self, failure: BaseException) -> None:
        """Ends the present try with `failure`. Does nothing if none is reserved."""
        ...


meter: ContextVar[Meter | None] = ContextVar("ragc_meter", default=None)
"""Counts every try of a language model's request, so that a request sent again is paid for again."""


class RetryableError(Exception):
    """A failure that a further try may cure.

    `reason` completes the sentence "the endpoint …"; `wait` is the Retry-After of the server in seconds.
    `refused` means that no server received the request, or that it was refused without computing a reply, so
    that it costs nothing. `usage` is the cost of the failed try by the server's report: tokens of the prompt
    and of the reply; None without a report.
    """

    def __init__(
        self,
        reason: str,
        wait: float | None = None,
        *,
        request_id: str = "",
        refused: bool = False,
        usage: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason, self.wait, self.request_id = reason, wait, request_id
        self.refused, self.usage = refused, usage


@dataclass(frozen=True, slots=True)
class Retry:
    """At most `tries` tries within `total_s` seconds.

    The wait before try n+1 is drawn from the upper half of `first_wait_s * 2**(n-1)`, at most
    `longest_wait_s`. A server's Retry-After replaces it; up to `longest_asked_s` it is always respected.
    """

    tries: int = 4
    total_s: float = 300.0
    first_wait_s: float = 0.5
    longest_wait_s: float = 20.0
    longest_asked_s: float = math.inf

    def wait(self, failed: int, retry_after_s: float | None) -> float:
        """Returns seconds to wait after `failed` failed tries, given the server's `retry_after_s`."""
        if retry_after_s is not None:
            return min(retry_after_s, self.longest_asked_s) + random.random() * self.first_wait_s
        full = min(self.longest_wait_s, self.first_wait_s * 2.0 ** min(failed - 1, 30))
        return full * (0.5 + random.random() / 2)


class RetriesExhausted(Exception):
    """No try is left: the last `failure`, the number of failed `tries`, and the reason as `note`."""

    def __init__(self, failure: RetryableError, tries: int, note: str = "") -> None:
        super().__init__(f"{failure.reason}{note}")
        self.failure, self.tries, self.note = failure, tries, note


@dataclass(slots=True)
class RetryState:
    """The state of one request's tries. A sleep counts with its nominal length, even if it was skipped."""

    policy: Retry
    endpoint: str = ""
    started: float = field(default_factory=time.monotonic)
    reached: float = 0.0
    failed: int = 0

    @property
    def spent(self) -> float:
        """Seconds since the first try."""
        return max(time.monotonic() - self.started, self.reached)

    def next_wait(self, failure: RetryableError) -> float:
        """Returns seconds until the try after `failure`. Raises RetriesExhausted when there is none."""
        spent, policy = self.spent, self.policy
        self.failed += 1
        wait = policy.wait(self.failed, failure.wait)
        times = "once" if self.failed == 1 else f"{self.failed} times"
        if self.failed >= policy.tries:
            raise RetriesExhausted(failure, self.failed, f" (tried {times})" if self.failed > 1 else "")
        if spent + wait > policy.total_s:
            limit = f"would pass the limit of {policy.total_s:g} s"
            raise RetriesExhausted(
                failure, self.failed, f" (tried {times}; the next try, in {wait:.0f} s, {limit})"
            )
        self.reached = spent + wait
        return wait


async def with_retries(
    attempt: Callable[[], Awaitable[T]],
    policy: Retry,
    *,
    endpoint: str,
    sleep: Sleep = asyncio.sleep,
    error: Callable[[RetriesExhausted], Exception] | None = None,
) -> T:
    """Returns the result of `attempt`, which is called again while it raises RetryableError.

    A `meter` of this context counts every try. When the tries or the time run out, raises `error(...)` of the
    RetriesExhausted: by default TargetUnavailable, one sentence that names `endpoint`. Other errors
    propagate at once. No wait begins that would exceed the cap.
    """
    state, counting = RetryState(policy, endpoint), meter.get()
    while True:
        await _wait_for_pace(state)
        if counting is not None:
            await _begin(counting, state)
        cap = asyncio.timeout(max(0.0, policy.total_s - state.spent) if policy.total_s < math.inf else None)
        try:
            try:
                async with cap:
                    answer = await attempt()
            except TimeoutError:
                if not cap.expired():
                    raise
                late = RetryableError(f"gave no answer within {policy.total_s:g} s")
                if counting is not None:
                    counting.fail(late)
                raise RetriesExhausted(late, state.failed + 1) from None
            except RetryableError as failure:
                if counting is not None:
                    counting.fail(failure)
                wait = state.next_wait(failure)
            else:
                return answer
        except RetriesExhausted as last:
            if error is not None:
                raise error(last) from last.failure
            text, number = f"{endpoint} {last}.", last.failure.request_id
            raise TargetUnavailable(text, endpoint=endpoint, request_id=number) from last.failure
        await sleep(wait)


def with_retries_in_thread(
    attempt: Callable[[], T], policy: Retry, sleep: Callable[[float], None] = time.sleep
) -> T:
    """Retries blocking calls as `with_retries` does. Raises RetriesExhausted; a try is not interrupted."""
    state = RetryState(policy)
    while True:
        try:
            return attempt()
        except RetryableError as failure:
            wait = state.next_wait(failure)
        sleep(wait)


async def _wait_for_pace(state: RetryState) -> None:
    wait = pace.get()
    if wait is not None:
        before = time.monotonic()
        await wait()
        state.started += time.monotonic() - before


async def _begin(counting: Meter, state: RetryState) -> None:
    """Reserves a try; the time that it waits for other tries to be settled does not count towards the cap."""
    before = time.monotonic()
    await counting.begin()
    state.started += time.monotonic() - before


def retry_after(header: str | None) -> float | None:
    """Returns the seconds in a Retry-After header; None when it is absent or unreadable."""
    if not header:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        when = parsedate_to_datetime(header)
        return max(0.0, (when.replace(tzinfo=when.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
