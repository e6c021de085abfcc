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
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

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
create index if not exists by_key on charges (key, state);
create table if not exists totals (state text primary key, calls integer, tokens integer, picos integer);
create trigger if not exists begun after insert on charges begin
    insert or ignore into totals values (new.state, 0, 0, 0);
    update totals set calls = calls + 1, tokens = tokens + new.tokens, picos = picos + new.picos
        where state = new.state;
end;
create trigger if not exists left after delete on charges begin
    update totals set calls = calls - 1, tokens = tokens - old.tokens, picos = picos - old.picos
        where state = old.state;
end;
create trigger if not exists ended after update on charges begin
    update totals set calls = calls - 1, tokens = tokens - old.tokens, picos = picos - old.picos
        where state = old.state;
    insert or ignore into totals values (new.state, 0, 0, 0);
    update totals set calls = calls + 1, tokens = tokens + new.tokens, picos = picos + new.picos
        where state = new.state;
end;
"""


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
        self.limits, self.limits_usd = limits, limits.usd is not None
        self.held, self._mean, self._spare = Spent(), [0.0, 0.0], [0.0, 0.0]
        self._started, self._flying, self._freed = float("inf"), 0, asyncio.Event()
        self.path = path or Path(":memory:")
        if path is not None and not path.exists() and path.with_suffix(".jsonl").exists():
            raise self._error("an earlier version of ragc wrote what is there")
        self._db = sqlite3.connect(self.path, timeout=20, isolation_level=None, check_same_thread=False)
        weakref.finalize(self, self._db.close)  # an Optuna objective is dropped, never closed
        with self._errors():
            self._db.executescript(_SCHEMA)
            sums, totals = (
                self._db.execute(f"select state, {amounts} order by state").fetchall()
                for amounts in (
                    "count(*), sum(tokens), sum(picos) from charges group by state",
                    "calls, tokens, picos from totals where calls",
                )
            )
            if sums != totals or self._db.execute("pragma integrity_check(1)").fetchone() != ("ok",):
                raise self._error("it is damaged")
            self._db.execute("update charges set state = 'lost' where state = 'reserved'")
            self._before = float(
                *self._db.execute("select coalesce(max(minutes), 0.0) from charges").fetchone()
            )

    def _error(self, reason: object) -> StoreError:
        return StoreError(
            f"What was spent cannot be kept in {self.path} ({' '.join(str(reason).split())}); leave "
            "--resume out to begin anew (what was answered is cached, and counted again), or move the file "
            "away to count from 0."
        )

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Writes all or nothing of what is changed until exit. Raises StoreError."""
        try:
            with self._db:
                yield
        except (sqlite3.Error, ValueError, TypeError) as error:  # a damaged text is no UTF-8
            raise self._error(error) from error

    def _total(self, state: str, excluded: str = "") -> Spent:
        amounts = self._db.execute(
            "select sum(calls), sum(tokens), sum(picos) from totals where state like ? and state != ?",
            (state, excluded),
        ).fetchone()
        return Spent(*(amount or 0 for amount in amounts))

    @property
    def spent(self) -> Spent:
        """All that was charged, by earlier processes too, without tries in flight."""
        return self._total("%", "reserved")

    @property
    def cached(self) -> Spent:
        """The part of what was charged that is for stored replies."""
        return self._total("cached")

    @property
    def minutes(self) -> float:
        """Minutes spent by earlier processes and by this one since its first request."""
        return self._before + max(0.0, time.monotonic() - self._started) / 60

    def price_held(self, calls: int, longer: float) -> dict[str, float]:
        """Sets what a held-back call costs: `longer` times the mean of the first `calls` charges, which do
        not change. Returns its tokens and dollars; nothing where the budget limits neither.
        """
        if self.limits.tokens is None and self.limits.usd is None:
            return {}
        rows = self._db.execute(
            "select tokens, picos, most_tokens, most_picos from charges where state in ('sent', 'cached') "
            "order by number limit ?",
            (max(1, calls),),
        ).fetchall() or [(0, 0, 0, 0)]
        *costs, most_tokens, most_picos = zip(*rows, strict=True)
        self._mean = [longer * sum(column) / len(rows) for column in costs]
        reserved = (SPARE_RESERVED * max(most_tokens), SPARE_RESERVED * max(most_picos))
        self._spare = [max(SPARE_CALLS * mean, most) for mean, most in zip(self._mean, reserved, strict=True)]
        return {"tokens": self._mean[0], "usd": self._mean[1] / _PICO}

    def hold(self, calls: int) -> None:
        """Holds back `calls` LM calls for later, and their cost; 0 releases them."""
        pairs = zip(self._mean, self._spare, strict=True)
        self.held = Spent(calls, *(round(calls * mean + spare if calls else 0) for mean, spare in pairs))

    def refusal(self, need: Spent, *, settled: bool = False) -> BudgetExhausted | None:
        """Returns the error if `need` does not fit beside what is spent and held back; None if it does.

        With `settled`, tries in flight count as free, so that `need` can never fit.
        """
        used = self._total("%", "reserved" if settled else "")
        total = Spent(*map(sum, zip(used, self.held, need, strict=True)))
        amounts = {"lm_calls": total.calls, "tokens": total.tokens, "usd": total.usd, "minutes": self.minutes}
        for what, amount in amounts.items():
            limit = getattr(self.limits, what)
            if limit is not None and amount > limit:
                return BudgetExhausted(
                    f"The budget of {limit:.12g} {_WORDS[what]} is spent; raise budget.{what} to go on."
                )
        return None

    def _put(self, key: str, state: str, cost: Spent) -> int:
        put = self._db.execute(
            "insert into charges values (null, ?, ?, ?, ?, ?, ?, ?)",
            (key, state, cost.tokens, cost.picos, cost.tokens, cost.picos, self.minutes),
        )
        return put.lastrowid or 0

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
                    self._flying += 1
                    return number
            if self._flying:
                error = self.refusal(need, settled=True)
            if error is not None:
                raise error
            await self._freed.wait()

    def settle(self, number: int, tokens: int, usd: float) -> None:
        """Replaces the reservation of the try `number` by its cost."""
        change = "update charges set state = 'sent', tokens = ?, picos = ?, minutes = ? where number = ?"
        self._end(change, tokens, _one(tokens, usd).picos, self.minutes, number)

    def keep(self, number: int) -> None:
        """Charges the try `number` as it was reserved: it failed, and its cost is unknown."""
        self._end("update charges set state = 'kept', minutes = ? where number = ?", self.minutes, number)

    def release(self, number: int) -> None:
        """Charges nothing for the try `number`: it was not sent, or was refused."""
        self._end("delete from charges where number = ?", number)

    def _end(self, statement: str, *values: object) -> None:
        self._flying -= 1
        self._freed.set()
        self._freed = asyncio.Event()
        with self._errors():
            self._db.execute(statement, values)

    def charge_cached(self, key: str, tokens: int, usd: float) -> None:
        """Charges a stored reply; a request that was answered or reserved before is free."""
        self._started = min(self._started, time.monotonic())
        with self._errors():
            if not self._db.execute(
                "select 1 from charges where key = ? and state != 'kept'", (key,)
            ).fetchone():
                self._put(key, "cached", _one(tokens, usd))

    def close(self) -> None:
        """Closes the file. Later charges, for requests still in flight, are not written."""
        memory = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._db.backup(memory)
        self._db.close()
        self._db = memory


def _one(tokens: int, usd: float) -> Spent:
    return Spent(1, tokens, min(round(usd * _PICO), 2**62))
