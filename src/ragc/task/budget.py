"""The ledger: hard limits on the spending of a study, persistent across kills.

A limit blocks requests but no stored replies. Each distinct request is charged once, whether it was sent or
replayed. So a study that runs again on the same store ends at the same point, and one whose replies are all
stored runs to its end under any limit. A request that is sent again after a failure is charged again. Before
a request is sent, its greatest possible cost in calls, tokens and dollars is checked and reserved, on disk
too, until its real cost is known. A reservation stays charged if the process is killed, or if the request
fails without a report of its cost.
"""

from __future__ import annotations

import asyncio
import errno
import json
import math
import os
import secrets
import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragc.core.digest import add_digest, verify_digest
from ragc.errors import BudgetExhausted, StoreError
from ragc.recipe import Budget
from ragc.targets.charges import Need, Wanted

if TYPE_CHECKING:
    from ragc.optimizers.candidates.trial import TrialResult

NEW_ANSWERS = 0.5
"""Answers that the search without a fold is taken to ask anew, as a share of those on all questions.

Searches of knobs ask far fewer (`experiments/benchmarks/scoring/cross_validation.py`), those of
demonstrations, which are others without a fold, up to all.
"""

FIRST = 10_000
"""The most charges whose costs are kept apart."""

_WORDS = {"lm_calls": "LM calls", "tokens": "tokens", "usd": "dollars", "minutes": "minutes"}


@dataclass(frozen=True, slots=True)
class Spare:
    """The amount that is held back beside the cost of calls, so that the last of them fits too.

    A call reserves more than it costs: `calls` times its mean cost, and `tokens` and `usd` for its reply.
    """

    calls: float = 0.0
    tokens: int = 0
    usd: float = 0.0


@dataclass(slots=True)
class Spent:
    """Some of the charges of a study."""

    calls: int = 0
    tokens: int = 0
    usd: float = 0.0

    def add(self, tokens: int, usd: float) -> None:
        """Adds one call."""
        self.calls, self.tokens, self.usd = self.calls + 1, self.tokens + tokens, self.usd + usd


def all_charges(ledger: FileLedger) -> Spent:
    """Returns all charges of a study so far, by earlier processes too."""
    return Spent(ledger.calls, ledger.tokens, ledger.usd)


def budget_error(what: str, limits: Budget) -> BudgetExhausted:
    """Returns the error of a request that exceeds `limits`; `what` is lm_calls, tokens, usd or minutes."""
    limit = getattr(limits, what)
    return BudgetExhausted(f"The budget of {_amount(what, limit)} is spent; raise budget.{what} to go on.")


def _amount(what: str, limit: float) -> str:
    """Returns `limit` with its unit, as in `200 LM calls` and `0.05 dollars`."""
    number = f"{limit:g}" if what in ("usd", "minutes") else f"{limit:.0f}"
    return f"{number} {_WORDS[what]}"


def answers_left(limits: Budget, ledger: FileLedger, base: TrialResult) -> float:
    """Returns how many answers `limits` still allow after `ledger`, at the mean cost of those of `base`.

    Infinite without a limit on calls, tokens or dollars.
    """
    cost, questions = base.counters, len(base.scores)
    rooms = [
        (limits.lm_calls, ledger.calls, cost.get("lm_calls", 0)),
        (limits.tokens, ledger.tokens, base.tokens),
        (limits.usd, ledger.usd, cost.get("usd", 0)),
    ]
    answers = [
        (limit - spent) * questions / each for limit, spent, each in rooms if limit is not None and each
    ]
    return min(answers, default=math.inf)


def share_until(search: int, folds: int) -> float:
    """Returns the share of a budget that may be spent when a search of a cross-validation ends.

    Search 0 is that on all questions, search 1 that without the first of `folds` folds. Without folds all.
    """
    return (1 + search * NEW_ANSWERS) / (1 + folds * NEW_ANSWERS)


class FileLedger:
    """A ledger in an append-only file, which a resumed study reads again.

        {"reserve": N, "key": K, "tokens": n, "usd": x}   before a try is sent
        {"key": K, "tokens": n, "usd": x, "try": N}       what it cost; without "try", of a stored reply
        {"keep": N}, {"release": N}                       it failed: charged as reserved, or not at all

    Each line carries its own digest. Tries of an earlier process that it neither settled nor released stay
    charged at their reservation. Raises StoreError if the file cannot be read or a line is damaged, because
    the total would be too low.
    """

    def __init__(self, path: Path | None, budget: Budget) -> None:
        self.budget = budget
        self.calls = 0
        self.tokens = 0
        self.usd = 0.0
        self.replayed = Spent()
        self._charged: set[str] = set()
        self._reserved: dict[str, Need] = {}
        self._lost: set[str] = set()
        self._reserved_tokens, self._reserved_usd = 0, 0.0
        self._waiting: list[asyncio.Future[None]] = []
        self._name, self._tries = secrets.token_hex(4), 0
        self._held, self._price, self._spare = 0, (0.0, 0.0), Spare()
        self._first: list[tuple[int, float]] = []
        self._spent_before = 0.0
        self._started: float | None = None
        self._file: Any = None
        self._path = path
        self._torn = 0
        if path is not None and path.exists():
            self._read(path)

    def _read(self, path: Path) -> None:
        """Reads the charges of earlier processes; a last line cut off by a kill is ignored."""
        try:
            content = path.read_bytes()
            lines = content.rstrip(b"\0").splitlines(keepends=True)
        except OSError as error:
            raise StoreError(
                f"What the study spent cannot be read from {path} ({error.strerror or error}); grant access "
                "to it, or leave --resume out to begin anew."
            ) from error
        if lines and _is_torn(lines[-1]):
            lines.pop()
        self._torn = len(content) - sum(map(len, lines))  # with zeros that a power loss left
        for number, line in enumerate(lines, start=1):
            if not self._take(_charge(line)):
                raise StoreError(
                    f"{path} is damaged in line {number}, so what the study spent is not known; leave "
                    "--resume out to begin anew (what was answered is replayed, and counted again), or "
                    "move the file away to count from 0."
                )
        for unsettled in list(self._reserved):  # its process was killed before it knew what they cost
            self._lost.add(self._reserved[unsettled].key)
            self._charge_reserve(self._end(unsettled))

    def _take(self, row: dict[str, Any] | None) -> bool:
        """Applies one line of the file; returns False if it is no valid charge."""
        if row is None:
            return False
        try:
            if row.keys() == {"minutes"}:
                self._spent_before = max(self._spent_before, float(row["minutes"]))
            elif row.keys() in ({"keep"}, {"release"}):
                ended = self._end(str(row.get("keep", row.get("release"))))
                if "keep" in row:
                    self._charge_reserve(ended)
            elif row.keys() - {"try", "reserve"} == {"key", "tokens", "usd"}:
                return self._take_amount(row)
            else:
                return False
        except (ValueError, TypeError, OverflowError):
            return False
        return True

    def _take_amount(self, row: Mapping[str, Any]) -> bool:
        """Applies a line with an amount: a charge or a reservation; returns False if it is invalid."""
        key, tokens, usd = str(row["key"]), int(row["tokens"]), float(row["usd"])
        if tokens < 0 or not 0 <= usd < math.inf:
            return False
        if "reserve" in row:
            self._begin(str(row["reserve"]), Need(key, tokens, usd))
        else:
            if sent := "try" in row:
                self._end(str(row["try"]))
            self._add(key, tokens, usd, sent=sent)
        return True

    def _begin(self, number: str, need: Need) -> None:
        self._reserved[number] = need
        self._reserved_tokens += need.tokens
        self._reserved_usd += need.usd

    def _end(self, number: str) -> Need | None:
        """Frees and returns what the try `number` had reserved; None for an unknown try."""
        reserved = self._reserved.pop(number, None)
        if reserved is not None:
            self._reserved_tokens -= reserved.tokens
            self._reserved_usd = math.fsum(need.usd for need in self._reserved.values())
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)
        return reserved

    def _charge_reserve(self, reserved: Need | None) -> None:
        """Charges a failed try as it was reserved. Its request does not count as answered."""
        if reserved is not None:
            self._count(reserved.tokens, reserved.usd)

    def _add(self, key: str, tokens: int, usd: float, *, sent: bool = False) -> bool:
        """Charges the request `key`; a request charged before only if it was `sent` again."""
        if key in self._charged and not sent:
            return False
        if len(self._first) < FIRST and key not in self._charged:
            self._first.append((tokens, usd))
        self._charged.add(key)
        self._count(tokens, usd)
        if not sent:
            self.replayed.add(tokens, usd)
        return True

    def _count(self, tokens: int, usd: float) -> None:
        self.calls += 1
        self.tokens += tokens
        self.usd += usd

    def _start(self) -> None:
        if self._started is None:
            self._started = time.monotonic()

    @property
    def limits_usd(self) -> bool:
        """Whether dollars are limited, so that every request needs a price."""
        return self.budget.usd is not None

    @property
    def minutes(self) -> float:
        """Minutes spent by earlier processes and by this one since its first request."""
        return self._spent_before + (0.0 if self._started is None else time.monotonic() - self._started) / 60

    def hold(self, calls: int) -> None:
        """Holds back `calls` LM calls for later, and their cost; 0 releases them."""
        self._held = calls

    def price_held(self, calls: int, longer: float, spare: Spare) -> tuple[float, float]:
        """Sets the cost of held-back calls by the first `calls` charges, which do not change."""
        first = self._first[: max(1, calls)] or [(0, 0.0)]
        tokens, usd = (longer * sum(column) / len(first) for column in zip(*first, strict=True))
        self._price, self._spare = (tokens, usd), spare
        return self._price

    def held_back(self, calls: int) -> tuple[float, float]:
        """Returns the tokens and dollars that are held back with `calls`."""
        if not calls:
            return 0.0, 0.0
        tokens, usd = ((calls + self._spare.calls) * price for price in self._price)
        return tokens + self._spare.tokens, usd + self._spare.usd

    def _refused(self, needs: Sequence[Need], *, settled: bool) -> BudgetExhausted | None:
        """Returns the error if `needs` do not fit; None if they do.

        With `settled`, tries in flight count as free, so an error means that `needs` can never fit.
        """
        calls, tokens, usd = len(needs), sum(need.tokens for need in needs), sum(need.usd for need in needs)
        if not settled:
            calls += len(self._reserved)
            tokens += self._reserved_tokens
            usd += self._reserved_usd
        held_tokens, held_usd = self.held_back(self._held)
        amounts = {
            "lm_calls": self.calls + self._held + calls,
            "tokens": self.tokens + held_tokens + tokens,
            "usd": self.usd + held_usd + usd,
            "minutes": self.minutes,
        }
        for what, amount in amounts.items():
            if (limit := getattr(self.budget, what)) is not None and _exceeds(what, amount, limit):
                return budget_error(what, self.budget)
        return None

    async def reserve(self, needs: Sequence[Need], wanted: Wanted = lambda: True) -> list[str]:
        """Reserves all of `needs`, or none; returns the numbers of the tries.

        While they do not fit, waits for tries in flight, which mostly cost less than they reserved. Raises
        BudgetExhausted once they cannot fit, or nothing is in flight; CancelledError if no longer `wanted`.
        """
        self._start()
        while error := self._refused(needs, settled=False):
            never = self._refused(needs, settled=True)
            if never or not self._reserved:
                raise never or error
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            try:
                await future
            finally:
                with suppress(ValueError):
                    self._waiting.remove(future)
            if not wanted():
                raise asyncio.CancelledError
        rows = list[Mapping[str, Any]]()
        numbers = list[str]()
        for need in needs:
            self._tries += 1
            number = f"{self._name}-{self._tries}"
            numbers.append(number)
            rows.append({"reserve": number, "key": need.key, "tokens": need.tokens, "usd": need.usd})
        self._write(*rows)
        for number, need in zip(numbers, needs, strict=True):
            self._begin(number, need)
        return numbers

    def settle(self, number: str, tokens: int, usd: float) -> None:
        """Replaces the reservation of the try `number` by its cost."""
        reserved = self._end(number)
        if reserved is None:
            return
        self._add(reserved.key, tokens, usd, sent=True)
        charge = {"key": reserved.key, "tokens": tokens, "usd": usd, "try": number}
        self._write(charge, {"minutes": round(self.minutes, 4)})

    def charge_in_full(self, number: str) -> None:
        """Charges the try `number` as it was reserved."""
        if (reserved := self._end(number)) is not None:
            self._charge_reserve(reserved)
            self._write({"keep": number})

    def release(self, number: str) -> None:
        """Charges nothing for the try `number`."""
        if self._end(number) is not None:
            self._write({"release": number})

    def replay(self, key: str, tokens: int, usd: float) -> None:
        """Charges a stored reply; a request that was charged before is free.

        So is a request that an earlier process reserved and never settled: its reservation is charged.
        """
        self._start()
        if key not in self._lost and self._add(key, tokens, usd):
            charge = {"key": key, "tokens": tokens, "usd": usd}
            self._write(charge, {"minutes": round(self.minutes, 4)})

    def _write(self, *rows: Mapping[str, Any]) -> None:
        """Appends `rows` to the file, in one write, so that a kill leaves all or none."""
        if self._path is None:
            return
        if self._file is None:
            self._file = self._path.open("ab", buffering=0)
            weakref.finalize(self, self._file.close)  # an Optuna objective is dropped, never closed
            if self._torn:
                self._file.truncate(self._path.stat().st_size - self._torn)
        text = "".join(json.dumps(add_digest(dict(row))) + "\n" for row in rows).encode()
        before = self._file.seek(0, 2)
        try:
            written = self._file.write(text)
            if written != len(text):  # a full disk: unbuffered, it writes a part and says nothing
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
        except OSError:
            with suppress(OSError):
                self._file.truncate(before)  # else the next line would begin in the middle of this one
            raise

    def close(self) -> None:
        """Closes the file. Later charges, for requests still in flight, are not written."""
        held, self._file, self._path = self._file, None, None
        if held is not None:
            held.close()


def _charge(line: bytes) -> dict[str, Any] | None:
    """Returns the charge in a line; None if it is damaged."""
    try:
        return verify_digest(json.loads(line))
    except (ValueError, RecursionError):
        return None


def _exceeds(what: str, amount: float, limit: float) -> bool:
    """Returns whether `amount` is too much: minutes are spent when reached, the rest when passed."""
    return amount >= limit if what == "minutes" else amount > limit


def _is_torn(line: bytes) -> bool:
    """Returns whether `line`, the last of the file, was cut off by a kill or a power loss, its newline alone
    too.
    """
    begun = b"}" not in line and line[:1] in (b"{", b"")
    return not line.endswith(b"\n") and (begun or _charge(line) is not None)
