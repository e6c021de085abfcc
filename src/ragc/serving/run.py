"""The process of a server: its socket, its signals, and its end."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

import uvicorn

from ragc.compiled.access import Access
from ragc.core import event_loop
from ragc.errors import UsageError
from ragc.serving.app import build_app
from ragc.serving.programs import ServedProgram, open_programs
from ragc.serving.settings import Settings
from ragc.targets.base import Target

HEADER_BYTES = 32 << 10
"""Bytes of the headers of a request, at most."""


class Server(uvicorn.Server):
    """A server that SIGTERM and SIGINT end as it should: without a status of an error.

    `listening` is called with the address once connections are accepted.
    """

    def __init__(self, config: uvicorn.Config, listening: Callable[[str], object]) -> None:
        super().__init__(config)
        self._listening = listening

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As the base class, which would raise the signals again at the end."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {one: signal.signal(one, self._stop) for one in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        """Stops after the requests in flight; at a second interrupt at once."""
        self.force_exit = self.should_exit and number == signal.SIGINT
        self.should_exit = True

    async def startup(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        """As the base class, and says where it listens."""
        await super().startup(sockets)  # type: ignore[arg-type]
        if self.started and self.servers:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            self._listening(f"http://{f'[{host}]' if ':' in host else host}:{port}")


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
    where the address is taken, and what `open_programs` raises.
    """
    programs = open_programs(paths, settings, sets=sets, access=access, targets=targets)
    try:
        _run(programs, settings, listening)
    finally:
        for served in programs.values():
            served.opened.close()


def _run(
    programs: Mapping[str, ServedProgram], settings: Settings, listening: Callable[[str], object]
) -> None:
    config = uvicorn.Config(
        build_app(programs, settings),
        host=settings.host,
        port=settings.port,
        http="h11",
        ws="none",
        log_level="warning",
        access_log=False,  # the address of a request may hold what was asked
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=HEADER_BYTES,
        timeout_graceful_shutdown=max(1, int(settings.time_out)),
    )
    server = Server(config, listening)
    with event_loop.frozen_gc():
        try:
            server.run()
        except SystemExit:  # uvicorn's, after it has said why it cannot listen
            raise UsageError(
                f"The server cannot listen on {settings.host}, port {settings.port}; "
                "another program may have it: choose another --port, or end that program."
            ) from None
