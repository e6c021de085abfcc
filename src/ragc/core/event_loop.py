"""The one event loop of a process. HTTP clients, limits and requests in flight belong to it.

Synchronous callers submit a coroutine and wait. Callers on another loop await without blocking theirs.
Context variables are copied to the loop, so DSPy's settings of the calling thread apply. While many questions
are answered on it, `frozen_gc` keeps the garbage collector from stopping it for long.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import inspect
import signal
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol, TypeVar
from weakref import WeakSet, finalize

T = TypeVar("T")

PATIENCE_S = 5.0
"""Seconds that the process waits at exit for connections to close."""

GC_THRESHOLD = 20_000
"""Allocations between two garbage collections in `frozen_gc`; Python's default is 700."""

_MOMENT_S = 0.05


class Closable(Protocol):
    """An object that holds connections."""

    async def aclose(self) -> None:
        """Closes the connections; a later use opens new ones."""
        ...


_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_thread: threading.Thread | None = None
_holders: WeakSet[Closable] = WeakSet()
_orphans: deque[Callable[[], Awaitable[object]]] = deque()
_closing: set[asyncio.Task[None]] = set()
_interrupts: list[asyncio.TimerHandle] = []

_gc_lock = threading.Lock()
_gc_depth = 0
_gc_usual = (0, 0, 0)
_gc_is_ours = False


def get() -> asyncio.AbstractEventLoop:
    """Returns the process's loop. The first call starts it in a daemon thread."""
    global _loop, _thread  # noqa: PLW0603 - one loop a process is the point
    with _lock:
        if _loop is None or _loop.is_closed():
            if _loop is None:
                atexit.register(release)
            _loop = _closing_coroutines(asyncio.new_event_loop())
            _thread = threading.Thread(target=_serve, args=(_loop,), name="ragc-loop", daemon=True)
            _thread.start()
        return _loop


def _closing_coroutines(loop: asyncio.AbstractEventLoop) -> asyncio.AbstractEventLoop:
    """Returns `loop`, made to close a coroutine from a thread whose request was cancelled meanwhile.

    LiteLLM makes the coroutine of a request in a thread. It is never awaited if the request is cancelled, as
    after a spent budget, and Python would warn of it.
    """
    plain = loop.run_in_executor

    def run_in_executor(executor: Any, function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        results, futures = list[Any](), list[asyncio.Future[Any]]()

        def close() -> None:
            if futures and futures[0].cancelled() and results and inspect.iscoroutine(results[0]):
                results[0].close()

        def call() -> Any:
            results.append(function(*args))
            close()
            return results[0]

        future: asyncio.Future[Any] = plain(executor, call)
        futures.append(future)
        future.add_done_callback(lambda _: close())
        return future

    setattr(loop, "run_in_executor", run_in_executor)  # noqa: B010 - a method cannot be assigned
    return loop


def closes(holder: Closable) -> None:
    """Registers `holder`, so that `release` closes its connections. Holds only a weak reference."""
    _holders.add(holder)


def closes_after(owner: object, close: Callable[[], Awaitable[object]]) -> Callable[[], object]:
    """Awaits `close`, which closes connections on the process's loop, when `owner` is garbage-collected.

    `owner` may be part of a cycle, which is collected at any time and on any thread. `close` must not refer
    to it. The returned function undoes the registration.
    """
    finalizer = finalize(owner, _orphan, close)
    finalizer.atexit = False  # `release` ran before, and the loop may be gone
    return finalizer.detach


def _orphan(close: Callable[[], Awaitable[object]]) -> None:
    _orphans.append(close)
    with suppress(RuntimeError, AttributeError):  # without a loop, no connection is open
        _loop.call_soon_threadsafe(_begin_closing)  # type: ignore[union-attr]


def _begin_closing() -> None:
    task = asyncio.get_running_loop().create_task(_close_orphans())
    _closing.add(task)
    task.add_done_callback(_closing.discard)


async def _close_orphans() -> None:
    while _orphans:
        with suppress(Exception):
            await _orphans.popleft()()


def interrupt_again() -> None:
    """Interrupts the main thread shortly, unless `release` runs first.

    For an interrupt that was lost in a destructor, where Python discards exceptions. It takes no lock.
    """
    with suppress(RuntimeError, AttributeError):
        _loop.call_soon_threadsafe(_interrupt_soon)  # type: ignore[union-attr]


def _interrupt_soon() -> None:
    _interrupts.append(asyncio.get_running_loop().call_later(_MOMENT_S, _interrupt))


def _interrupt() -> None:
    # A signal wakes the main thread from a wait; `interrupt_main` would not.
    if main := threading.main_thread().ident:
        signal.pthread_kill(main, signal.SIGINT)


def release(patience_s: float = PATIENCE_S) -> None:
    """Cancels the requests in flight on the process's loop and closes all connections.

    The loop keeps running. Called at the end of a command and of the process, however it ends. An interrupt,
    or `patience_s` seconds, cut it short.
    """
    loop, thread = _loop, _thread
    if loop is None or loop.is_closed() or thread is None or not thread.is_alive() or is_on_loop():
        return
    with suppress(Exception, KeyboardInterrupt):
        asyncio.run_coroutine_threadsafe(_release(), loop).result(patience_s)


async def _release() -> None:
    while _interrupts:
        _interrupts.pop().cancel()
    flying = asyncio.all_tasks() - {asyncio.current_task()}
    for task in flying:
        task.cancel()
    if flying:
        await asyncio.wait(flying, timeout=PATIENCE_S / 2)
    for holder in list(_holders):
        with suppress(Exception):
            await holder.aclose()
    await _close_orphans()
    await asyncio.sleep(0)  # transports close in the next iteration of the loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()


def is_on_loop() -> bool:
    """Returns whether the caller already runs on the process's loop."""
    try:
        return asyncio.get_running_loop() is _loop
    except RuntimeError:
        return False


def run(work: Coroutine[Any, Any, T]) -> T:
    """Runs `work` on the loop and waits for its result; an interrupt cancels it.

    Raises RuntimeError when called on the loop itself, where it would deadlock.
    """
    if is_on_loop():
        work.close()
        raise RuntimeError(
            "ragc.core.event_loop.run was called on the loop it would wait for; await the coroutine instead"
        )
    future = asyncio.run_coroutine_threadsafe(work, get())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


async def on_loop(work: Coroutine[Any, Any, T]) -> T:
    """Awaits `work` on the process's loop, from whichever loop the caller is on."""
    if is_on_loop():
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, get()))


async def gather_or_cancel(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Awaits all of `work` at once and returns the results in its order.

    The first error, or the caller's cancellation, cancels the rest; it is raised when they have ended.
    """
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


@contextmanager
def frozen_gc() -> Iterator[None]:
    """Freezes existing objects (libraries, corpora, indexes) inside the block.

    The garbage collector would otherwise scan them every few hundred questions. Thread-safe and reentrant:
    the last thread to leave restores the previous state.
    """
    global _gc_depth, _gc_usual, _gc_is_ours  # noqa: PLW0603 - a process has one collector
    with _gc_lock:
        if not _gc_depth:
            _gc_usual = gc.get_threshold()
            if _gc_usual[0]:  # the caller may have switched the collector off
                gc.set_threshold(max(GC_THRESHOLD, _gc_usual[0]), *_gc_usual[1:])
            _gc_is_ours = not gc.get_freeze_count()  # a heap frozen by the caller stays frozen
        _gc_depth += 1
        if _gc_is_ours:
            gc.freeze()
    try:
        yield
    finally:
        with _gc_lock:
            _gc_depth -= 1
            if not _gc_depth:
                gc.set_threshold(*_gc_usual)
                if _gc_is_ours:
                    gc.unfreeze()
