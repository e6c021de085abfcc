"""Several processes that serve one address: `ragc serve --workers`.

    parent   opens the programs once to say what is wrong, listens, starts the workers and replaces dead ones
    worker   python -P -m ragc.serving.workers; its order comes on stdin, the socket is inherited

Workers share the socket, the call store, and a folder of Prometheus's client where their
counters are summed up. A worker ends when its parent does.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Any

from prometheus_client.multiprocess import mark_process_dead

from ragc.compiled.access import Access
from ragc.core import children, event_loop
from ragc.errors import RagcError
from ragc.serving.app import build_app
from ragc.serving.metrics import WORKERS_ENV
from ragc.serving.programs import open_programs
from ragc.serving.run import Server, address_of, handling_signals, listen
from ragc.serving.settings import Settings

LOOK_S = 0.1
"""Seconds between two looks at the workers."""

EARLY_S, EARLY_DEATHS = 5.0, 5
"""A worker that ends within so many seconds died early; after so many in a row the server gives up."""

PATIENCE_S = 10.0
"""Seconds beyond the time of an answer that a worker may take to end."""


def serve_in_workers(
    paths: Sequence[str | Path],
    settings: Settings,
    *,
    sets: Sequence[str],
    access: Access,
    listening: Callable[[str], object],
) -> None:
    """Serves the compiled programs in `paths` in `settings.workers` processes until SIGTERM or SIGINT.

    Raises UsageError where the address is taken, what `open_programs` raises, and RagcError where workers
    die again and again.
    """
    for served in open_programs(paths, settings, sets=sets, access=access).values():
        served.close()
    values = {**asdict(settings), "key_digests": [digest.hex() for digest in settings.key_digests]}
    order = {
        "paths": [str(Path(path).resolve()) for path in paths],
        "settings": values,
        "sets": list(sets),
        "folder": str(Path.cwd()),
        "access": {**asdict(access), "base": None if access.base is None else str(access.base)},
    }
    with listen(settings) as listener, tempfile.TemporaryDirectory(prefix="ragc-serve-") as folder:
        _Workers(listener, order, folder, settings).run(lambda: listening(address_of(listener)))


class _Workers:
    """The workers of a server, as their parent sees them."""

    def __init__(
        self, listener: socket.socket, order: dict[str, Any], folder: str, settings: Settings
    ) -> None:
        self._listener, self._order, self._folder, self._settings = listener, order, folder, settings
        self._running: dict[subprocess.Popen[str], float] = {}
        self._early = 0
        self._ending = self._at_once = False

    def run(self, begun: Callable[[], object]) -> None:
        """Runs them until a signal; `begun` is called once they are started."""
        with handling_signals(self._stop):
            try:
                for _ in range(self._settings.workers):
                    self._start()
                begun()
                while not self._ending:
                    self._replace_dead()
                    time.sleep(LOOK_S)
            finally:
                self._end()

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._at_once = self._ending and number == signal.SIGINT
        self._ending = True

    def _start(self) -> None:
        number = self._listener.fileno()
        worker = subprocess.Popen(
            children.command("-m", "ragc.serving.workers"),
            stdin=subprocess.PIPE,
            text=True,
            pass_fds=(number,),
            **children.surroundings(**{WORKERS_ENV: self._folder}),
        )
        self._running[worker] = time.monotonic()
        if worker.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # it is dead already, which is seen soon
                worker.stdin.write(json.dumps({**self._order, "listener": number}) + "\n")
                worker.stdin.flush()

    def _replace_dead(self) -> None:
        for worker in [one for one in self._running if one.poll() is not None]:
            lived = time.monotonic() - self._running.pop(worker)
            mark_process_dead(worker.pid, self._folder)  # type: ignore[no-untyped-call]
            self._early = self._early + 1 if lived < EARLY_S else 0
            if self._early >= EARLY_DEATHS:
                raise RagcError(
                    f"{EARLY_DEATHS} workers ended soon after their start, the last with status "
                    f"{worker.returncode}; see what they wrote above, or serve with --workers 1."
                )
            self._start()

    def _end(self) -> None:
        """Ends the workers after their requests in flight; at once after a second interrupt."""
        for worker in self._running:
            worker.terminate()
        end = time.monotonic() + self._settings.time_out + PATIENCE_S
        while any(worker.poll() is None for worker in self._running) and time.monotonic() < end:
            if self._at_once:
                break
            time.sleep(LOOK_S)
        for worker in self._running:
            if worker.poll() is None:
                worker.kill()
            worker.wait()
            if worker.stdin is not None:
                worker.stdin.close()


def main() -> None:
    """Serves as one worker, whose order is the first line of stdin."""
    order = json.loads(sys.stdin.readline())
    os.chdir(order["folder"])
    values = order["settings"]
    digests = tuple(bytes.fromhex(digest) for digest in values.pop("key_digests"))
    settings = Settings.of(**values, key_digests=digests)
    access = Access(**order["access"])
    programs = open_programs(order["paths"], settings, sets=order["sets"], access=access)
    try:
        server = Server(
            build_app(programs, settings), settings, listener=socket.socket(fileno=order["listener"])
        )

        def end_with_parent() -> None:
            sys.stdin.read()
            server.should_exit = True

        threading.Thread(target=end_with_parent, daemon=True).start()
        with event_loop.frozen_gc():
            server.run()
    finally:
        for served in programs.values():
            served.close()


if __name__ == "__main__":
    main()
