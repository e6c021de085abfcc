"""Leaving a dead endpoint alone: after several failures in a row calls fail at once, for a while."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ragc.errors import TargetUnavailable

T = TypeVar("T")
Clock = Callable[[], float]


class Breaker:
    """Guards the calls to one endpoint.

    After `break_after` calls in a row that ended in TargetUnavailable, calls fail at once for `cool_down_s`
    seconds. Then one call is let through: it closes the breaker when the endpoint answers, and opens it for
    as long again when it does not. Any answer, a refusal of the request itself too, closes it. `clock`
    gives seconds that only grow.
    """

    def __init__(
        self, endpoint: str, *, break_after: int = 5, cool_down_s: float = 30.0, clock: Clock = time.monotonic
    ) -> None:
        self.endpoint, self.break_after, self.cool_down_s = endpoint, break_after, cool_down_s
        self.failures = 0
        self._clock = clock
        self._opens_at = 0.0
        self._trying = False
        self._why = ""

    @property
    def open(self) -> bool:
        """Whether calls fail at once, but for the one that tries the endpoint again."""
        return self.failures >= self.break_after

    async def call(self, work: Callable[[], Awaitable[T]]) -> T:
        """What `work` returns. Raises TargetUnavailable without calling it while the breaker is open."""
        trial = self.open
        if trial:
            self._refuse_or_try()
        try:
            answer = await work()
        except TargetUnavailable as error:
            self._failed(error, trial=trial)
            raise
        except Exception:
            self.failures = 0  # it did answer, though not as asked
            raise
        else:
            self.failures = 0
            return answer
        finally:
            if trial:
                self._trying = False

    def _refuse_or_try(self) -> None:
        left = self._opens_at - self._clock()
        if left <= 0 and not self._trying:
            self._trying = True
            return
        then = "is being tried again now" if left <= 0 else f"is tried again in {left:.0f} s"
        text = (
            f"{self.endpoint} failed {self.failures} calls in a row and {then}; the last failure: {self._why}"
        )
        raise TargetUnavailable(text, endpoint=self.endpoint)

    def _failed(self, error: TargetUnavailable, *, trial: bool) -> None:
        was_open = self.open
        self.failures += 1
        self._why = str(error)
        if trial or (self.open and not was_open):
            self._opens_at = self._clock() + self.cool_down_s
