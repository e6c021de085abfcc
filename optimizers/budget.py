"""The ledger: hard limits on the spending of a study, persistent across kills.

Each distinct request is charged once, whether it was sent or replayed. Before a request is sent, its greatest
possible cost is checked and reserved until its real cost is known.
"""

from __future__ import annotations

import json
import math
import time
import weakref
from pathlib import Path
from typing import Any, Protocol

from ragc.core.digest import add_digest, verify_digest
from ragc.errors import BudgetExhausted, StoreError
from ragc.recipe import Budget
from ragc.targets.gateway import Ledger

_WORDS = {"lm_calls": "LM calls", "tokens": "tokens", "usd": "dollars", "minutes": "minutes"}


class StudyLedger(Ledger, Protocol):
    """The ledger of a study: `ragc.targets.gateway.Ledger` with the operations of the study itself.

    `calls`, `tokens`, `usd` and `minutes` are the charges so far.
    """

    @property
    def calls(self) -> int: ...  # noqa: D102 - described above

    @property
    def tokens(self) -> int: ...  # noqa: D102

    @property
    def usd(self) -> float: ...  # noqa: D102

    @property
    def minutes(self) -> float: ...  # noqa: D102

    def hold(self, calls: int) -> None:
        """Holds back `calls` LM calls for later; 0 releases them."""
        ...

    def close(self) -> None:
        """Frees open resources."""
        ...


def budget_error(what: str, limits: Budget) -> BudgetExhausted:
    """The error of a request that would exceed `limits`; `what` is lm_calls, tokens, usd or minutes."""
    limit = getattr(limits, what)
    return BudgetExhausted(
        f"The budget of {limit:{'g' if isinstance(limit, float) else ''}} {_WORDS[what]} is spent; "
        f"raise budget.{what} to go on."
    )


class FileLedger:
    """A ledger in an append-only file, one charge a request, which a resumed study reads again.

    Each line carries its own digest. Raises StoreError if the file cannot be read or a line is damaged,
    because the total would be too low.
    """

    def __init__(self, path: Path | None, budget: Budget) -> None:
        self.budget = budget
        self.calls = 0
        self.tokens = 0
        self.usd = 0.0
        self._charged: set[str] = set()
        self._reserved: dict[str, int] = {}
        self._held = 0
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
            lines = path.read_bytes().splitlines(keepends=True)
        except OSError as error:
            raise StoreError(
                f"What the study spent cannot be read from {path} ({error.strerror or error}); grant access "
                "to it, or leave --resume out to begin anew."
            ) from error
        if lines and _is_torn(lines[-1]):
            self._torn = len(lines.pop())
        for number, line in enumerate(lines, start=1):
            if not self._take(_charge(line)):
                raise StoreError(
                    f"{path} is damaged in line {number}, so what the study spent is not known; leave "
                    "--resume out to begin anew (what was answered is replayed, and counted again), or "
                    "move the file away to count from 0."
                )

    def _take(self, row: dict[str, Any] | None) -> bool:
        """Applies one line of the file; False if it is no valid charge."""
        if row is None:
            return False
        try:
            if row.keys() == {"minutes"}:
                self._spent_before = max(self._spent_before, float(row["minutes"]))
            elif row.keys() == {"key", "tokens", "usd"}:
                tokens, usd = int(row["tokens"]), float(row["usd"])
                if tokens < 0 or not 0 <= usd < math.inf:
                    return False
                self._add(str(row["key"]), tokens, usd)
            else:
                return False
        except (ValueError, TypeError, OverflowError):
            return False
        return True

    def _add(self, key: str, tokens: int, usd: float) -> bool:
        if key in self._charged:
            return False
        self._charged.add(key)
        self.calls += 1
        self.tokens += tokens
        self.usd += usd
        return True

    def _start(self) -> None:
        if self._started is None:
            self._started = time.monotonic()

    @property
    def minutes(self) -> float:
        """Minutes spent by earlier processes and by this one since its first request."""
        return self._spent_before + (0.0 if self._started is None else time.monotonic() - self._started) / 60

    def hold(self, calls: int) -> None:
        """Holds back `calls` LM calls for later; 0 releases them."""
        self._held = calls

    def reserve(self, key: str, tokens: int) -> None:
        """Reserves one call of at most `tokens`. Raises BudgetExhausted if it does not fit."""
        self._start()
        if key in self._charged or key in self._reserved:
            return
        limits = self.budget
        calls = self.calls + len(self._reserved) + self._held + 1
        if limits.lm_calls is not None and calls > limits.lm_calls:
            raise budget_error("lm_calls", limits)
        due = self.tokens + sum(self._reserved.values()) + tokens
        if limits.tokens is not None and due > limits.tokens:
            raise budget_error("tokens", limits)
        if limits.usd is not None and self.usd >= limits.usd:
            raise budget_error("usd", limits)
        if limits.minutes is not None and self.minutes >= limits.minutes:
            raise budget_error("minutes", limits)
        self._reserved[key] = tokens

    def settle(self, key: str, tokens: int, usd: float) -> None:
        """Charges the cost of a request; a request that was charged before costs nothing."""
        self._start()
        self._reserved.pop(key, None)
        if self._add(key, tokens, usd) and self._path is not None:
            if self._file is None:
                self._file = self._path.open("ab")
                weakref.finalize(self, self._file.close)  # an Optuna objective is dropped, never closed
                if self._torn:
                    self._file.truncate(self._path.stat().st_size - self._torn)
            rows = {"key": key, "tokens": tokens, "usd": usd}, {"minutes": round(self.minutes, 4)}
            self._file.write("".join(json.dumps(add_digest(row)) + "\n" for row in rows).encode())
            self._file.flush()

    def release(self, key: str) -> None:
        """Releases the reservation of a failed request."""
        self._reserved.pop(key, None)

    def close(self) -> None:
        """Closes the file. Later charges, for requests still in flight, are not written."""
        held, self._file, self._path = self._file, None, None
        if held is not None:
            held.close()


def _charge(line: bytes) -> dict[str, Any] | None:
    """The charge in a line; None if it is damaged. Lines of older versions have no digest."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if isinstance(row, dict) and row.keys() in ({"minutes"}, {"key", "tokens", "usd"}):
        return row
    return verify_digest(row)


def _is_torn(line: bytes) -> bool:
    """Whether `line`, the last of the file, was cut off by a kill."""
    return not line.endswith(b"\n") and b"}" not in line and line[:1] in (b"{", b"")
