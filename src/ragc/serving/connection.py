"""Connections: what they refuse before a request is whole, and word of their end.

Writes of one turn of the loop are joined, so that the head of a response leaves together with its body.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

CONNECTION = "ragc.connection"
"""The entry of the state of a request's scope with its connection."""

HEADER_BYTES = 32 << 10
"""Bytes of a request that are no body, at most: of its head, and of what stands between and after parts."""

REQUEST_SECONDS = 30.0
"""Seconds in which a request must have arrived, and the first one of a connection have begun."""


class JoinedWrites:
    """The `transport` of a connection; what is written within one turn of the loop is sent at its end."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._waiting = bytearray()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Sends `data` shortly."""
        if data and not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting += data

    def _flush(self) -> None:
        if self._waiting:
            data, self._waiting = bytes(self._waiting), bytearray()
            self._transport.write(data)

    def close(self) -> None:
        """Closes the connection once all that was written is sent."""
        self._flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Connection(HttpToolsProtocol):
    """uvicorn's connection, with joined writes, limits of what a client may send and how slowly, and `watch`.

    A request finds its connection in the state of its scope.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See asyncio.Protocol."""
        super().connection_made(cast(asyncio.Transport, JoinedWrites(transport, self.loop)))
        self.app_state = {**self.app_state, CONNECTION: self}
        self._incomplete, self._no_body = True, 0
        self._watchers: list[Callable[[], None]] = []
        self._deadline: asyncio.TimerHandle | None = None
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        super().connection_lost(exc)
        self._complete()
        for leave in list(self._watchers):
            leave()

    def data_received(self, data: bytes) -> None:
        """Reads on; refuses a request whose head has no end."""
        self._no_body += len(data)
        super().data_received(data)
        if self._no_body > HEADER_BYTES and not self.transport.is_closing():
            self.send_400_response("The head of the request is too long.")
        if self._incomplete and self._deadline is None:
            self._expect()

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._incomplete = True

    def on_body(self, body: bytes) -> None:
        """A part of the body is there."""
        self._no_body = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is whole."""
        self._no_body = 0
        self._complete()
        super().on_message_complete()

    def _complete(self) -> None:
        self._incomplete = False
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _expect(self) -> None:
        self._deadline = self.loop.call_later(REQUEST_SECONDS, self._leave_slow_client)

    def _leave_slow_client(self) -> None:
        self._deadline = None
        cycle: RequestResponseCycle | None = self.cycle
        if self.transport.is_closing():
            return
        if cycle is not None and not cycle.more_body and not cycle.response_complete:
            self._expect()  # an earlier request is still being answered
        elif self._no_body or (cycle is not None and not cycle.response_started):
            self.send_400_response(f"The request was not whole after {REQUEST_SECONDS:.0f} seconds.")
        else:
            self.transport.close()

    def watch(self, leave: Callable[[], None]) -> None:
        """Calls `leave` when the connection is lost."""
        self._watchers.append(leave)

    def unwatch(self, leave: Callable[[], None]) -> None:
        """No longer calls `leave`."""
        self._watchers.remove(leave)

    @property
    def is_lost(self) -> bool:
        """Whether the client has left."""
        return bool(self.transport.is_closing())
