"""Runs a user's code off the process's own loop, which it would block.

A synchronous function has a thread of its own for each question. A pool of few threads would not do: code
that holds one while it waits for the loop blocks the work that the loop itself gives to threads. Coroutines
share one loop of their own, so that a client which belongs to a loop may be kept between questions.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import copy_context
from typing import Any, TypeVar

T = TypeVar("T")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


async def in_thread(work: Callable[[], T]) -> T:
    """Calls `work` in a thread of its own, with the variables of this context, and returns its result.

    A cancelled caller does not wait for the thread, which continues.
    """
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()
    context = copy_context()

    def settle(change: Callable[[Any], None], value: Any) -> None:
        if not result.done():
            change(value)

    def run() -> None:
        try:
            outcome, change = context.run(work), result.set_result
        except BaseException as error:  # an exit of the thread is an error of the question
            outcome, change = error, result.set_exception  # type: ignore[assignment]
        with suppress(RuntimeError):  # the process ends, and its loop is gone
            loop.call_soon_threadsafe(settle, change, outcome)

    threading.Thread(target=run, name="ragc-own", daemon=True).start()
    return await result


async def on_own_loop(work: Coroutine[Any, Any, T]) -> T:
    """Awaits `work` on the loop of users' coroutines; cancelled with its caller."""
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, _get_loop()))


def _get_loop() -> asyncio.AbstractEventLoop:
    global _loop  # noqa: PLW0603 - one loop a process is the point
    with _lock:
        if _loop is None or _loop.is_closed():
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name="ragc-own-loop", daemon=True).start()
        return _loop
