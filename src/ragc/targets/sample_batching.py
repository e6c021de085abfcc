"""Several draws of one prompt, sent as one request.

A server that can draw n samples reads the prompt once for all of them. Nobody has to ask for a group: draws
that are asked for together travel together, and each is answered, stored and counted by itself. The server
draws sample i of a group with the seed of the group plus i, which is the seed that the draw has alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import asdict, replace

from ragc.core.digest import canonical
from ragc.targets.base import ChatRequest, Reply
from ragc.targets.openai_wire import sample_seed

Send = Callable[[ChatRequest, int], Awaitable[Sequence[Reply]]]
"""Sends a request and gives back this many draws of it, the first with the request's own number."""

_TURNS = 8
"""Turns of the loop that a draw waits for others of its kind: what lies between equal calls and a target."""

_Waiting = list[tuple[ChatRequest, "asyncio.Future[Reply]"]]


class SampleBatcher:
    """Sends what is asked for together by `send`, in groups of at most `most`; one event loop at a time."""

    def __init__(self, send: Send, *, most: int = 64) -> None:
        self._send, self._most = send, most
        self._waiting: dict[str, _Waiting] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def reply(self, request: ChatRequest) -> Reply:
        """The reply to one draw; raises what the request that carried it raised."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # what waited on another loop will not be asked for
            self._loop, self._waiting = loop, {}
        future: asyncio.Future[Reply] = loop.create_future()
        kind = canonical(asdict(replace(request, sample=0)))  # what its draws have in common
        waiting = self._waiting.setdefault(kind, [])
        waiting.append((request, future))
        if len(waiting) == 1:
            self._keep(asyncio.ensure_future(self._gather(kind)))
        return await future

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _gather(self, kind: str) -> None:
        """Send what has come under `kind`, once the loop has gone round without bringing more."""
        seen = turns = 0
        while turns < _TURNS:
            now = len(self._waiting[kind])
            seen, turns = now, (turns + 1 if now == seen else 0)
            await asyncio.sleep(0)
        wanted = [one for one in self._waiting.pop(kind) if not one[1].done()]
        for group in _groups(wanted, self._most):
            self._keep(asyncio.ensure_future(self._answer(group)))

    async def _answer(self, group: _Waiting) -> None:
        """Give each draw of `group` its reply; the request is given up when nobody waits any more."""
        request_task = asyncio.ensure_future(self._send(group[0][0], len(group)))

        def cancel_if_abandoned(future: asyncio.Future[Reply]) -> None:
            if future.cancelled() and all(other.cancelled() for _, other in group):
                request_task.cancel()

        for _, future in group:
            future.add_done_callback(cancel_if_abandoned)
        await asyncio.wait([request_task])
        error = None if request_task.cancelled() else request_task.exception()
        for at, (_, future) in enumerate(group):
            if future.done():
                continue
            if request_task.cancelled():
                future.cancel()
            elif error is not None:
                future.set_exception(error)
            else:
                future.set_result(request_task.result()[at])


def _groups(wanted: _Waiting, most: int) -> Iterator[_Waiting]:
    """`wanted` in the order of their seeds, cut where one is missing, twice there, or `most` are reached."""
    group: _Waiting = []
    for one in sorted(wanted, key=lambda one: sample_seed(one[0])):
        if group and (len(group) == most or sample_seed(one[0]) != sample_seed(group[-1][0]) + 1):
            yield group
            group = []
        group.append(one)
    if group:
        yield group
