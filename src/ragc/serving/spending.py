"""What each key may spend in a day, reserved before a request is sent. Kept over restarts, shared by workers.

A request is counted at the most that it can cost until its real cost is known. What a process that was killed
had reserved stays counted. A day is one of UTC. Keys stand in the file as digests only.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

from ragc.core.home import make_private
from ragc.errors import BudgetExhausted, StoreError
from ragc.serving.guards import client
from ragc.targets.charges import Ledger, Need, Wanted

WAIT_S = 10.0
"""Seconds that a worker waits while another one writes."""

KEPT_DAYS = 31
"""Days for which rows are kept."""

_TABLE = """
create table if not exists spent (
    number text primary key, day text not null, key text not null, usd real not null
) without rowid;
create index if not exists of_a_day on spent (day, key);
"""


class DailySpending:
    """A `ragc.targets.charges.Ledger` that holds each key to `limit` dollars a day.

    `path` is the file. `inner` is the ledger of the recipe's own budget, which is charged too. Raises
    StoreError where the file cannot be used.
    """

    limits_usd = True

    def __init__(self, path: Path, limit: float, inner: Ledger | None = None) -> None:
        self._path, self._limit, self._inner = path, limit, inner
        self._numbers: dict[str, str] = {}
        with self._writing():
            make_private(path.parent)
            self._file = sqlite3.connect(path, timeout=WAIT_S, isolation_level=None, check_same_thread=False)
            path.chmod(0o600)
            # A kill loses nothing so; a power loss may lose what was spent in the last seconds.
            self._file.execute("pragma journal_mode = wal")
            self._file.execute("pragma synchronous = normal")
            self._file.executescript(_TABLE)
            oldest = datetime.now(UTC).date() - timedelta(days=KEPT_DAYS)
            self._file.execute("delete from spent where day < ?", (oldest.isoformat(),))

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise StoreError(
                f"What was spent today cannot be kept in {self._path} ({error}); grant access to it, or move "
                "the file away to count from 0."
            ) from error

    async def reserve(self, needs: Sequence[Need], wanted: Wanted = lambda: True) -> list[str]:
        """Reserves all of `needs` for the present key, or none. Raises BudgetExhausted, and StoreError."""
        inner = list(await self._inner.reserve(needs, wanted)) if self._inner else [""] * len(needs)
        day, key = datetime.now(UTC).date().isoformat(), _digest()
        rows = [(uuid4().hex, day, key, need.usd) for need in needs]
        most_usd, fits = sum(need.usd for need in needs), False
        try:
            with self._writing():
                self._file.execute("begin immediate")
                try:
                    (spent,) = self._file.execute(
                        "select coalesce(sum(usd), 0) from spent where day = ? and key = ?", (day, key)
                    ).fetchone()
                    fits = spent + most_usd <= self._limit
                    if fits:
                        self._file.executemany("insert into spent values (?, ?, ?, ?)", rows)
                finally:
                    self._file.execute("commit")
        except StoreError:
            fits = False
            raise
        finally:
            if not fits:  # the budget within would wait for tries that are never sent
                for number in filter(None, inner):
                    self._release(number)
        if not fits:
            limit = f"This key may spend {self._limit:g} dollars a day"
            if most_usd > self._limit:  # midnight does not help
                raise BudgetExhausted(
                    f"{limit}, and one request may cost {most_usd:.2g}; ask who runs the server for more."
                )
            raise BudgetExhausted(
                f"{limit}, and the request may cost more than is left; try again after midnight UTC, or ask "
                "who runs the server for more."
            )
        self._numbers |= {row[0]: number for row, number in zip(rows, inner, strict=True)}
        return [row[0] for row in rows]

    def _release(self, number: str) -> None:
        if self._inner is not None:
            self._inner.release(number)

    def settle(self, number: str, tokens: int, usd: float) -> None:
        """Counts `usd` in the place of what the try `number` reserved."""
        inner = self._numbers.pop(number, "")
        if self._inner is not None and inner:
            self._inner.settle(inner, tokens, usd)
        with self._writing():
            self._file.execute("update spent set usd = ? where number = ?", (usd, number))

    def charge_in_full(self, number: str) -> None:
        """Counts what the try `number` reserved."""
        inner = self._numbers.pop(number, "")
        if self._inner is not None and inner:
            self._inner.charge_in_full(inner)

    def release(self, number: str) -> None:
        """Counts nothing for the try `number`."""
        inner = self._numbers.pop(number, "")
        if inner:
            self._release(inner)
        with self._writing():
            self._file.execute("delete from spent where number = ?", (number,))

    def replay(self, key: str, tokens: int, usd: float) -> None:
        """Counts nothing for a stored reply, which nobody pays for; the recipe's own budget may."""
        if self._inner is not None:
            self._inner.replay(key, tokens, usd)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def _digest() -> str:
    """Returns the present key in the file; "" where the server has no keys."""
    digest = client.get()
    return sha256(digest.encode()).hexdigest()[:32] if digest else ""
