"""The one event loop of a process, in its own thread. Clients, limits and requests in flight belong to it.

Synchronous callers submit a coroutine and wait. Callers on another loop, as in a notebook, await without
blocking theirs. Context variables are copied to the loop, so DSPy's settings of the calling thread apply.
While many questions are answered on it, `frozen_gc` keeps the garbage collector from stopping it for long.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar, cast

T = TypeVar("T")

GC_THRESHOLD = 20_000
"""Allocations between two garbage collections in `frozen_gc`; Python's default is 700."""


_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop = cast(Any, None)  # made by `get`
_thread = threading.Thread()
_closing = set[Callable[[], Awaitable[object]]]()
_stepping = threading.local()


def get() -> asyncio.AbstractEventLoop:
    """Returns the process's loop. The first call in a process, or in a fork of it, starts it."""
    global _loop, _thread  # noqa: PLW0603 - one loop a process is the point
    with _lock:
        if not _thread.is_alive():
            _loop = asyncio.new_event_loop()
            _thread = threading.Thread(target=_loop.run_forever, name="ragc-loop", daemon=True)
            _thread.start()
            atexit.register(release)
        return _loop


def is_on_loop() -> bool:
    """Returns whether the caller already runs on the process's loop."""
    return threading.current_thread() is _thread


def is_stepping() -> bool:
    """Returns whether `step` runs the caller, which then has no loop to await on."""
    return getattr(_stepping, "now", False)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Runs `work` on the loop and waits for its result; an interrupt cancels it.

    Raises RuntimeError when called on the loop itself, where it would deadlock.
    """
    if is_on_loop():
        work.close()
        raise RuntimeError(
            "event_loop.run would wait for the loop that it is on; await the coroutine instead"
        )
    future = asyncio.run_coroutine_threadsafe(work, get())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def step(work: Coroutine[Any, Any, T]) -> T:
    """Runs `work` in this thread, without a loop; what it has to wait for, it waits for by `wait`.

    A hop to the loop and back costs 0.1 ms of processor, about as much as all else that a call needs.
    """
    outer, _stepping.now = is_stepping(), True
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        _stepping.now = outer
    work.close()
    raise RuntimeError("event_loop.step cannot wait for a loop; await by event_loop.wait what takes time")


async def wait(work: Awaitable[T]) -> T:
    """Awaits `work` on the process's loop, from whichever loop; blocks a thread that `step` runs."""

    async def awaited() -> T:
        return await work

    if is_on_loop():
        return await work
    return run(awaited()) if is_stepping() else await on_loop(awaited())


async def on_loop(work: Coroutine[Any, Any, T]) -> T:
    """Awaits `work` on the process's loop, from whichever loop the caller is on."""
    if is_on_loop():
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, get()))


async def gather_or_cancel(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Awaits all of `work` at once and returns the results in its order.

    The first error, or the caller's cancellation, cancels the rest; it is raised when they have ended.
    """
    tasks = [asyncio.ensure_future(coroutine) for coroutine in work]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def closes(close: Callable[[], Awaitable[object]]) -> None:
    """Registers `close`, which closes connections of the process's loop, for `release`; it is idempotent."""
    _closing.add(close)


def release(patience_s: float = 5.0) -> None:
    """Cancels the requests in flight on the process's loop and closes all connections.

    The loop keeps running. Called at the end of a command and of the process, however it ends. An interrupt,
    or `patience_s` seconds, cut it short.
    """
    if _thread.is_alive() and not is_on_loop():
        with suppress(Exception, KeyboardInterrupt):
            asyncio.run_coroutine_threadsafe(_release(), _loop).result(patience_s)


async def _release() -> None:
    flying = asyncio.all_tasks() - {asyncio.current_task()}
    for task in flying:
        task.cancel()
    await asyncio.gather(*flying, return_exceptions=True)
    await asyncio.gather(*(close() for close in _closing), return_exceptions=True)
    await asyncio.sleep(0)  # transports close in the next iteration of the loop


@contextmanager
def frozen_gc() -> Iterator[None]:
    """Freezes what exists (libraries, corpora, indexes) and makes garbage collections rarer inside the block.

    It would otherwise scan all of that every few hundred questions. Blocks may be nested.
    """
    usual = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(usual[0] and max(GC_THRESHOLD, usual[0]), *usual[1:])  # 0 is switched off, and stays so
    try:
        yield
    finally:
        gc.set_threshold(*usual)
        gc.unfreeze()
