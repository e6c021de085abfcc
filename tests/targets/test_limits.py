"""A dead endpoint is left alone for a while, under virtual time."""

from __future__ import annotations

import asyncio

import pytest

from ragc.errors import TargetError, TargetUnavailable
from ragc.targets.limits import Breaker

URL = "http://127.0.0.1:8000/v1"


class World:
    """An endpoint that answers, or fails as told, and a clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls = 0
        self.error: Exception | None = TargetUnavailable(f"{URL} answered 500.")
        self.breaker = Breaker(URL, break_after=3, cool_down_s=30, clock=lambda: self.now)

    async def answer(self) -> str:
        self.calls += 1
        await asyncio.sleep(0)
        if self.error:
            raise self.error
        return "Lima"

    async def ask(self) -> str:
        try:
            return await self.breaker.call(self.answer)
        except TargetError as error:
            return str(error)


def test_after_some_failures_in_a_row_calls_fail_at_once_and_say_why() -> None:
    world = World()

    async def go() -> None:
        for _ in range(3):
            await world.ask()
        assert await world.ask() == (
            f"{URL} failed 3 calls in a row and is tried again in 30 s; the last failure: {URL} answered 500."
        )
        with pytest.raises(TargetUnavailable) as caught:
            await world.breaker.call(world.answer)
        assert caught.value.endpoint == URL

    asyncio.run(go())
    assert world.calls == 3


def test_after_the_cool_down_one_call_tries_the_endpoint_and_closes_it() -> None:
    world = World()

    async def go() -> list[str]:
        for _ in range(3):
            await world.ask()
        world.now, world.error = 30.0, None
        first = await asyncio.gather(*(world.ask() for _ in range(5)))
        return [*first, await world.ask()]

    replies = asyncio.run(go())
    assert replies.count("Lima") == 2
    assert sum("is being tried again now" in text for text in replies) == 4
    assert world.calls == 5
    assert not world.breaker.open


def test_a_trial_that_fails_opens_it_for_as_long_again() -> None:
    world = World()

    async def go() -> None:
        for _ in range(3):
            await world.ask()
        for now, calls in ((29.9, 3), (30.0, 4), (59.9, 4), (60.0, 5)):
            world.now = now
            await world.ask()
            assert world.calls == calls

    asyncio.run(go())


def test_a_cancelled_trial_leaves_the_next_call_to_try() -> None:
    world = World()

    async def go() -> str:
        for _ in range(3):
            await world.ask()
        world.now, world.error = 30.0, None
        trial = asyncio.ensure_future(world.ask())
        await asyncio.sleep(0)
        trial.cancel()
        await asyncio.gather(trial, return_exceptions=True)
        return await world.ask()

    assert asyncio.run(go()) == "Lima"


@pytest.mark.parametrize("between", [None, TargetError("bad top_p")], ids=["answer", "refusal"])
def test_only_failures_in_a_row_count(between: Exception | None) -> None:
    world = World()
    failing = world.error

    async def go() -> None:
        for _ in range(4):
            for error in (failing, failing, between):
                world.error = error
                await world.ask()

    asyncio.run(go())
    assert world.calls == 12
