"""The one event loop of a process: it owns HTTP clients, limits and the requests in flight.

Synchronous callers submit and wait; callers on another loop await without blocking theirs. Context
variables travel along, so DSPy's settings of the calling thread hold inside.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def get() -> asyncio.AbstractEventLoop:
    """The process's loop, running in a daemon thread from the first call on."""
    global _loop  # noqa: PLW0603 - one loop a process is the point
    with _lock:
        if _loop is None or _loop.is_closed():
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_serve, args=(_loop,), name="ragc-loop", daemon=True).start()
        return _loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()


def inside() -> bool:
    """Whether the caller already runs on the process's loop."""
    try:
        return asyncio.get_running_loop() is _loop
    except RuntimeError:
        return False


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` on the loop and wait for its result; an interrupt cancels it.

    Raises RuntimeError when called from the loop itself, which would wait for ever.
    """
    if inside():
        work.close()
        raise RuntimeError(
            "ragc.loop.run was called on the loop it would wait for; await the coroutine instead"
        )
    future = asyncio.run_coroutine_threadsafe(work, get())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


async def bridge(work: Coroutine[Any, Any, T]) -> T:
    """Await `work` on the process's loop, from whichever loop the caller is on."""
    if inside():
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, get()))
