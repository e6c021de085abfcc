"""Connections, which tell when their client has left.

Writes of one turn of the loop are joined, so that the head of a response leaves together with its body.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

CONNECTION = "ragc.connection"
"""The entry of the state of a request's scope with its connection."""


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
    """uvicorn's connection, with joined writes and `watch`.

    A request finds its connection in the state of its scope.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See asyncio.Protocol."""
        super().connection_made(cast(asyncio.Transport, JoinedWrites(transport, self.loop)))
        self.app_state = {**self.app_state, CONNECTION: self}
        self._watchers: list[Callable[[], None]] = []

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        super().connection_lost(exc)
        for leave in list(self._watchers):
            leave()

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
