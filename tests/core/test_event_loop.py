"""The event loop: the garbage collector while questions are answered on it."""

from __future__ import annotations

import asyncio
import gc
import inspect
import threading
import weakref
from collections.abc import Coroutine
from typing import Any

import pytest

from ragc.core import event_loop
from tests.examples import thorough


class Knot:
    """Refers to itself, so that only the collector frees it."""

    def __init__(self) -> None:
        self.own = self


def test_what_was_there_is_left_alone_and_all_is_as_before_at_the_end() -> None:
    before = gc.get_threshold()
    with event_loop.frozen_gc():
        assert gc.get_freeze_count() > 1000
        assert gc.get_threshold() == (event_loop.GC_THRESHOLD, *before[1:])
        with event_loop.frozen_gc():
            pass
        assert gc.get_freeze_count() > 1000
    assert (gc.get_freeze_count(), gc.get_threshold()) == (0, before)


@thorough
def test_what_is_made_inside_is_freed_and_what_was_there_afterwards() -> None:
    old = Knot()
    there = weakref.ref(old)
    with event_loop.frozen_gc():
        new_ref = weakref.ref(Knot())
        del old
        gc.collect()
        assert new_ref() is None
        assert there() is not None
    gc.collect()
    assert there() is None


def test_a_heap_that_is_frozen_stays_so() -> None:
    gc.freeze()
    try:
        count = gc.get_freeze_count()
        with event_loop.frozen_gc():
            pass
        assert gc.get_freeze_count() > 0.9 * count  # other threads may free a few
    finally:
        gc.unfreeze()


def test_an_error_inside_changes_nothing() -> None:
    before = gc.get_threshold()
    with pytest.raises(ValueError, match="inside"), event_loop.frozen_gc():
        raise ValueError("inside")
    assert (gc.get_freeze_count(), gc.get_threshold()) == (0, before)


def test_a_coroutine_that_a_thread_made_for_a_cancelled_task_is_closed() -> None:
    """LiteLLM makes the coroutine of a request so; a spent budget cancels requests at any moment."""
    begun, goes_on = threading.Event(), threading.Event()
    coroutines = list[Coroutine[Any, Any, None]]()

    async def reply() -> None:
        raise AssertionError("nobody awaits it")

    def make() -> Coroutine[Any, Any, None]:
        begun.set()
        goes_on.wait(10)
        coroutines.append(reply())
        return coroutines[0]

    async def cancelled() -> None:
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(loop.run_in_executor(None, make))
        await asyncio.to_thread(begun.wait, 10)
        task.cancel()
        goes_on.set()
        await asyncio.gather(task, return_exceptions=True)
        while not coroutines or inspect.getcoroutinestate(coroutines[0]) != inspect.CORO_CLOSED:  # noqa: ASYNC110
            await asyncio.sleep(0.001)

    event_loop.run(asyncio.wait_for(cancelled(), 10))


def test_what_a_thread_gives_is_passed_on() -> None:
    async def go() -> tuple[int, int]:
        return await asyncio.get_running_loop().run_in_executor(None, divmod, 7, 2)

    assert event_loop.run(go()) == (3, 1)


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
