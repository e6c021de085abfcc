"""Combines concurrent requests that differ only in `sample` into one request with `n`.

A server that can draw n samples then reads the prompt once. Each sample is answered, stored and counted
separately. The server draws sample i of a group with the group's seed plus i, which is the sample's seed in a
separate request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import asdict, replace

from ragc.core.digest import canonical
from ragc.core.retry import Meter, meter
from ragc.errors import BudgetExhausted
from ragc.targets.base import ChatRequest, Reply
from ragc.targets.charges import together
from ragc.targets.openai_wire import sample_seed

Send = Callable[[ChatRequest, int], Awaitable[Sequence[Reply]]]
"""Sends a request and returns this many samples of it, the first with the request's own number."""

_TURNS = 8
"""Iterations of the event loop that a sample waits for equal requests to arrive."""

_Waiting = list[tuple[ChatRequest, "asyncio.Future[Reply]", Meter | None]]


class SampleBatcher:
    """Groups concurrent requests into at most `most` samples per call of `send`; one event loop at a time."""

    def __init__(self, send: Send, *, most: int = 64) -> None:
        self._send, self._most = send, most
        self._waiting: dict[str, _Waiting] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def reply(self, request: ChatRequest) -> Reply:
        """Returns the reply for one sample; raises the error of the request that carried it."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # the callers on a previous loop are gone
            self._loop, self._waiting = loop, {}
        future: asyncio.Future[Reply] = loop.create_future()
        kind = canonical(asdict(replace(request, sample=0)))  # the key of requests that may be grouped
        waiting = self._waiting.setdefault(kind, [])
        waiting.append((request, future, meter.get()))
        if len(waiting) == 1:
            self._keep(asyncio.ensure_future(self._gather(kind)))
        return await future

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _gather(self, kind: str) -> None:
        """Sends the requests collected under `kind`, once no more arrive for a few iterations of the loop."""
        seen = turns = 0
        while turns < _TURNS:
            now = len(self._waiting[kind])
            seen, turns = now, (turns + 1 if now == seen else 0)
            await asyncio.sleep(0)
        waiting = [one for one in self._waiting.pop(kind) if not one[1].done()]
        for group in _groups(waiting, self._most):
            self._keep(asyncio.ensure_future(self._answer(group)))

    async def _answer(self, group: _Waiting) -> None:
        """Resolves each future of `group`; cancels the request when all its callers are cancelled."""
        meter.set(together([counting for _, _, counting in group]))
        request_task = asyncio.ensure_future(self._send(group[0][0], len(group)))

        def cancel_if_abandoned(future: asyncio.Future[Reply]) -> None:
            if future.cancelled() and all(other.cancelled() for _, other, _ in group):
                request_task.cancel()

        for _, future, _ in group:
            future.add_done_callback(cancel_if_abandoned)
        await asyncio.wait([request_task])
        error = None if request_task.cancelled() else request_task.exception()
        if isinstance(error, BudgetExhausted) and len(group) > 1:
            # All together no longer fit; some of them may.
            await asyncio.gather(*(self._answer([one]) for one in group if not one[1].done()))
            return
        for at, (_, future, _) in enumerate(group):
            if future.done():
                continue
            if request_task.cancelled():
                future.cancel()
            elif error is not None:
                future.set_exception(error)
            else:
                future.set_result(request_task.result()[at])


def _groups(waiting: _Waiting, most: int) -> Iterator[_Waiting]:
    """Yields `waiting` in the order of seeds, split at gaps and duplicates, in groups of at most `most`."""
    group: _Waiting = []
    for one in sorted(waiting, key=lambda one: sample_seed(one[0])):
        if group and (len(group) == most or sample_seed(one[0]) != sample_seed(group[-1][0]) + 1):
            yield group
            group = []
        group.append(one)
    if group:
        yield group
