"""The call store's rows on a Redis server, shared by workers on several machines.

A key is `ragc:call:2:` and the digest that is also used on disk. A value is the digest of key and text (32
characters) followed by the JSON text; a row with a wrong digest counts as absent. Anybody who may write to
the server can compute such digests. If `RAGC_STORE_KEY` is set, the digest is therefore an HMAC with that key
and the names begin with `ragc:call:2h:`, so that rows without it are neither read nor replaced. A worker that
makes a call holds the lock `ragc:lock:` and the digest. It renews the lock while it lives; after its death
the lock expires soon. How long rows are stored, and whether they survive a restart, is set on the server
(`appendonly yes`, `maxmemory-policy noeviction`).
"""

from __future__ import annotations

import asyncio
import hmac
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from ragc.core.digest import row_digest
from ragc.core.redact import bare_address, mask, remember
from ragc.errors import StoreError, UsageError
from ragc.store.disk import Audit

if TYPE_CHECKING:
    from redis.asyncio.lock import Lock

LOCK_SECONDS = 10.0
"""Maximum time in seconds that other workers wait for the lock of a dead one."""

_CALL, _SIGNED_CALL, _LOCK = "ragc:call:2:", "ragc:call:2h:", "ragc:lock:"
SECRET_ENV = "RAGC_STORE_KEY"  # noqa: S105 - the name of a variable
"""The variable that may hold a secret which all workers share; rows then carry an HMAC."""

_MIN_SECRET_LENGTH = 16
_DIGITS = 32
_READ_BATCH = 500
_POOL = 64
_WAIT_S = 10.0
_FIRST_LOOK_S, _LAST_LOOK_S = 0.01, 0.25


class RedisBackend:
    """Rows on the server at `address`: `redis://`, `rediss://` (TLS) or `unix://`, optionally with a user.

    The constructor contacts the server once. Raises UsageError without redis-py and for an unreadable
    address, StoreError when the server does not answer. No message contains the password.
    """

    is_local = False

    def __init__(self, address: str, *, lock_s: float = LOCK_SECONDS) -> None:
        try:
            import redis
            import redis.asyncio
        except ImportError as error:
            raise UsageError(
                "A store on Redis needs redis-py, which is not installed; run: pip install 'ragc[redis]'."
            ) from error
        self._secret = _secret()
        self._prefix = _SIGNED_CALL if self._secret else _CALL
        self.where = bare_address(address)
        self.remedy = "choose another database number to start a new one"
        self._lock_s = lock_s
        self._address, self._async, self._failed = address, redis.asyncio, redis.RedisError
        self._clients: tuple[asyncio.AbstractEventLoop, Any] | None = None
        timeouts = {"socket_timeout": _WAIT_S, "socket_connect_timeout": _WAIT_S}
        try:
            self._rows = redis.Redis.from_url(address, **timeouts)
        except ValueError as error:
            raise UsageError(
                f"The address of the call store cannot be read ({self._mask_error(error)}); write "
                "redis://HOST:PORT/NUMBER, and special characters of a password as %XX."
            ) from None
        with self._translate_errors("opened"):
            self._rows.ping()

    def get(self, key: str) -> str | None:
        """Returns the text under `key`, or None; a damaged row counts as absent. Blocks."""
        with self._translate_errors("read"):
            return _text(key, self._rows.get(self._prefix + key), self._secret)

    def put(self, key: str, text: str) -> None:
        """Stores `text` under `key`. Blocks."""
        with self._translate_errors("written"):
            self._rows.set(self._prefix + key, _bytes(key, text, self._secret))

    async def aget(self, key: str) -> str | None:
        """Reads as `get` does, without blocking the loop."""
        with self._translate_errors("read"):
            return _text(key, await self._client().get(self._prefix + key), self._secret)

    async def aput(self, key: str, text: str) -> None:
        """Stores as `put` does, without blocking the loop."""
        with self._translate_errors("written"):
            await self._client().set(self._prefix + key, _bytes(key, text, self._secret))

    @asynccontextmanager
    async def lock(self, key: str) -> AsyncIterator[str | None]:
        """Holds the lock of `key` among all workers; yields the text that another worker stored before."""
        lock = self._client().lock(_LOCK + key, timeout=self._lock_s, thread_local=False)
        text = await self._wait_or_lock(key, lock)
        if text is not None:
            yield text
            return
        renewing = asyncio.ensure_future(self._renew_lock(lock))
        try:
            yield None
        finally:
            renewing.cancel()
            # the lock or the server is gone; the lock expires by itself
            with suppress(self._failed, OSError):
                await lock.release()

    async def _wait_or_lock(self, key: str, lock: Lock) -> str | None:
        """Waits for the text under `key` and returns it, or acquires the lock and returns None."""
        pause = _FIRST_LOOK_S
        with self._translate_errors("locked"):
            while True:
                if await lock.acquire(blocking=False):
                    text = await self.aget(key)
                    if text is not None:
                        await lock.release()
                    return text
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LAST_LOOK_S)
                text = await self.aget(key)
                if text is not None:
                    return text

    async def _renew_lock(self, lock: Lock) -> None:
        """Renews `lock` until this is cancelled; stops when the lock is lost."""
        with suppress(self._failed, OSError):
            while True:
                await asyncio.sleep(self._lock_s / 3)
                await lock.reacquire()

    def _client(self) -> Any:
        """Returns the client that belongs to the running loop."""
        loop = asyncio.get_running_loop()
        if self._clients is None or self._clients[0] is not loop:
            pool = self._async.BlockingConnectionPool.from_url(
                self._address,
                max_connections=_POOL,
                timeout=_WAIT_S,
                socket_timeout=_WAIT_S,
                socket_connect_timeout=_WAIT_S,
            )
            self._clients = loop, self._async.Redis.from_pool(pool)
        return self._clients[1]

    @contextmanager
    def _translate_errors(self, done: str) -> Iterator[None]:
        """Translates redis-py's errors to one StoreError without the password."""
        try:
            yield
        except (self._failed, OSError) as error:
            raise StoreError(
                f"The call store at {self.where} cannot be {done} ({self._mask_error(error)}); start the "
                f"server, "
                "or check the address in RAGC_STORE. What was stored before is kept."
            ) from None

    def _mask_error(self, error: Exception) -> str:
        return mask(str(error).rstrip(". \n") or type(error).__name__, self._address)

    def audit(self, step: Callable[[int], None]) -> Audit:
        """Reads every row; `step` is called with the number of rows. Rows added meanwhile may be missed."""
        rows = damaged = 0
        with self._translate_errors("read"):
            names = self._rows.scan_iter(match=f"{self._prefix}*", count=_READ_BATCH)
            while batch := list(islice(names, _READ_BATCH)):
                for name, value in zip(batch, self._rows.mget(batch), strict=True):
                    key = bytes(name).decode("utf-8", "replace").removeprefix(self._prefix)
                    rows += value is not None
                    damaged += value is not None and _text(key, value, self._secret) is None
                step(len(batch))
        return Audit(rows, damaged)

    def close(self) -> None:
        """Closes the connections; called on the loop that uses them, they close soon afterwards."""
        self._rows.close()
        held, self._clients = self._clients, None
        if held is None or not held[0].is_running():
            return
        closing = asyncio.run_coroutine_threadsafe(held[1].aclose(), held[0])
        try:
            inside = asyncio.get_running_loop() is held[0]
        except RuntimeError:
            inside = False
        if not inside:
            closing.result(_WAIT_S)


def _bytes(key: str, text: str, secret: bytes = b"") -> bytes:
    if not isinstance(text, str):
        raise TypeError(f"store values are JSON text, found {type(text).__name__}")
    return (row_digest(key, text, secret) + text).encode("utf-8", "surrogatepass")


def _text(key: str, value: Any, secret: bytes = b"") -> str | None:
    """Returns the text in the server's `value` for `key`; None for a damaged row."""
    try:
        row = "" if value is None else bytes(value).decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None
    text = row[_DIGITS:]
    digest_there = row[:_DIGITS].encode("utf-8", "surrogatepass")
    return text if hmac.compare_digest(digest_there, row_digest(key, text, secret).encode()) else None


def _secret() -> bytes:
    """Returns the secret in `RAGC_STORE_KEY`, b"" without one. Raises UsageError for a short one."""
    secret = os.environ.get(SECRET_ENV, "").strip()
    if secret and len(secret) < _MIN_SECRET_LENGTH:
        raise UsageError(
            f"{SECRET_ENV} must have at least {_MIN_SECRET_LENGTH} characters, found {len(secret)}; make one "
            "with `openssl rand -hex 32`, and set the same for every worker."
        )
    return remember(secret).encode("utf-8", "surrogateescape")
