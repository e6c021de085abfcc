"""The call store: what was asked and answered once is never asked again.

Keys are SHA-256 digests, values JSON texts; nothing is ever pickled. diskcache keeps the rows in
SQLite, safe across processes and across a kill. Failures are not stored.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import diskcache

from ragc.errors import StoreError

_KEEP_IN_SQLITE = 2**30


class _JsonDisk(diskcache.Disk):  # type: ignore[misc]
    """diskcache's row format, restricted to text keys and text values.

    diskcache's own JSONDisk still unpickles rows of one mode; this one refuses them.
    """

    def put(self, key: Any) -> tuple[Any, bool]:
        if not isinstance(key, str):
            raise TypeError(f"store keys are text, found {type(key).__name__}")
        return key, True

    def get(self, key: Any, raw: bool) -> str:
        if not raw or not isinstance(key, str):
            raise StoreError("a key of the call store is not text; the row is refused")
        return key

    def store(self, value: Any, read: bool, key: Any = diskcache.UNKNOWN) -> Any:
        if read or not isinstance(value, str):
            raise TypeError(f"store values are JSON text, found {type(value).__name__}")
        return super().store(value, read, key)

    def fetch(self, mode: int, filename: Any, value: Any, read: bool) -> str | None:
        if mode != diskcache.core.MODE_RAW or read or not isinstance(value, str):
            return None
        return value


class CallStore:
    """JSON texts by digest, in memory and on disk, with single flight.

    `directory` None keeps everything in memory. `memory` bounds the entries held in memory.
    """

    def __init__(self, directory: Path | None, *, memory: int = 20_000) -> None:
        self.directory = directory
        self._limit = memory
        self._memory: dict[str, str] = {}
        self._flying: dict[str, asyncio.Task[str]] = {}
        self._disk: Any = None
        if directory is not None:
            try:
                directory.mkdir(parents=True, exist_ok=True)
                self._disk = diskcache.Cache(
                    str(directory),
                    disk=_JsonDisk,
                    disk_min_file_size=_KEEP_IN_SQLITE,
                    eviction_policy="none",
                    cull_limit=0,
                    size_limit=2**50,
                    timeout=60,
                )
            except (OSError, sqlite3.Error, diskcache.Timeout) as error:
                raise StoreError(
                    f"The call store at {directory} cannot be opened ({error}); free space, check its "
                    "permissions, or set RAGC_HOME to another folder."
                ) from error

    def __deepcopy__(self, memo: object) -> CallStore:
        return self

    def get(self, key: str) -> str | None:
        """The text kept under `key`, or None. A row that is not plain text counts as absent."""
        found = self._memory.get(key)
        if found is None and self._disk is not None:
            try:
                found = self._disk.get(key, retry=True)
            except sqlite3.Error as error:
                raise StoreError(
                    f"The call store at {self.directory} cannot be read ({error}); move the folder away "
                    "to start a new one."
                ) from error
            if found is not None:
                self._remember(key, found)
        return found

    def put(self, key: str, text: str) -> None:
        """Keep `text` under `key`, on disk before it is handed out. Raises StoreError."""
        if self._disk is not None:
            try:
                self._disk.set(key, text, retry=True)
            except (OSError, sqlite3.Error) as error:
                raise StoreError(
                    f"The call store at {self.directory} could not keep a reply ({error}); free space "
                    "there or set RAGC_HOME to another folder. What was stored before is kept."
                ) from error
        self._remember(key, text)

    def _remember(self, key: str, text: str) -> None:
        self._memory[key] = text
        if len(self._memory) > self._limit:
            self._memory.pop(next(iter(self._memory)))

    async def fetch(self, key: str, call: Callable[[], Awaitable[str]]) -> tuple[str, bool]:
        """The text under `key`, made by `call` when absent, and whether it was replayed.

        Any number of callers at once make one call. It goes on when its callers are cancelled,
        so that a request once sent is kept.
        """
        found = self.get(key)
        if found is not None:
            return found, True
        task = self._flying.get(key)
        first = task is None
        if task is None:
            task = asyncio.ensure_future(self._make(key, call))
            self._flying[key] = task
            task.add_done_callback(lambda done: self._landed(key, done))
        return await asyncio.shield(task), not first

    async def _make(self, key: str, call: Callable[[], Awaitable[str]]) -> str:
        text = await call()
        self.put(key, text)
        return text

    def _landed(self, key: str, done: asyncio.Task[str]) -> None:
        self._flying.pop(key, None)
        if not done.cancelled():
            done.exception()  # every waiter may be gone; a failure is theirs, not the loop's, to report

    @property
    def flying(self) -> int:
        """How many calls are in flight now."""
        return len(self._flying)

    async def settle(self) -> None:
        """Wait until nothing is in flight."""
        while self._flying:
            await asyncio.wait(list(self._flying.values()))

    def close(self) -> None:
        """Close the files; the store can no longer be used."""
        if self._disk is not None:
            self._disk.close()
