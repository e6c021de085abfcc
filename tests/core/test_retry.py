"""The retry policy on its own: what is tried again, how long is waited, and what is raised in the end."""

from __future__ import annotations

import asyncio
import math
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ragc.core.retry import (
    RetriesExhausted,
    Retry,
    RetryableError,
    retry_after,
    with_retries,
    with_retries_in_thread,
)

from ragc.errors import SourceError, TargetUnavailable


class Attempts:
    """Fails with `failures` in order, then answers; waits are recorded and not slept."""

    def __init__(self, *failures: Exception) -> None:
        self.failures, self.waits = list(failures), list[float]()

    def __call__(self) -> str:
        if self.failures:
            raise self.failures.pop(0)
        return "answer"

    async def acall(self) -> str:
        return self()

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    async def asleep(self, seconds: float) -> None:
        self.waits.append(seconds)


def test_a_call_in_a_thread_is_tried_again_like_one_on_the_loop() -> None:
    policy = Retry(tries=4, first_wait_s=1.0)
    for again in (True, False):
        attempts = Attempts(RetryableError("broke off"), RetryableError("asked to wait", 7.0))
        if again:
            assert with_retries_in_thread(attempts, policy, attempts.sleep) == "answer"
        else:
            done = with_retries(attempts.acall, policy, endpoint="e", sleep=attempts.asleep)
            assert asyncio.run(done) == "answer"
        assert 0.5 <= attempts.waits[0] <= 1.0
        assert 7.0 <= attempts.waits[1] <= 8.0


def test_what_cannot_pass_is_raised_at_once() -> None:
    attempts = Attempts(ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        with_retries_in_thread(attempts, Retry(), attempts.sleep)
    assert attempts.waits == []


@pytest.mark.parametrize(
    ("failures", "policy", "text"),
    [
        ([RetryableError("is busy")] * 3, Retry(3), "is busy (tried 3 times)"),
        ([RetryableError("is busy")], Retry(1), "is busy"),
        ([RetryableError("is busy", 90.0)], Retry(3, 60.0), "the limit of 60 s"),
    ],
)
def test_when_tries_or_time_run_out_the_last_failure_is_told(
    failures: list[Exception], policy: Retry, text: str
) -> None:
    with pytest.raises(RetriesExhausted) as caught:
        with_retries_in_thread(Attempts(*failures), policy, lambda seconds: None)
    assert text in str(caught.value)
    assert caught.value.tries == len(failures)

    def given_up(last: RetriesExhausted) -> SourceError:
        return SourceError(f"after {last.tries}: {last.failure.reason}")

    attempts = Attempts(*failures)
    with pytest.raises(TargetUnavailable, match=r"^e is busy"):
        asyncio.run(with_retries(attempts.acall, policy, endpoint="e", sleep=attempts.asleep))
    attempts = Attempts(*failures)
    with pytest.raises(SourceError, match=f"after {len(failures)}: is busy"):
        asyncio.run(with_retries(attempts.acall, policy, endpoint="e", sleep=attempts.asleep, error=given_up))


@given(
    st.integers(1, 60), st.none() | st.floats(0, 1e6), st.floats(0, 100), st.floats(0, 100), st.floats(0, 100)
)
def test_waits_have_their_bounds(
    failed: int, requested: float | None, first: float, longest: float, longest_asked: float
) -> None:
    policy = Retry(first_wait_s=first, longest_wait_s=longest, longest_asked_s=longest_asked)
    wait = policy.wait(failed, requested)
    if requested is None:
        full = min(longest, first * 2.0 ** min(failed - 1, 30))
        assert full / 2 <= wait <= full
    else:
        assert min(requested, longest_asked) <= wait <= min(requested, longest_asked) + first
    assert requested is None or Retry(longest_asked_s=math.inf).wait(failed, requested) >= requested


def test_retry_after_is_seconds_or_a_date() -> None:
    assert retry_after("3") == 3.0
    assert retry_after("1.5") == 1.5
    assert retry_after("-5") == 0.0
    assert retry_after(None) is retry_after("") is retry_after("soon") is None
    assert retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0
    later = retry_after(format_datetime(datetime.now(UTC) + timedelta(seconds=100)))
    assert later is not None
    assert 95 < later <= 100
