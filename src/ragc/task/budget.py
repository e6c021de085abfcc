"""The budget of a study: hard limits on calls, tokens, dollars and minutes, over kills and resumes.

    reserve ─► the try is sent ─┬► settle    a reply came: its tokens and dollars
                                ├► release   it was refused, or never sent: nothing
                                └► keep      it failed in any other way: what it reserved

A limit blocks requests but no stored replies. Each distinct request is charged once, whether it was sent or
cached. So a study that runs again on the same store ends at the same point, and one whose replies are all
stored runs to its end under any limit. A request that is sent again after a failure is charged again. Before
a try is sent, the most that it may cost is reserved on disk. That stays charged if the process is killed, or
if the try fails: a provider may compute, and bill, a reply that never arrives.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple

from ragc.errors import BudgetExhausted, StoreError
from ragc.recipe import Budget

SPARE_CALLS, SPARE_RESERVED = 10, 2
"""What is held back beside the cost of calls, so that the last of them fits: a call reserves more than it
costs. So many mean costs of a call, or so many times the most that one reserved; the greater decides.
"""

_PICO = 10**12
_WORDS = {"lm_calls": "LM calls", "tokens": "tokens", "usd": "dollars", "minutes": "minutes"}
_SCHEMA = """
pragma journal_mode = wal;
pragma synchronous = normal;
create table if not exists charges (
    number integer primary key, key text, state text, tokens integer, picos integer,
    most_tokens integer, most_picos integer, minutes real);
create index if not exists amounts on charges (key, state, tokens, picos);
"""
"""The index has the amounts too, so that SQLite's check finds one that was damaged."""

_SUMS = "select count(*), ifnull(sum(tokens), 0), ifnull(sum(picos), 0) from charges where state != 'free'"


class Spent(NamedTuple):
    """LM calls, tokens, and dollars times 10^12: whole, so that a sum does not depend on its order."""

    calls: int = 0
    tokens: int = 0
    picos: int = 0

    @property
    def usd(self) -> float:
        """Dollars."""
        return self.picos / _PICO

    def to_json(self) -> dict[str, float]:
        """Returns `calls`, `tokens` and `usd`."""
        return {"calls": self.calls, "tokens": self.tokens, "usd": self.usd}


class BudgetFile:
    """A budget whose charges are in the SQLite file `path`, or in memory without one.

    What other processes reserved and did not settle counts as spent. Processes may share a file, but wait
    only for their own tries. Raises StoreError where the file cannot be read or written, or is damaged.
    `reserve` and what ends a try must be called on the process's event loop.
    """

    def __init__(self, path: Path | None, limits: Budget) -> None:
        self.path, self.limits, self.limits_usd = path or Path(":memory:"), limits, limits.usd is not None
        self.held, self._held_costs = Spent(), [(0.0, 0.0), (0.0, 0.0)]
        self._started, self._freed = float("inf"), asyncio.Event()
        self._flying, self._charged, self._version = dict[int, Spent](), Spent(), ()
        self._db = sqlite3.connect(self.path, timeout=20, isolation_level=None, check_same_thread=False)
        self._lock = RLock()  # SQLite crashes where one thread closes what another one uses
        with self._errors():
            self._db.executescript(_SCHEMA)
            if self._row("pragma integrity_check(1)") != ("ok",):
                raise sqlite3.DatabaseError("it is damaged")
            self._db.execute("update charges set state = 'lost' where state = 'reserved'")
            self._before = float(*self._row("select ifnull(max(minutes), 0.0) from charges"))

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Writes all or nothing of what is changed until exit. Raises StoreError."""
        try:
            with self._lock, self._db:
                yield
        except (sqlite3.Error, ValueError, TypeError) as error:  # a damaged text is no UTF-8
            raise StoreError(
                f"What was spent cannot be kept in {self.path} ({' '.join(str(error).split())}); leave "
                "--resume out to begin anew (what was answered is cached, and counted again), or move the "
                "file away to count from 0."
            ) from error

    def _row(self, query: str, *values: object) -> Any:
        with self._lock:
            return self._db.execute(query, values).fetchone()

    def _total(self) -> Spent:
        """Returns the sum of all charges, which is read again only if another process changed the file."""
        with self._lock:
            version = self._row("pragma data_version")
            if version != self._version:
                self._version, self._charged = version, Spent(*self._row(_SUMS))
            return self._charged

    @property
    def spent(self) -> Spent:
        """All that was charged, by earlier processes too, without tries in flight."""
        return _sum(self._total(), *(_sum(most, sign=-1) for most in list(self._flying.values())))

    @property
    def cached(self) -> Spent:
        """The part of what was charged that is for stored replies."""
        return Spent(*self._row(f"{_SUMS} and state = 'cached'"))

    @property
    def minutes(self) -> float:
        """Minutes spent by earlier processes and by this one since its first request."""
        return self._before + max(0.0, time.monotonic() - self._started) / 60

    def price_held(self, calls: int, longer: float) -> dict[str, float]:
        """Sets what a held-back call costs: `longer` times the mean of the first `calls` charges, which do
        not change. Returns its tokens and dollars.
        """
        tokens, picos, most_tokens, most_picos = self._row(
            "select ifnull(? * avg(tokens), 0), ifnull(? * avg(picos), 0), ifnull(max(most_tokens), 0), "
            "ifnull(max(most_picos), 0) from (select * from charges where state in ('sent', 'cached') "
            "order by number limit ?)",
            longer,
            longer,
            max(1, calls),
        )
        self._held_costs = [
            (tokens, max(SPARE_CALLS * tokens, SPARE_RESERVED * most_tokens)),
            (picos, max(SPARE_CALLS * picos, SPARE_RESERVED * most_picos)),
        ]
        return {"tokens": tokens, "usd": picos / _PICO}

    def hold(self, calls: int) -> None:
        """Holds back `calls` LM calls for later, and their cost; 0 releases them."""
        costs = (round(calls * mean + spare if calls else 0) for mean, spare in self._held_costs)
        self.held = Spent(calls, *costs)

    def refusal(self, need: Spent, *, settled: bool = False) -> BudgetExhausted | None:
        """Returns the error if `need` does not fit beside what is spent and held back; None if it does.

        With `settled`, tries in flight count as free, so that `need` can never fit.
        """
        total = _sum(self.spent if settled else self._total(), self.held, need)
        amounts = {"lm_calls": total.calls, "tokens": total.tokens, "usd": total.usd, "minutes": self.minutes}
        for what, amount in amounts.items():
            limit = getattr(self.limits, what)
            if limit is not None and amount > limit:
                kept = f", but for {self.held.calls} LM calls held back for later" if self.held.calls else ""
                return BudgetExhausted(
                    f"The budget of {limit:.12g} {_WORDS[what]} is spent{kept}; raise budget.{what} to go on."
                )
        return None

    async def reserve(self, key: str, tokens: int, usd: float) -> int:
        """Reserves the most that a try of the request `key` may cost; returns the number of the try.

        While it does not fit, waits for tries in flight, which mostly cost less than they reserved. Raises
        BudgetExhausted once it cannot fit, or nothing is in flight.
        """
        self._started, need = min(self._started, time.monotonic()), _one(tokens, usd)
        while True:
            with self._errors():
                self._db.execute("begin immediate")
                error = self.refusal(need)
                if error is None:
                    number = self._put(key, "reserved", need)
                    self._flying[number] = need
                    return number
            if self._flying:
                error = self.refusal(need, settled=True)
            if error is not None:
                raise error
            self._freed.clear()
            await self._freed.wait()

    def settle(self, number: int, tokens: int, usd: float) -> None:
        """Replaces the reservation of the try `number` by its cost."""
        self._end(number, "sent", _one(tokens, usd))

    def keep(self, number: int) -> None:
        """Charges the try `number` as it was reserved: it failed, and its cost is unknown."""
        self._end(number, "kept", self._flying[number])

    def release(self, number: int) -> None:
        """Charges nothing for the try `number`: it was not sent, or was refused."""
        self._end(number, "free", Spent())

    def _end(self, number: int, state: str, cost: Spent) -> None:
        reserved = self._flying.pop(number)
        self._freed.set()
        with self._errors():
            self._db.execute(
                "update charges set state = ?, tokens = ?, picos = ?, minutes = ? where number = ?",
                (state, cost.tokens, cost.picos, self.minutes, number),
            )
            self._charged = _sum(self._charged, cost, _sum(reserved, sign=-1))

    def charge_cached(self, key: str, tokens: int, usd: float) -> None:
        """Charges a stored reply; a request that was answered or reserved before is free."""
        self._started = min(self._started, time.monotonic())
        with self._errors():
            if not self._row("select 1 from charges where key = ? and state not in ('kept', 'free')", key):
                self._put(key, "cached", _one(tokens, usd))

    def _put(self, key: str, state: str, cost: Spent) -> int:
        put = self._db.execute(
            "insert into charges values (null, ?, ?, ?, ?, ?, ?, ?)",
            (key, state, cost.tokens, cost.picos, cost.tokens, cost.picos, self.minutes),
        )
        self._charged = _sum(self._charged, cost)
        return put.lastrowid or 0

    def close(self) -> None:
        """Closes the file. Later charges, for requests still in flight, are not written."""
        with self._lock:
            file, self._db = (
                self._db,
                sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False),
            )
            file.backup(self._db)
            file.close()


def _one(tokens: int, usd: float) -> Spent:
    return Spent(1, tokens, min(round(usd * _PICO), 2**62))


def _sum(*amounts: Spent, sign: int = 1) -> Spent:
    return Spent(*(sign * sum(column) for column in zip(*amounts, strict=True)))
