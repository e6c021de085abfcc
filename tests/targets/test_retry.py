"""Tries of a request, and rates that hold in every window of sixty seconds, under virtual time."""

from __future__ import annotations

import asyncio
import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragc.errors import TargetUnavailable
from ragc.targets.base import Reply, Usage
from ragc.targets.retry import WINDOW_S, Again, RateLimit, with_tries
from ragc.targets.wire import wait_asked
from tests.examples import examples


class Attempts:
    """Fails with `failures` in order, then answers; waits are recorded and not slept."""

    def __init__(self, *failures: Exception) -> None:
        self.failures, self.waits = list(failures), list[float]()

    async def __call__(self) -> Reply:
        if self.failures:
            raise self.failures.pop(0)
        return Reply("answer", usage=Usage(5, 5))

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)


@pytest.mark.parametrize(
    ("failures", "tries", "total_s", "text"),
    [
        ([Again("is busy")] * 3, 3, math.inf, "is busy (tried 3 times)."),
        ([Again("is busy")], 1, math.inf, "is busy."),
        ([Again("is busy", 90.0)], 3, 60.0, "is busy."),
    ],
)
def test_when_tries_or_time_run_out_the_last_failure_is_told(
    failures: list[Exception], tries: int, total_s: float, text: str
) -> None:
    attempts = Attempts(*failures)
    with pytest.raises(TargetUnavailable) as caught:
        asyncio.run(with_tries(attempts, "e", tries=tries, total_s=total_s, sleep=attempts.sleep))
    assert str(caught.value) == f"e {text}"


def test_retry_after_is_seconds_a_date_or_words() -> None:
    def asked(header: str, text: str = "") -> float | None:
        return wait_asked({"retry-after": header}, text)

    assert (asked("3"), asked("1.5"), asked("-5")) == (3.0, 1.5, 0.0)
    assert asked("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0
    assert asked("") is asked("soon") is wait_asked({}) is None
    assert asked("", "Please retry in 37.9s.") == asked("", '"retryDelay": "37.9s"') == 37.9


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which only sleeping moves."""
    now = [1000.0]

    async def sleep(seconds: float, sleep: object = asyncio.sleep) -> None:
        assert seconds >= 0
        now[0] += seconds
        await sleep(0)  # type: ignore[operator]

    monkeypatch.setattr("ragc.targets.retry.time.monotonic", lambda: now[0])
    monkeypatch.setattr("ragc.targets.retry.asyncio.sleep", sleep)
    return now


ARRIVALS = st.lists(st.tuples(st.sampled_from([0.0, 0.5, 7.0, 45.0]), st.integers(1, 120)), max_size=25)


@given(ARRIVALS, st.integers(0, 5), st.integers(0, 100), st.booleans())
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_window_holds_more_than_the_limits(
    clock: list[float], arrivals: list[tuple[float, int]], requests: int, tokens: int, halved: bool
) -> None:
    rate = RateLimit(requests or math.inf, tokens or math.inf)
    sent: list[tuple[float, float]] = []

    async def go() -> None:
        for pause, size in arrivals:
            clock[0] += pause
            taken = await rate.take(size)
            taken[1] = size // 2 if halved else size
            sent.append((clock[0], taken[1]))

    asyncio.run(go())
    for start, _ in sent:
        held = [size for at, size in sent if start <= at < start + WINDOW_S]
        assert not requests or len(held) <= requests
        assert not tokens or len(held) == 1 or sum(held) <= max(tokens, held[0])


def test_waiting_is_in_the_order_of_asking_and_what_was_not_used_is_free_again(clock: list[float]) -> None:
    rate, order = RateLimit(requests=2), list[int]()

    async def one(number: int) -> None:
        await rate.take(1)
        order.append(number)

    async def go() -> float:
        await asyncio.gather(*map(one, range(5)))
        assert clock[0] >= 1000 + 2 * WINDOW_S
        began = clock[0]
        used = RateLimit(tokens=100)
        for _ in range(2):
            await with_tries(Attempts(), "e", rate=used, size=60)  # of which 10 are used
        return clock[0] - began

    assert asyncio.run(go()) < 2
    assert order == [0, 1, 2, 3, 4]
