"""The call store: what was asked and answered once is never asked again.

Keys are SHA-256 digests, values JSON texts; nothing is ever pickled, and failures are not stored. Every
row carries a digest of its key and text, so that a damaged one is asked again and never believed.
A keeper holds the rows: files on one machine (`disk`), or Redis for several (`redis`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from ragc.errors import UsageError
from ragc.store.disk import Audit, DiskBackend

ADDRESSES = ("redis://", "rediss://", "unix://")
"""How the address of a store that is not a folder may begin."""


class Backend(Protocol):
    """Where the rows of a call store are. Everything raises StoreError when they cannot be reached.

    `where` names the place and `remedy` says how to begin with an empty one, both for people and without
    secrets. A `is_local` keeper answers `get` in microseconds, so that it may be called on the loop.
    """

    where: str
    remedy: str
    is_local: bool

    def get(self, key: str) -> str | None:
        """The text under `key`, or None; a damaged row counts as absent. Waits; safe in any thread."""
        ...

    def put(self, key: str, text: str) -> None:
        """Keep `text` under `key`; it is kept when this returns. Waits; safe in any thread."""
        ...

    async def aget(self, key: str) -> str | None:
        """As `get`, awaited on the process's loop."""
        ...

    async def aput(self, key: str, text: str) -> None:
        """As `put`, awaited on the process's loop."""
        ...

    def lock(self, key: str) -> AbstractAsyncContextManager[str | None]:
        """Hold the right to make the text under `key`; what another process made meanwhile, else None."""
        ...

    def audit(self, step: Callable[[int], None]) -> Audit:
        """Read every row and count the damaged ones; `step` counts all. Nothing is changed."""
        ...

    def close(self) -> None:
        """Free what is held; the keeper can no longer be used."""
        ...


class CallStore:
    """JSON texts by digest, in memory and with a keeper, with single flight.

    `directory` keeps rows on disk, `keeper` where it says, neither keeps them in memory only. `memory`
    bounds the entries held in memory.
    """

    def __init__(
        self, directory: Path | None, *, memory: int = 20_000, keeper: Backend | None = None
    ) -> None:
        if directory is not None and keeper is not None:
            raise ValueError("a call store has a directory or a keeper, not both")
        self.directory = directory
        self._limit = memory
        self._memory: dict[str, str] = {}
        self._flying: dict[str, asyncio.Task[tuple[str, bool]]] = {}
        self._keeper = DiskBackend(directory) if directory is not None else keeper

    @classmethod
    def at(cls, address: str, directory: Path) -> CallStore:
        """The store at `address`, such as `redis://host:6379/0`; in `directory` when it is empty.

        Raises UsageError for another kind of address, StoreError when the store cannot be opened.
        """
        if not address:
            return cls(directory)
        if not address.startswith(ADDRESSES):
            kind = address.partition("://")[0] if "://" in address else "none of them"
            raise UsageError(
                f"The address of the call store (RAGC_STORE) begins with one of {', '.join(ADDRESSES)}, "
                f"found {kind}; write redis://HOST:PORT/NUMBER, or leave it out for a folder of this machine."
            )
        from ragc.store.redis import RedisBackend

        return cls(None, keeper=RedisBackend(address))

    def __deepcopy__(self, memo: object) -> CallStore:
        return self

    @property
    def where(self) -> str:
        """Where the rows are, for people: a folder, an address without its password, or `memory`."""
        return self._keeper.where if self._keeper else "memory"

    @property
    def remedy(self) -> str:
        """How to begin with an empty store, as the end of a sentence."""
        return self._keeper.remedy if self._keeper else "start again"

    def get(self, key: str) -> str | None:
        """The text kept under `key`, or None. A damaged row counts as absent."""
        text = self._memory.get(key)
        if text is None and self._keeper is not None:
            text = self._keeper.get(key)
            if text is not None:
                self._remember(key, text)
        return text

    def put(self, key: str, text: str) -> None:
        """Keep `text` under `key`, with the keeper before it is handed out. Raises StoreError."""
        if self._keeper is not None:
            self._keeper.put(key, text)
        self._remember(key, text)

    def _remember(self, key: str, text: str) -> None:
        self._memory[key] = text
        if len(self._memory) > self._limit:
            self._memory.pop(next(iter(self._memory)))

    async def read(self, key: str) -> str | None:
        """The text that the keeper has under `key`, for callers that hold in memory what they made of it.

        None without a keeper. To be awaited on the process's loop.
        """
        return None if self._keeper is None else await self._keeper.aget(key)

    async def write(self, key: str, text: str) -> None:
        """Give `text` to the keeper alone; nothing happens without one. On the process's loop."""
        if self._keeper is not None:
            await self._keeper.aput(key, text)

    async def get_or_call(
        self, key: str, call: Callable[[], Awaitable[str]], fits: Callable[[str], bool] = lambda text: True
    ) -> tuple[str, bool]:
        """The text under `key`, made by `call` when absent, and whether it was replayed.

        A text that is kept there and does not fit, such as another version's, counts as absent.
        Any number of callers at once make one call; with a shared keeper, so do several processes. It
        goes on when its callers are cancelled, so that a request once sent is kept. To be awaited on the
        process's loop.
        """
        near = self._keeper is None or self._keeper.is_local
        stored = self.get(key) if near else self._memory.get(key)
        if stored is not None and fits(stored):
            return stored, True
        task = self._flying.get(key)
        first = task is None
        if task is None:
            task = asyncio.ensure_future(self._make(key, call, fits))
            self._flying[key] = task
            task.add_done_callback(lambda done: self._on_call_done(key, done))
        text, replayed = await asyncio.shield(task)
        return text, replayed or not first

    async def _make(
        self, key: str, call: Callable[[], Awaitable[str]], fits: Callable[[str], bool]
    ) -> tuple[str, bool]:
        """The text under `key`, found with a keeper that is not near, or made."""
        keeper = self._keeper
        if keeper is None:
            text, replayed = await call(), False
        else:
            text, replayed = await self._get_or_make(keeper, key, call, fits)
        self._remember(key, text)
        return text, replayed

    async def _get_or_make(
        self, keeper: Backend, key: str, call: Callable[[], Awaitable[str]], fits: Callable[[str], bool]
    ) -> tuple[str, bool]:
        stored = None if keeper.is_local else await keeper.aget(key)
        if stored is not None and fits(stored):
            return stored, True
        async with keeper.lock(key) as other_text:
            if other_text is not None and fits(other_text):
                return other_text, True
            text = await call()
            await keeper.aput(key, text)
        return text, False

    def _on_call_done(self, key: str, done: asyncio.Task[tuple[str, bool]]) -> None:
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

    def audit(self, step: Callable[[int], None] = lambda n: None) -> Audit:
        """Read every row that is kept and count the damaged ones; `step` counts all. Nothing is changed."""
        return Audit(0, 0) if self._keeper is None else self._keeper.audit(step)

    def close(self) -> None:
        """Close the rows; the store can no longer be used."""
        if self._keeper is not None:
            self._keeper.close()
