"""The seconds of each request, stored with its key, so that a replayed request still has them.

    $RAGC_HOME/grids/NAME-<digest>/seconds.jsonl    {"key": ..., "seconds": ...}    one line a request sent

The settings of a grid share requests, and a resumed recording replays the requests sent before. The seconds
of a setting are therefore the sum, over its requests, of the seconds measured when each was sent.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from ragc.recipe import Budget
from ragc.targets.charges import Need, Wanted
from ragc.task.budget import FileLedger

_sent: ContextVar[list[str] | None] = ContextVar("ragc_grid_requests", default=None)


class NotingLedger(FileLedger):
    """A ledger that also notes, within `noting`, the requests that were charged, sent or replayed."""

    def replay(self, key: str, tokens: int, usd: float) -> None:
        """Charges as `FileLedger` does."""
        if (sent := _sent.get()) is not None:
            sent.append(key)
        super().replay(key, tokens, usd)


@contextmanager
def noting() -> Iterator[list[str]]:
    """Collects the keys of all requests made until exit, including those of tasks started inside."""
    sent: list[str] = []
    token = _sent.set(sent)
    try:
        yield sent
    finally:
        _sent.reset(token)


class TimedLedger(NotingLedger):
    """The budget of a recording, which also measures each request from its permission to its reply.

    `folder` holds both files; None stores nothing. Requests in flight share a model, so seconds depend on how
    many are in flight.
    """

    def __init__(self, folder: Path | None, budget: Budget) -> None:
        super().__init__(None if folder is None else folder / "charges.jsonl", budget)
        self._seconds: dict[str, float] = {}
        self._begun: dict[str, tuple[str, float]] = {}
        self._times = None if folder is None else folder / "seconds.jsonl"
        if self._times is not None and self._times.exists():
            for line in self._times.read_bytes().splitlines():
                with suppress(ValueError, LookupError, TypeError, RecursionError):  # cut off by a kill
                    row = json.loads(line)
                    self._seconds[str(row["key"])] = float(row["seconds"])
        self._lines = None if self._times is None else self._times.open("ab")
        if self._lines is not None:
            self._lines.write(b"\n" if self._lines.tell() else b"")

    async def reserve(self, needs: Sequence[Need], wanted: Wanted = lambda: True) -> list[str]:
        """Reserves as FileLedger does, and starts the clocks of the requests."""
        numbers = await super().reserve(needs, wanted)
        for number, need in zip(numbers, needs, strict=True):
            self._begun[number] = need.key, time.monotonic()
        return numbers

    def settle(self, number: str, tokens: int, usd: float) -> None:
        """Settles as FileLedger does, and stops the clock of the answered request."""
        super().settle(number, tokens, usd)
        key, started = self._begun.pop(number, ("", 0.0))
        if key:
            self._seconds[key] = time.monotonic() - started
            if self._lines is not None:
                row = {"key": key, "seconds": round(self._seconds[key], 4)}
                self._lines.write(json.dumps(row).encode() + b"\n")
                self._lines.flush()

    def charge_in_full(self, number: str) -> None:
        """Keeps the charge as FileLedger does, and drops the clock of the failed request."""
        super().charge_in_full(number)
        self._begun.pop(number, None)

    def release(self, number: str) -> None:
        """Releases as FileLedger does, and drops the clock of the failed request."""
        super().release(number)
        self._begun.pop(number, None)

    def seconds(self, requests: Iterable[str]) -> float:
        """Returns the seconds of `requests` together, each once; NaN if one is from before the recording."""
        return sum((self._seconds.get(key, math.nan) for key in dict.fromkeys(requests)), 0.0)

    def close(self) -> None:
        """Closes both files."""
        super().close()
        held, self._lines = self._lines, None
        if held is not None:
            held.close()
