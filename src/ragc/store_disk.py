"""The call store's rows on one machine: SQLite by way of diskcache, safe across processes and a kill.

Keys and values are texts; nothing is ever pickled.
"""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import AbstractAsyncContextManager, nullcontext
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


class DiskKeeper:
    """Rows in the folder `directory`, which is made. Raises StoreError when it cannot be opened."""

    near = True

    def __init__(self, directory: Path) -> None:
        self.where = str(directory)
        self.remedy = "move the folder away to start a new one"
        self._waiting: list[tuple[str, str, asyncio.Future[None]]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._rows = diskcache.Cache(
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

    def get(self, key: str) -> str | None:
        """The text under `key`, or None; a row that is not plain text counts as absent."""
        try:
            found: str | None = self._rows.get(key, retry=True)
        except sqlite3.Error as error:
            raise StoreError(
                f"The call store at {self.where} cannot be read ({error}); {self.remedy}."
            ) from error
        return found

    def put(self, key: str, text: str) -> None:
        """Keep `text` under `key`; it is on disk when this returns."""
        try:
            self._rows.set(key, text, retry=True)
        except (OSError, sqlite3.Error) as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> StoreError:
        return StoreError(
            f"The call store at {self.where} could not keep a reply ({error}); free space "
            "there or set RAGC_HOME to another folder. What was stored before is kept."
        )

    async def find(self, key: str) -> str | None:
        """As `get`: a row is read in microseconds."""
        return self.get(key)

    async def keep(self, key: str, text: str) -> None:
        """As `put`; what comes in the same turn of the loop is written in one transaction."""
        running = asyncio.get_running_loop()
        if self._loop is not running:  # nobody on a loop before it waits any more
            self._loop, self._waiting = running, []
        kept = running.create_future()
        self._waiting.append((key, text, kept))
        if len(self._waiting) == 1:
            running.call_soon(self._write)
        await kept

    def _write(self) -> None:
        """Write what waits, and tell those who wait for it."""
        waiting, self._waiting = self._waiting, []
        together = True
        try:
            with self._rows.transact(retry=True):
                for key, text, _ in waiting:
                    self._rows.set(key, text, retry=True)
        except Exception:
            together = False  # one of them cannot be kept: which, each is told alone
        for key, text, kept in waiting:
            failed: Exception | None = None
            try:
                if not together:
                    self.put(key, text)
            except Exception as error:
                failed = error
            if kept.done():  # whoever waited was cancelled
                continue
            if failed is None:
                kept.set_result(None)
            else:
                kept.set_exception(failed)

    def alone(self, key: str) -> AbstractAsyncContextManager[str | None]:
        """Always None: processes on one machine do not wait for each other."""
        return nullcontext()

    def close(self) -> None:
        """Close the files."""
        self._rows.close()
