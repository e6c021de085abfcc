"""The event loop: its end, work at once, and the garbage collector while questions are answered on it."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys

import pytest

from ragc.core import event_loop
from tests.support.loopback import Loopback


def test_what_was_there_is_left_alone_and_all_is_as_before_at_the_end() -> None:
    before = gc.get_threshold()
    with event_loop.frozen_gc():
        assert gc.get_freeze_count() > 1000
        with event_loop.frozen_gc():
            assert gc.get_threshold() == (event_loop.GC_THRESHOLD, *before[1:])
    assert (gc.get_freeze_count(), gc.get_threshold()) == (0, before)


SESSIONS = """
import asyncio, sys
import aiohttp
from ragc.core import event_loop as loop

class Holder:
    async def aclose(self):
        await self.session.close()

async def ask(holder):
    holder.session = aiohttp.ClientSession()
    loop.closes(holder.aclose)
    async with holder.session.get(sys.argv[1]) as response:
        await response.read()

async def in_a_notebook(holder):
    await loop.on_loop(ask(holder))
    holders.append(Holder())
    loop.run(ask(holders[-1]))  # a cell that calls plain functions

holders = [Holder()]
asyncio.run(in_a_notebook(holders[0]))
"""


def test_a_process_closes_its_connections_at_its_end_whichever_loop_asked() -> None:
    with Loopback(latency_s=0.0) as server:
        done = subprocess.run(
            [sys.executable, "-X", "dev", "-c", SESSIONS, server.url],
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert (done.returncode, done.stderr) == (0, "")


def test_waiting_for_the_loop_on_the_loop_is_an_error() -> None:
    async def nothing() -> None:
        """Nothing."""

    async def wait() -> None:
        event_loop.run(nothing())

    with pytest.raises(RuntimeError, match="await the coroutine"):
        event_loop.run(wait())


async def wait_for_ever(ended: list[str], name: str) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0.01)
        ended.append(name)


def test_results_are_in_the_order_of_the_work() -> None:
    async def after(seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    work = map(after, (0.02, 0.0, 0.01))
    assert event_loop.run(event_loop.gather_or_cancel(work)) == [0.02, 0.0, 0.01]


def test_the_first_error_cancels_the_rest_and_waits_for_its_end() -> None:
    ended = list[str]()

    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError("the first")

    work = [wait_for_ever(ended, "a"), fail(), wait_for_ever(ended, "b")]
    with pytest.raises(ValueError, match="the first"):
        event_loop.run(event_loop.gather_or_cancel(work))
    assert sorted(ended) == ["a", "b"]


def test_a_cancelled_gathering_ends_when_its_work_has() -> None:
    ended = list[str]()

    async def cancelled() -> None:
        work = [wait_for_ever(ended, name) for name in ("a", "b")]
        gathering = asyncio.ensure_future(event_loop.gather_or_cancel(work))
        await asyncio.sleep(0.01)
        gathering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gathering
        assert sorted(ended) == ["a", "b"]

    event_loop.run(cancelled())
