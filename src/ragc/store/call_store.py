"""The call store: stores every reply, so that no request is sent twice.

Keys are SHA-256 digests, values JSON texts. Nothing is pickled, and failures are not stored. Every row
carries a digest of its key and text; a damaged row is ignored and its request sent again. `disk` stores the
rows in files.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from ragc.core.files import cache_home
from ragc.store.disk import DiskRows

T = TypeVar("T")


class CallStore:
    """JSON texts by digest, in memory and on disk; concurrent requests for one key share one call.

    Without a `directory` they are in memory only. `memory` is the maximum number of entries in memory.
    """

    def __init__(self, directory: Path | None, *, memory: int = 10_000) -> None:
        self.directory = directory
        self._limit = memory
        self._memory: dict[str, str] = {}
        self._flying: dict[str, asyncio.Task[Any]] = {}
        self._disk = DiskRows(directory) if directory is not None else None

    def __deepcopy__(self, memo: object) -> CallStore:
        return self

    @property
    def where(self) -> str:
        """The location of the rows for users: a folder, or `memory`."""
        return "memory" if self.directory is None else str(self.directory)

    def get(self, key: str) -> str | None:
        """Returns the text under `key`, or None. A damaged row counts as absent."""
        text = self._memory.get(key)
        if text is None and self._disk is not None:
            text = self._disk.get(key)
            if text is not None:
                self._remember(key, text)
        return text

    def put(self, key: str, text: str) -> None:
        """Stores `text` under `key`, on disk first. Raises StoreError."""
        if self._disk is not None:
            self._disk.put(key, text)
        self._remember(key, text)

    def _remember(self, key: str, text: str) -> None:
        self._memory[key] = text
        if len(self._memory) > self._limit:
            self._memory.pop(next(iter(self._memory)))

    async def read(self, key: str) -> str | None:
        """Returns the text under `key` on disk, for callers that cache the parsed value themselves.

        None without a directory. Must be awaited on the process's loop.
        """
        return None if self._disk is None else self._disk.get(key)

    async def write(self, key: str, text: str) -> None:
        """Stores `text` on disk only; without a directory this does nothing.

        Must be awaited on the process's loop.
        """
        if self._disk is not None:
            await self._disk.aput(key, text)

    async def get_or_call(
        self, key: str, call: Callable[[], Awaitable[str]], fits: Callable[[str], bool] = lambda text: True
    ) -> tuple[str, bool]:
        """As `get_or_make`, for a value that is text; stored text for which `fits` is False is as absent."""
        return await self.get_or_make(key, call, lambda text: text if fits(text) else None, str)

    async def get_or_make(
        self,
        key: str,
        make: Callable[[], Awaitable[T]],
        read: Callable[[str], T | None],
        write: Callable[[T], str],
    ) -> tuple[T, bool]:
        """Returns the value under `key`, made by `make` when absent, and whether it was replayed.

        `write` gives the text of a new value and `read` the value of a stored text; None, such as for text
        that does not fit, counts as absent. Concurrent callers share one call and its value. The call
        continues when its callers are cancelled, so that the reply to a request already sent is stored. Must
        be awaited on the process's loop.
        """
        stored = self.get(key)
        if stored is not None and (known := read(stored)) is not None:
            return known, True
        task = self._flying.get(key)
        first = task is None
        if task is None:
            task = asyncio.ensure_future(self._make(key, make, write))
            self._flying[key] = task
            task.add_done_callback(lambda done: self._on_call_done(key, done))
        return await asyncio.shield(task), not first

    async def _make(self, key: str, make: Callable[[], Awaitable[T]], write: Callable[[T], str]) -> T:
        """Returns the value that `make` gives, and stores it."""
        value = await make()
        text = write(value)
        await self.write(key, text)
        self._remember(key, text)
        return value

    def _on_call_done(self, key: str, done: asyncio.Task[Any]) -> None:
        self._flying.pop(key, None)
        if not done.cancelled():
            done.exception()  # with every waiter gone, the loop would log an exception that nobody retrieved

    @property
    def flying(self) -> int:
        """The number of calls in flight."""
        return len(self._flying)

    async def settle(self) -> None:
        """Waits until no call is in flight."""
        while self._flying:
            await asyncio.wait(list(self._flying.values()))

    def check(self) -> None:
        """Raises StoreError for a damaged database."""
        if self._disk is not None:
            self._disk.check()

    def close(self) -> None:
        """Closes the files; the store can no longer be used."""
        if self._disk is not None:
            self._disk.close()


def open_store() -> CallStore:
    """Opens the user's call store. Raises StoreError if it cannot be opened."""
    return CallStore(cache_home() / "store")
