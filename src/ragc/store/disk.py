"""The call store's rows on one machine, in SQLite through diskcache; safe across processes and kills.

Keys and values are texts; nothing is pickled. Each row carries the digest of its key and text as diskcache's
tag. A row without a tag, or with a wrong one, counts as absent and is written again.
"""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import diskcache

from ragc.core.digest import row_digest
from ragc.core.files import PRIVATE_FILE, make_private, narrow_tree
from ragc.errors import StoreError

_KEEP_IN_SQLITE = 2**30
_REMEDY = "move the folder away to start a new one"
_FILE = diskcache.core.DBNAME


class _JsonDisk(diskcache.Disk):  # type: ignore[misc]
    """diskcache's row format, restricted to text keys and text values.

    diskcache's own JSONDisk still unpickles rows of one mode; this class refuses them.
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

    def remove(self, file_path: Any) -> None:
        """Does nothing.

        No row of ragc has a file, so a row that names one is damaged, and the file is foreign.
        """


class DiskRows:
    """Rows in the folder `directory`, which is created. Raises StoreError when it cannot be opened."""

    def __init__(self, directory: Path) -> None:
        self.where = str(directory)
        self._waiting: list[tuple[str, str, asyncio.Future[None]]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        try:
            make_private(directory)
            # SQLite gives its other files the mode of this one. One that is there is not opened: to close it
            # would release all locks that other connections of this process hold on it.
            if not (directory / _FILE).exists():
                (directory / _FILE).touch(PRIVATE_FILE)
            narrow_tree(directory)
            self._rows = diskcache.Cache(
                str(directory),
                disk=_JsonDisk,
                disk_min_file_size=_KEEP_IN_SQLITE,
                eviction_policy="none",
                cull_limit=0,
                size_limit=2**50,
                timeout=60,
            )
        except (OSError, sqlite3.Error, diskcache.Timeout, ValueError, TypeError, AttributeError) as error:
            if _is_damage(error):
                raise StoreError(self._damage_text(error)) from error
            raise StoreError(
                f"The call store at {directory} cannot be opened ({error}); free space, check its "
                "permissions, or set RAGC_HOME to another folder."
            ) from error

    def get(self, key: str) -> str | None:
        """Returns the text under `key`, or None; a damaged row counts as absent."""
        try:
            text, tag = self._rows.get(key, retry=True, tag=True)
        except sqlite3.Error as error:
            if "decode" in str(error):  # text that is not UTF-8
                return None
            if _is_damage(error):
                raise StoreError(self._damage_text(error)) from error
            raise StoreError(
                f"The call store at {self.where} cannot be read ({error}); {_REMEDY}."
            ) from error
        return text if text is not None and tag == row_digest(key, text) else None

    def put(self, key: str, text: str) -> None:
        """Stores `text` under `key`; when this returns, a kill no longer loses it.

        A power loss may, because SQLite's log is synced now and then.
        """
        try:
            self._set(key, text)
        except (OSError, sqlite3.Error) as error:
            raise self._write_error(error) from error

    def _set(self, key: str, text: str) -> None:
        if not isinstance(text, str):
            raise TypeError(f"store values are JSON text, found {type(text).__name__}")
        self._rows.set(key, text, retry=True, tag=row_digest(key, text))

    def _damage_text(self, error: Exception | str) -> str:
        return (
            f"The call store at {self.where} is damaged ({error}); {_REMEDY} and ask again what it held, "
            f"or save what can be read with SQLite's own `.recover` of its {_FILE}."
        )

    def _write_error(self, error: Exception) -> StoreError:
        if _is_damage(error):
            return StoreError(self._damage_text(error))
        return StoreError(
            f"The call store at {self.where} could not keep a reply ({error}); free space "
            "there or set RAGC_HOME to another folder. What was stored before is kept."
        )

    async def aput(self, key: str, text: str) -> None:
        """Stores as `put` does; rows written in the same iteration of the loop share one transaction."""
        running = asyncio.get_running_loop()
        if self._loop is not running:  # the waiters on a previous loop are gone
            self._loop, self._waiting = running, []
        future = running.create_future()
        self._waiting.append((key, text, future))
        if len(self._waiting) == 1:
            running.call_soon(self._write)
        await future

    def _write(self) -> None:
        """Writes the pending rows and resolves their futures."""
        waiting, self._waiting = self._waiting, []
        together = True
        try:
            with self._rows.transact(retry=True):
                for key, text, _ in waiting:
                    self._set(key, text)
        except Exception:
            # one of the rows cannot be stored: write each alone, so that the right caller gets the error
            together = False
        for key, text, future in waiting:
            failed: Exception | None = None
            try:
                if not together:
                    self.put(key, text)
            except Exception as error:
                failed = error
            if future.done():  # the caller was cancelled
                continue
            if failed is None:
                future.set_result(None)
            else:
                future.set_exception(failed)

    def check(self) -> None:
        """Raises StoreError unless SQLite finds the database whole; changes nothing."""
        file = Path(self.where) / _FILE
        try:
            with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as opened:
                (found,) = opened.execute("PRAGMA integrity_check(1)").fetchone()
        except sqlite3.Error as error:
            raise StoreError(self._damage_text(str(error))) from error
        if found != "ok":
            raise StoreError(self._damage_text(" ".join(str(found).split())))

    def close(self) -> None:
        """Closes the files."""
        self._rows.close()


def _is_damage(error: Exception) -> bool:
    """Returns whether SQLite reports a damaged or meaningless database file."""
    if isinstance(error, sqlite3.IntegrityError):  # two rows of one key, which only damage causes
        return True
    if isinstance(error, sqlite3.DatabaseError):
        known = (
            "malformed",
            "not a database",
            "file is encrypted",
            "no such table",
            "no such column",
            "decode",
        )
        return any(words in str(error) for words in known)
    return isinstance(error, ValueError | TypeError | AttributeError)
