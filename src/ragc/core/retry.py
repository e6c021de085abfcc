"""Trying again: exponential waits with jitter, a number of tries and a cap on the whole."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

from ragc.errors import TargetUnavailable

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]
Pace = Callable[[], Awaitable[None]]

PASSING_STATUS = frozenset({408, 429, 500, 502, 503, 504})

pace: ContextVar[Pace | None] = ContextVar("ragc_pace", default=None)
"""What is awaited before every try, so that retries keep to a rate too; its wait counts for no cap."""

log = logging.getLogger("ragc.targets")
_away: set[str] = set()
"""Endpoints that are being waited for, so that each outage is said once."""


class Passing(Exception):
    """A failure that another try may cure.

    `reason` continues the sentence "the endpoint …"; `wait` is how many seconds the server asked for.
    `away` tells that there is no server at present: nothing took the request.
    """

    def __init__(
        self, reason: str, wait: float | None = None, *, request_id: str = "", away: bool = False
    ) -> None:
        super().__init__(reason)
        self.reason, self.wait, self.request_id, self.away = reason, wait, request_id, away


@dataclass(frozen=True, slots=True)
class Retry:
    """At most `tries` tries within `total_s` seconds.

    The wait before try n+1 is drawn from the upper half of `first_wait_s * 2**(n-1)`, at most
    `longest_wait_s`; a server's Retry-After replaces it and is never undercut. Tries that found no server
    are not counted for `restart_s` seconds after the first of them, and are at most `look_s` apart.
    """

    tries: int = 4
    total_s: float = 300.0
    restart_s: float = 0.0
    first_wait_s: float = 0.5
    longest_wait_s: float = 20.0
    look_s: float = 5.0

    def wait(self, failed: int, asked: float | None) -> float:
        """Seconds to wait after `failed` failed tries when the server asked for `asked`."""
        if asked is not None:
            return asked + random.random() * self.first_wait_s
        full = min(self.longest_wait_s, self.first_wait_s * 2.0 ** min(failed - 1, 30))
        return full * (0.5 + random.random() / 2)


@dataclass(slots=True)
class _Course:
    """How far the tries of one request are. What was slept counts even where a sleep passes at once."""

    started: float = field(default_factory=time.monotonic)
    reached: float = 0.0
    failed: int = 0
    looks: int = 0
    away_since: float = 0.0

    @property
    def spent(self) -> float:
        """Seconds since the first try."""
        return max(time.monotonic() - self.started, self.reached)


async def retried(
    attempt: Callable[[], Awaitable[T]], policy: Retry, *, endpoint: str, sleep: Sleep = asyncio.sleep
) -> T:
    """What `attempt` returns, tried again while it raises Passing.

    Raises TargetUnavailable, one sentence that names `endpoint`, when the tries or the time run
    out; every other error passes through at once. No wait is begun that the cap would cut short.
    """
    course = _Course()
    while True:
        await _paced(course)
        cap = asyncio.timeout(max(0.0, policy.total_s - course.spent))
        try:
            async with cap:
                answer = await attempt()
        except TimeoutError:
            if not cap.expired():
                raise
            text = f"{endpoint} gave no answer within {policy.total_s:g} s."
            raise TargetUnavailable(text, endpoint=endpoint) from None
        except Passing as failure:
            wait = _next_wait(course, policy, failure, endpoint)
        else:
            if endpoint in _away:
                _away.discard(endpoint)
                log.warning("%s answers again.", endpoint)
            return answer
        reached = course.spent + wait
        await sleep(wait)
        course.reached = reached


async def _paced(course: _Course) -> None:
    wait = pace.get()
    if wait is not None:
        before = time.monotonic()
        await wait()
        course.started += time.monotonic() - before


def _next_wait(course: _Course, policy: Retry, failure: Passing, endpoint: str) -> float:
    """Seconds until the next try; raises TargetUnavailable when there is none."""

    def given_up(text: str) -> TargetUnavailable:
        return TargetUnavailable(
            f"{endpoint} {failure.reason}{text}.", endpoint=endpoint, request_id=failure.request_id
        )

    spent = course.spent
    if failure.away and policy.restart_s:
        course.away_since = course.away_since if course.looks else spent
        course.looks += 1
        wait = min(policy.look_s, policy.wait(course.looks, failure.wait))
        if spent + wait > min(policy.total_s, course.away_since + policy.restart_s):
            raise given_up(f" (waited {spent - course.away_since:.0f} s for it to come back)")
        if endpoint not in _away:
            _away.add(endpoint)
            log.warning("%s %s; waiting up to %g s for it.", endpoint, failure.reason, policy.restart_s)
        return wait
    course.looks = 0
    course.failed += 1
    wait = policy.wait(course.failed, failure.wait)
    times = "once" if course.failed == 1 else f"{course.failed} times"
    if course.failed >= policy.tries:
        raise given_up(f" (tried {times})" if course.failed > 1 else "")
    if spent + wait > policy.total_s:
        limit = f"would pass the limit of {policy.total_s:g} s"
        raise given_up(f" (tried {times}; the next try, in {wait:.0f} s, {limit})")
    return wait


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
        return max(0.0, (when.replace(tzinfo=when.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
