"""Assigns requests to llama.cpp's slots, so that a long beginning of prompts is computed once for all.

llama.cpp continues each slot from what its new prompt shares with its last one. What a slot holds after
the first prompt with a long beginning (instructions and demonstrations) is written to a file, which other
slots and later processes read in milliseconds instead of computing seconds. A file that was cut short is
computed again, and whatever a file holds, llama.cpp compares its tokens with the prompt.
Three beginnings of 700 words were 1.75 times as fast (`experiments/RESULTS.md`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ragc.core.digest import digest

LONG = 1000
"""Characters of a beginning, about 250 tokens, from which its state is written."""

MOST_BYTES = 1 << 30
"""All states together; the oldest are deleted first. SmolLM2 takes 23 KB a token."""


class Slots:
    """`count` slots, taken by threads; `act` saves or restores a slot by a file's name in `folder`.

    `engine` is all that states depend on beside the tokens.
    """

    def __init__(self, count: int, folder: Path, engine: Any, act: Callable[[int, str, str], bool]) -> None:
        self._folder, self._engine, self._act = folder, engine, act
        self._free: list[int] = list(range(count))  # least recently used first
        self._held: dict[int, str] = {}  # the beginning that each slot has
        self._first: set[str] = set()  # states that are computed now
        self._changed = threading.Condition()

    @contextmanager
    def take(self, beginning: str) -> Iterator[int]:
        """Holds a slot for a prompt with this `beginning`, which it holds already if any slot computed it."""
        name = f"{digest([self._engine, beginning])[:32]}.state" if len(beginning) >= LONG else ""
        with self._changed:
            self._changed.wait_for(lambda: self._free and name not in self._first)
            slot = next(
                (free for free in reversed(self._free) if self._held.get(free) == beginning), self._free[0]
            )
            self._free.remove(slot)
            held = self._held.get(slot) == beginning
            if new := bool(name) and not held and not (self._folder / name).is_file():
                self._first.add(name)
        try:
            if name and not held and not new:
                new = not self._act(slot, "restore", name)  # damaged, or deleted just now
            self._held[slot] = beginning
            yield slot
            if new:
                self._save(slot, name)
        finally:
            with self._changed:
                self._first.discard(name)
                self._free.append(slot)
                self._changed.notify_all()

    def _save(self, slot: int, name: str) -> None:
        """Writes the state of `slot` under `name`, and deletes the oldest states."""
        self._act(slot, "save", name)
        total = 0
        with suppress(OSError):  # another process deletes too
            for path in sorted(self._folder.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True):
                total += path.stat().st_size
                if total > MOST_BYTES:
                    path.unlink()
