"""The seconds of each request, remembered with its key, so that a replayed one still has them.

    $RAGC_HOME/grids/NAME-<digest>/seconds.jsonl    {"key": ..., "seconds": ...}    one line a request sent

The settings of a grid share requests, and a recording that was killed replays what it sent. What a setting
takes is therefore the sum over its requests of what each took when it was sent.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from ragc.optimizers.budget import FileLedger
from ragc.recipe import Budget

_current: ContextVar[set[str] | None] = ContextVar("ragc_grid_requests", default=None)


class TimedLedger(FileLedger):
    """The budget of a recording, which also measures each request from its permission to its reply.

    `folder` holds both files; None keeps nothing. Requests in flight share a model, so seconds are those of a
    recording with as many in flight.
    """

    def __init__(self, folder: Path | None, budget: Budget) -> None:
        super().__init__(None if folder is None else folder / "charges.jsonl", budget)
        self._seconds: dict[str, float] = {}
        self._begun: dict[str, float] = {}
        self._times = None if folder is None else folder / "seconds.jsonl"
        if self._times is not None and self._times.exists():
            for line in self._times.read_bytes().splitlines():
                with suppress(ValueError, LookupError, TypeError, RecursionError):  # cut off by a kill
                    row = json.loads(line)
                    self._seconds[str(row["key"])] = float(row["seconds"])
        self._lines = None if self._times is None else self._times.open("ab")
        if self._lines is not None:
            self._lines.write(b"\n" if self._lines.tell() else b"")

    def reserve(self, key: str, tokens: int) -> None:
        """As in FileLedger; the clock of the request starts."""
        super().reserve(key, tokens)
        self._begun[key] = time.monotonic()

    def settle(self, key: str, tokens: int, usd: float) -> None:
        """As in FileLedger; the clock of a request that was sent stops."""
        super().settle(key, tokens, usd)
        started = self._begun.pop(key, None)
        if started is not None:
            self._seconds[key] = time.monotonic() - started
            if self._lines is not None:
                row = {"key": key, "seconds": round(self._seconds[key], 4)}
                self._lines.write(json.dumps(row).encode() + b"\n")
                self._lines.flush()
        if (requests := _current.get()) is not None:
            requests.add(key)

    def release(self, key: str) -> None:
        """As in FileLedger; the clock of a failed request is dropped."""
        super().release(key)
        self._begun.pop(key, None)

    def seconds(self, requests: set[str]) -> float:
        """The seconds of `requests` together; NaN if one was answered before the recording."""
        return sum((self._seconds.get(key, math.nan) for key in requests), 0.0)

    def close(self) -> None:
        """Closes both files."""
        super().close()
        held, self._lines = self._lines, None
        if held is not None:
            held.close()


@contextmanager
def collecting() -> Iterator[set[str]]:
    """Collects the keys of the requests that this context makes, replayed ones among them."""
    requests: set[str] = set()
    token = _current.set(requests)
    try:
        yield requests
    finally:
        _current.reset(token)
