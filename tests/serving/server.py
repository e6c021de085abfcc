"""A real server in a thread, over a compiled program whose target is scripted."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragc.compiled.access import Access
from ragc.serving.app import build_app
from ragc.serving.programs import ServedProgram, open_programs
from ragc.serving.run import Server
from ragc.serving.settings import Settings
from ragc.targets.base import ChatRequest, Reply, Target, parts_taker
from ragc.testing import ScriptedTarget

KEY = "key-of-the-first-client"
OTHER = "key-of-another-client"


@dataclass
class Running:
    """A server that listens."""

    address: str
    programs: Mapping[str, ServedProgram]
    service: Any

    @property
    def v1(self) -> str:
        return f"{self.address}/v1"


class PartsTarget(ScriptedTarget):
    """Gives its replies in parts of `size` characters; after the first half it waits for `go`."""

    def __init__(self, script: Any, *, size: int = 4) -> None:
        super().__init__(script)
        self.size, self.go = size, threading.Event()
        self.cancelled = 0

    async def _held(self) -> None:
        for _ in range(4000):  # not in a thread: those that are held would leave none for other work
            if self.go.is_set():
                return
            await asyncio.sleep(0.005)
        raise AssertionError("nobody let the reply go on")

    async def complete(self, request: ChatRequest) -> Reply:
        reply, take = await super().complete(request), parts_taker.get()
        parts = [reply.text[at : at + self.size] for at in range(0, len(reply.text), self.size)]
        try:
            for number, part in enumerate(parts):
                if number * 4 >= len(parts) * 3:
                    await self._held()
                if take is not None:
                    take(part)
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return reply


@contextmanager
def running(
    paths: Sequence[Path], targets: Mapping[str, Target], settings: Settings | None = None, **more: Any
) -> Iterator[Running]:
    """Serves `paths` on a free port."""
    chosen = settings or Settings(port=0)
    more.setdefault("access", Access(base=paths[0].parent))
    programs = open_programs(paths, chosen, targets=targets, **more)
    app = build_app(programs, chosen)
    addresses: list[str] = []
    listening = threading.Event()

    def note(address: str) -> None:
        addresses.append(address)
        listening.set()

    server = Server(app, chosen, note)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        assert listening.wait(20)
        yield Running(addresses[0], programs, app.service)
    finally:
        server.should_exit = True
        thread.join(20)
        for served in programs.values():
            served.close()
    assert not thread.is_alive()


def until(holds: Callable[[], bool], seconds: float = 10) -> bool:
    """Whether `holds` becomes true in time."""
    waiting = threading.Event()
    for _ in range(int(seconds * 100)):
        if holds():
            return True
        waiting.wait(0.01)
    return holds()
