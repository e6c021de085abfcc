"""Rates are kept in every window of sixty seconds, under virtual time."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st
from ragc.core.rate_limit import WINDOW_S, SlidingWindow
from ragc.core.retry import Retry, RetryableError, with_retries
from ragc.targets.limits import RateLimits

from ragc.targets.base import ChatRequest, Message, Reply, Sampling, Usage
from ragc.targets.vllm_options import VllmOptions
from tests.examples import examples


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds
        await asyncio.sleep(0)


ARRIVALS = st.lists(st.tuples(st.sampled_from([0.0, 0.5, 7.0, 45.0]), st.integers(1, 120)), max_size=25)


@given(ARRIVALS, st.integers(0, 5), st.integers(0, 100), st.booleans())
@settings(max_examples=examples(60))
def test_no_window_holds_more_than_the_limits(
    arrivals: list[tuple[float, int]], requests: int, tokens: int, halved: bool
) -> None:
    time = Time()
    window = SlidingWindow(requests, tokens, clock=time, sleep=time.sleep)
    sent: list[tuple[float, int]] = []

    async def go() -> None:
        for pause, size in arrivals:
            time.now += pause
            taken = await window.take(size)
            used = size // 2 if halved else size
            taken.tokens = used
            sent.append((time.now, used))

    asyncio.run(go())
    for start, _ in sent:
        held = [size for at, size in sent if start <= at < start + WINDOW_S]
        assert not requests or len(held) <= requests
        assert not tokens or sum(min(size, tokens) for size in held) <= tokens


def test_waiting_is_no_longer_than_needed_and_in_the_order_of_asking() -> None:
    time = Time()
    window = SlidingWindow(requests=2, clock=time, sleep=time.sleep)
    order: list[int] = []

    async def one(number: int) -> float:
        await window.take()
        order.append(number)
        return time.now

    async def go() -> list[float]:
        return list(await asyncio.gather(*(one(number) for number in range(5))))

    assert asyncio.run(go()) == [0, 0, 60, 60, 120]
    assert order == [0, 1, 2, 3, 4]


def test_what_a_request_did_not_use_is_free_again() -> None:
    time = Time()
    window = SlidingWindow(tokens=100, clock=time, sleep=time.sleep)

    async def go() -> float:
        taken = await window.take(90)
        waiting = asyncio.ensure_future(window.take(50))
        await asyncio.sleep(0)
        taken.tokens = 20
        await waiting
        return time.now

    assert asyncio.run(go()) <= 2


class Server:
    """A target whose every second try fails; it keeps the times at which it was asked."""

    name = model = identity = "m"
    endpoint = "http://127.0.0.1:8000/v1"
    capabilities = frozenset[str]()
    context_tokens, concurrency = 1000, 8

    def __init__(self, time: Time, **options: int) -> None:
        self.time, self.options, self.call_times = time, VllmOptions(**options), list[float]()  # type: ignore[arg-type]

    def count_tokens(self, text: str) -> int:
        return len(text)

    async def complete(self, request: ChatRequest) -> Reply:
        async def attempt() -> Reply:
            self.call_times.append(self.time.now)
            if len(self.call_times) % 2:
                raise RetryableError("answered 500")
            return Reply("Lima", usage=Usage(5, 5))

        return await with_retries(attempt, Retry(), endpoint=self.endpoint, sleep=self.time.sleep)


def send_through(guards: RateLimits, *servers: Server) -> None:
    async def go() -> None:
        request = ChatRequest((Message("user", "x" * 20),), sampling=Sampling(max_tokens=30))
        for server in servers:
            await guards.complete(server, request)  # type: ignore[arg-type]

    asyncio.run(go())


def test_retries_keep_to_the_rate_too_and_targets_of_one_endpoint_share_it() -> None:
    time = Time()
    guards = RateLimits(clock=time, sleep=time.sleep)
    main, judge = Server(time, requests_per_minute=3), Server(time)
    send_through(guards, main, judge, main)
    times = sorted(main.call_times + judge.call_times)
    assert len(times) == 6
    assert times[3] - times[0] >= WINDOW_S
    assert times[5] - times[2] >= WINDOW_S


def test_tokens_count_as_asked_for_until_the_reply_is_there() -> None:
    time = Time()
    server = Server(time, tokens_per_minute=100)
    send_through(RateLimits(clock=time, sleep=time.sleep), server, server)
    # 50 for the failed try, 10 for the answered one; then 50 would pass 100.
    assert len(server.call_times) == 4
    assert server.call_times[2] >= server.call_times[0] + WINDOW_S - 1
    assert server.call_times[1] < 2
