"""The call store: every reply by the digest of its request, so that no request is sent twice.

Keys are SHA-256 digests, values JSON texts. diskcache stores them in SQLite, safe across processes and kills;
in front of it are the latest in memory. Failures are not stored. A row is a digest of key and text, and the
text; one whose digest does not fit counts as absent, and its request is sent again.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import diskcache

from ragc.core import event_loop
from ragc.core.digest import digest
from ragc.core.files import cache_home, make_private
from ragc.errors import StoreError
from ragc.store.used_questions import check_database

T = TypeVar("T")


class _ByteRows(diskcache.Disk):  # type: ignore[misc]
    """Rows of bytes alone.

    diskcache would unpickle some other rows, and read or delete the file that one names.
    """

    def fetch(self, mode: int, filename: Any, value: Any, read: bool) -> bytes | None:
        """Returns the bytes of a row; None for a row that the store did not write."""
        return value if filename is None and isinstance(value, bytes) else None

    def remove(self, file_path: Any) -> None:
        """Does nothing: no row of the store has a file."""


class CallStore:
    """JSON texts by digest, in memory and on disk; concurrent requests for one key share one call.

    Without a `directory` they are in memory only. `memory` is the most entries in memory. A subclass whose
    rows are elsewhere, such as in another process, replaces `read` and `write`. Raises StoreError if the
    directory cannot be used. `where` says to users where the rows are.
    """

    def __init__(self, directory: Path | None, *, memory: int = 10_000) -> None:
        self.where = str(directory or "memory")
        self._limit = memory
        self._memory: dict[str, str] = {}
        self._in_flight: dict[str, Future[Any]] = {}
        self._lock = threading.Lock()
        self._written: asyncio.Task[None] | None = None
        self._rows = None if directory is None else _opened(directory)
        self._unwritten: dict[str, bytes] = {}
        self._writing = threading.Lock()

    def __deepcopy__(self, memo: object) -> CallStore:
        return self

    def get(self, key: str) -> str | None:
        """Returns the text under `key`, or None. Raises StoreError."""
        text = self._memory.get(key)
        if text is None and (text := self._read(key)) is not None:
            self._remember(key, text)
        return text

    def put(self, key: str, text: str) -> None:
        """Stores `text` under `key`; a kill then no longer loses it, a power loss may. Raises StoreError."""
        self._unwritten[key] = _row(key, text)
        self._flush()
        self._remember(key, text)

    async def read(self, key: str) -> str | None:
        """Returns the text under `key` on disk, for callers that cache the parsed value themselves."""
        return self._read(key)

    async def write(self, key: str, text: str) -> None:
        """Stores `text` on disk only; without a directory this does nothing. Raises StoreError.

        Texts of one turn of the event loop share a transaction, which takes most of the time; so do those of
        threads that wait for one.
        """
        if self._rows is None:
            return
        self._unwritten[key] = _row(key, text)
        if not event_loop.is_on_loop():
            self._flush()
            return
        if self._written is None:
            self._written = asyncio.ensure_future(self._write_together())
            self._written.add_done_callback(_retrieve)
        await asyncio.shield(self._written)

    async def _write_together(self) -> None:
        self._written = None
        self._flush()

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
        """Returns the value under `key`, made by `make` when absent, and whether it was cached.

        `write` gives the text of a new value and `read` the value of a stored text; None, such as for text
        that does not fit, counts as absent. Concurrent callers share one call and its value. The call
        continues when its callers are cancelled, so that the reply to a request already sent is stored.
        Raises what `make` raises, and StoreError.
        """
        text = self._memory.get(key)
        if text is not None and (value := read(text)) is not None:
            return value, True
        if not event_loop.is_on_loop() and not event_loop.is_stepping():
            return await event_loop.on_loop(self.get_or_make(key, make, read, write))
        with self._lock:
            flight = self._in_flight.get(key)
            if is_first := flight is None:
                flight = self._in_flight[key] = Future[Any]()
        if not is_first:
            return await event_loop.wait(_landed(flight)), True
        work = self._find_or_make(key, flight, make, read, write)
        if not event_loop.is_on_loop():
            return await work
        task = asyncio.ensure_future(work)
        task.add_done_callback(_retrieve)
        return await asyncio.shield(task)

    async def _find_or_make(
        self,
        key: str,
        flight: Future[Any],
        make: Callable[[], Awaitable[T]],
        read: Callable[[str], T | None],
        write: Callable[[T], str],
    ) -> tuple[T, bool]:
        """Does what `get_or_make` does for the first of concurrent callers; the others await `flight`."""
        flight.set_running_or_notify_cancel()
        try:
            text = await self.read(key)
            value = None if text is None else read(text)
            cached = value is not None
            if text is None or value is None:
                value = await make()
                text = write(value)
                await self.write(key, text)
            self._remember(key, text)
            flight.set_result(value)
            return value, cached
        except BaseException as error:
            flight.set_exception(error)
            raise
        finally:
            del self._in_flight[key]

    async def settle(self) -> None:
        """Waits until no call is in flight."""
        while self._in_flight:
            await asyncio.wait([asyncio.wrap_future(flight) for flight in self._in_flight.values()])

    def _remember(self, key: str, text: str) -> None:
        with self._lock:
            self._memory[key] = text
            if len(self._memory) > self._limit:
                self._memory.pop(next(iter(self._memory)))

    def _read(self, key: str) -> str | None:
        with _reported(self.where):
            row = None if self._rows is None else self._rows.get(key, retry=True)
        _, _, text = (row or b"").decode(errors="replace").partition(" ")
        return text if row and row == _row(key, text) else None

    def _flush(self) -> None:
        """Writes all rows in one transaction. Those that cannot be written are tried with later ones."""
        with self._writing:
            rows = dict[str, bytes]()
            while self._unwritten:
                rows.update([self._unwritten.popitem()])
            if rows and self._rows is not None:
                try:
                    with _reported(self.where), self._rows.transact(retry=True):
                        for key, row in rows.items():
                            self._rows.set(key, row)
                except StoreError:
                    self._unwritten.update(rows)
                    raise

    def check(self) -> None:
        """Raises StoreError unless SQLite finds the database whole; changes nothing."""
        if self._rows is not None:
            with (
                _reported(self.where),
                closing(
                    sqlite3.connect(f"{Path(self.where, 'cache.db').resolve().as_uri()}?mode=ro", uri=True)
                ) as rows,
            ):
                check_database(rows)

    def close(self) -> None:
        """Closes the files; the store can no longer be used."""
        if self._rows is not None:
            self._rows.close()


def open_store() -> CallStore:
    """Opens the user's call store. Raises StoreError if it cannot be opened."""
    return CallStore(cache_home() / "store")


def _row(key: str, text: str) -> bytes:
    """Returns the row with `text` under `key`. Raises UnicodeEncodeError for half of a surrogate pair."""
    return f"{digest([key, text])[:32]} {text}".encode()


async def _landed(flight: Future[Any]) -> Any:
    return await asyncio.shield(asyncio.wrap_future(flight))


def _retrieve(done: asyncio.Future[Any]) -> None:
    """Looks at the exception that nobody waits for any more, which the loop would log."""
    if not done.cancelled():
        done.exception()


def _opened(directory: Path) -> diskcache.Cache:
    """Opens the rows in `directory`, which is created for this user alone. Raises StoreError."""
    with _reported(str(directory)):
        make_private(directory)
        rows = diskcache.Cache(
            str(directory),
            disk=_ByteRows,
            disk_min_file_size=2**30,  # the most that SQLite holds in a row, so that no row has a file
            eviction_policy="none",
            cull_limit=0,
            size_limit=2**50,
            timeout=60,
        )
        if rows.get("version", None if len(rows) else b"1") != b"1":
            raise ValueError("its rows are of another version")
        rows.add("version", b"1", retry=True)
        return rows


@contextmanager
def _reported(where: str) -> Iterator[None]:
    """Raises errors of the store's files as StoreError, with what to do."""
    try:
        yield
    except (OSError, sqlite3.Error, diskcache.Timeout, ValueError, TypeError, AttributeError) as error:
        if isinstance(error, OSError | sqlite3.OperationalError | diskcache.Timeout) and not any(
            words in str(error)
            for words in ("no such", "no column")  # the tables of another program
        ):
            raise StoreError(
                f"The call store at {where} cannot be read or written ({error}); free space there, check its "
                "permissions, or set RAGC_HOME to another folder. What was stored before is kept."
            ) from error
        raise StoreError(
            f"The call store at {where} is damaged or not of this version ({error}); delete that folder, "
            "and what it held is asked again."
        ) from error
