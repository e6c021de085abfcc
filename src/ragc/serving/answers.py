"""One answer: its work on the process's loop, its events, and its end when the client leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import anyio
import dspy
from dspy.streaming import StreamListener, StreamResponse
from starlette.types import Scope

from ragc.compiled.opened import OpenProgram, answer_question
from ragc.core import event_loop
from ragc.core.counters import Counters, counting
from ragc.programs import trace
from ragc.programs.calls.predict import RagPredict
from ragc.programs.calls.standalone import standalone
from ragc.programs.calls.streaming import CallerStream
from ragc.serving.connection import CONNECTION
from ragc.serving.conversation import Conversation
from ragc.serving.errors import ApiError
from ragc.serving.programs import ServedProgram
from ragc.task.answering import Row

T = TypeVar("T")

BUFFER = 256
"""Pieces that wait for a client that reads slowly, before further ones queue up behind them."""

_DONE = object()


class ClientLeft(Exception):
    """The client closed the connection before its answer was complete."""


@dataclass(frozen=True, slots=True)
class Text:
    """A further part of the answer's text, as the model wrote it."""

    text: str


@dataclass(frozen=True, slots=True)
class StepEvent:
    """A search, call or decision of the program."""

    event: trace.Event


async def answer_whole(served: ServedProgram, conversation: Conversation, time_out: float) -> Row:
    """Returns the answer within `time_out` seconds. Raises ApiError where no reply could be read."""
    async with asyncio.timeout(time_out):
        with dspy.context(disable_history=True):
            work = answer_conversation(served.opened, served.rewriter, conversation)
            return _readable(await event_loop.on_loop(work))


def _readable(row: Row) -> Row:
    if row.prediction is None:
        raise ApiError(502, f"The question has no answer: {row.failure}", code="unreadable_reply")
    return row


class Answering:
    """One streamed answer. `start` begins it, `next` gives what came, `close` ends it in any case."""

    def __init__(self, served: ServedProgram, conversation: Conversation, time_out: float) -> None:
        self.served, self.conversation, self._time_out = served, conversation, time_out
        self._send, self._receive = anyio.create_memory_object_stream[Any](BUFFER)
        self._work: asyncio.Task[Row] | None = None

    def start(self) -> None:
        """Begins to answer."""
        self._work = asyncio.create_task(self._answer())

    async def _answer(self) -> Row:
        caller = CallerStream(self._send, asyncio.get_running_loop())
        conversation = self.conversation
        settings: dict[str, Any] = {"disable_history": True}
        if not conversation.late and self.served.streamed:
            listeners = [StreamListener("answer", predict=call) for call in self.served.streamed]
            settings |= {"send_stream": caller, "stream_listeners": listeners}
        shown = trace.watching_events.set(
            (lambda event: caller.post(StepEvent(event))) if conversation.steps else None
        )
        try:
            async with asyncio.timeout(self._time_out):
                with dspy.context(**settings):
                    work = answer_conversation(self.served.opened, self.served.rewriter, conversation)
                    return _readable(await event_loop.on_loop(work))
        finally:
            trace.watching_events.reset(shown)
            caller.post(_DONE)  # after all that was posted from the process's loop

    async def next(self) -> Text | StepEvent | Row:
        """Returns the next piece, at last the Row. Raises the error that ended the work."""
        while (item := await self._receive.receive()) is not _DONE:
            if isinstance(item, StepEvent):
                return item
            if isinstance(item, StreamResponse) and item.chunk:
                return Text(item.chunk)
        if self._work is None:
            raise RuntimeError("the answer was not started")
        return await self._work

    def close(self) -> None:
        """Cancels the work, unless it is done, and frees its resources."""
        if self._work is not None:
            self._work.cancel()
            self._work.add_done_callback(_retrieve)
        self._receive.close()
        self._send.close()


def _retrieve(work: asyncio.Task[Any]) -> None:
    if not work.cancelled():
        work.exception()  # else the loop would log one that nobody waits for any more


async def unless_left(work: Coroutine[Any, Any, T], scope: Scope) -> T:
    """Awaits `work`. Raises ClientLeft, and cancels it, when the client of `scope` closes the connection."""
    connection, asking, left = scope["state"][CONNECTION], asyncio.current_task(), False
    if connection.is_lost:
        work.close()
        raise ClientLeft

    def leave() -> None:
        nonlocal left
        left = True
        if asking is not None:
            asking.cancel()

    connection.watch(leave)
    try:
        return await work
    except asyncio.CancelledError:
        if not left or (asking is not None and asking.uncancel()):
            raise
        raise ClientLeft from None
    finally:
        connection.unwatch(leave)


async def answer_conversation(
    opened: OpenProgram, rewriter: RagPredict | None, conversation: Conversation
) -> Row:
    """Returns the answer to the last turn, on the process's loop.

    Where `conversation` has earlier turns and there is a `rewriter`, the row has the rewritten question, and
    its trace and counters include the call that rewrote it. Raises ParseFailure where the reply to it cannot
    be read.
    """
    if not conversation.earlier or rewriter is None:
        return await answer_question(opened, conversation.question)
    await opened.task.runtime.ready()
    with trace.recording() as run, counting(Counters()) as cost:
        question = await standalone(rewriter, conversation.earlier, conversation.question)
    row = await answer_question(opened, question)
    spent = {**cost.to_json(), "tokens": cost.tokens}
    both = {name: spent.get(name, 0) + row.counters.get(name, 0) for name in {**spent, **row.counters}}
    return replace(row, counters=both, trace=(*run.events, *row.trace))
