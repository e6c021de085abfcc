"""Trying again: exponential waits with jitter, a number of tries and a cap on the whole."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

from ragc.errors import TargetUnavailable

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]

PASSING_STATUS = frozenset({408, 429, 500, 502, 503, 504})


class Passing(Exception):
    """A failure that another try may cure.

    `reason` continues the sentence "the endpoint …"; `wait` is how many seconds the server asked for.
    """

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.reason, self.wait = reason, wait


@dataclass(frozen=True, slots=True)
class Retry:
    """At most `tries` tries within `total_s` seconds.

    The wait before try n+1 is drawn from the upper half of `first_wait_s * 2**(n-1)`, at most
    `longest_wait_s`; a server's Retry-After replaces it and is never undercut.
    """

    tries: int = 4
    total_s: float = 300.0
    first_wait_s: float = 0.5
    longest_wait_s: float = 20.0

    def wait(self, failed: int, asked: float | None) -> float:
        """Seconds to wait after `failed` failed tries when the server asked for `asked`."""
        if asked is not None:
            return asked + random.random() * self.first_wait_s
        full = min(self.longest_wait_s, self.first_wait_s * 2.0 ** (failed - 1))
        return full * (0.5 + random.random() / 2)


async def retried(
    attempt: Callable[[], Awaitable[T]], policy: Retry, *, endpoint: str, sleep: Sleep = asyncio.sleep
) -> T:
    """What `attempt` returns, tried again while it raises Passing.

    Raises TargetUnavailable, one sentence that names `endpoint`, when the tries or the time run
    out; every other error passes through at once. No wait is begun that the cap would cut short.
    """
    deadline = time.monotonic() + policy.total_s
    for failed in range(1, policy.tries + 1):
        cap = asyncio.timeout(max(0.0, deadline - time.monotonic()))
        try:
            async with cap:
                return await attempt()
        except TimeoutError:
            if not cap.expired():
                raise
            raise TargetUnavailable(f"{endpoint} gave no answer within {policy.total_s:g} s.") from None
        except Passing as failure:
            wait = policy.wait(failed, failure.wait)
            times = "once" if failed == 1 else f"{failed} times"
            if failed == policy.tries:
                tried = f" (tried {times})" if failed > 1 else ""
                raise TargetUnavailable(f"{endpoint} {failure.reason}{tried}.") from None
            if time.monotonic() + wait > deadline:
                raise TargetUnavailable(
                    f"{endpoint} {failure.reason} (tried {times}; the next try, in {wait:.0f} s, "
                    f"would pass the limit of {policy.total_s:g} s)."
                ) from None
        await sleep(wait)
    raise AssertionError("a policy allows at least one try")


def retry_after(header: str | None) -> float | None:
    """Seconds that a Retry-After header asks for; None when it is absent or unreadable."""
    if not header:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        when = parsedate_to_datetime(header)
    except ValueError:
        return None
    return max(0.0, (when.replace(tzinfo=when.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
