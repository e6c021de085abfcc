"""The process of a server: its socket, its signals, and its end."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp

from ragc.compiled.access import Access
from ragc.core import event_loop
from ragc.errors import UsageError
from ragc.serving.app import build_app
from ragc.serving.connection import Connection
from ragc.serving.programs import open_programs
from ragc.serving.settings import Settings
from ragc.targets.base import Target

BACKLOG = 2048
"""Connections that wait to be accepted, at most."""


class Server(uvicorn.Server):
    """One process's server of `app`. It runs on the process's loop, where questions are answered too.

    So a request passes no other thread. `listening` is called with the address once connections are
    accepted. `listener` is a socket that listens already, by default a new one.
    """

    def __init__(
        self,
        app: ASGIApp,
        settings: Settings,
        listening: Callable[[str], object] = lambda address: None,
        listener: socket.socket | None = None,
    ) -> None:
        config = uvicorn.Config(
            cast(Any, app),
            http=Connection,
            ws="none",
            log_level="warning",
            access_log=False,  # the address of a request may hold what was asked
            server_header=False,
            proxy_headers=False,
            reset_contextvars=True,  # else a request may begin with the key of an earlier one
            timeout_graceful_shutdown=max(1, int(settings.time_out)),
        )
        super().__init__(config)
        self._listening, self._listener = listening, listener or listen(settings)

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serves until it is stopped: by `should_exit`, or in the main thread by SIGTERM or SIGINT."""
        is_main = threading.current_thread() is threading.main_thread()
        with handling_signals(self._stop) if is_main else contextlib.nullcontext():
            event_loop.run(self.serve(sockets or [self._listener]))

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As the base class, which would handle signals on the loop's thread, where none arrive."""
        yield

    def _stop(self, number: int, frame: FrameType | None) -> None:
        """Stops after the requests in flight; at a second interrupt at once."""
        self.force_exit = self.should_exit and number == signal.SIGINT
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts as the base class does, and says where it listens."""
        await super().startup(sockets)
        if self.started:
            self._listening(address_of(self._listener))


@contextlib.contextmanager
def handling_signals(stop: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Gives SIGTERM and SIGINT to `stop`, so that a process does not end with the status of an error."""
    before = {one: signal.signal(one, stop) for one in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def listen(settings: Settings) -> socket.socket:
    """Returns a socket that listens where `settings` say. Raises UsageError where that is not possible."""
    host, port = settings.host.strip("[]"), settings.port
    try:
        family, _, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # asyncio switches Nagle's algorithm off only where the protocol is named, as create_server does not.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(where)
            listener.listen(BACKLOG)
        except OSError:
            listener.close()
            raise
        return listener
    except OSError as error:
        raise UsageError(
            f"The server cannot listen on {host}, port {port} ({error.strerror or error}); another program "
            "may have it: choose another --port, or end that program."
        ) from None


def address_of(listener: socket.socket) -> str:
    """Returns the address of the server that listens on `listener`."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def serve(
    paths: Sequence[str | Path],
    settings: Settings,
    *,
    sets: Sequence[str] = (),
    access: Access = Access(),
    targets: Mapping[str, Target] | None = None,
    listening: Callable[[str], object] = lambda address: None,
) -> None:
    """Serves the compiled programs in `paths` until SIGTERM or SIGINT.

    `listening` is called with the server's address. `targets` replace those of the recipes. Raises UsageError
    if the address is in use, and what `open_programs` raises.
    """
    programs = open_programs(paths, settings, sets=sets, access=access, targets=targets)
    try:
        app = build_app(programs, settings)
        with event_loop.frozen_gc():
            Server(app, settings, listening).run()
    finally:
        for served in programs.values():
            served.close()
