"""Branches of a trace: what becomes of them when the work they belong to is given up."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from ragc.programs.trace import together


def test_work_that_was_given_up_before_it_began_is_closed() -> None:
    async def work() -> None:
        pytest.fail("begun after it was given up")

    branches = [work(), work()]

    async def given_up() -> None:
        task = asyncio.ensure_future(together(*branches))
        await asyncio.sleep(0)  # the branches are started by now, and have not had their turn
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(given_up())
    assert [inspect.getcoroutinestate(branch) for branch in branches] == [inspect.CORO_CLOSED] * 2
