"""What a loopback server was asked, and when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Call:
    """One request: a digest of its body, and when it came and was answered, in seconds of `time.time`."""

    key: str
    came: float
    went: float | None = None


@dataclass
class Log:
    """What a server was asked. `peak` is the most requests ever in flight."""

    calls: list[Call] = field(default_factory=list)
    peak: int = 0

    @property
    def requests(self) -> int:
        """All requests."""
        return len(self.calls)

    @property
    def distinct(self) -> int:
        """Requests that differ."""
        return len({call.key for call in self.calls})

    @property
    def repeats(self) -> int:
        """Requests that had come before."""
        return self.requests - self.distinct

    def mean_in_flight(self) -> float:
        """Requests in flight on average, from the first that came to the last that was answered."""
        ends = [(call.came, call.went) for call in self.calls if call.went is not None]
        if not ends:
            return 0.0
        span = max(went for _, went in ends) - min(came for came, _ in ends)
        return sum(went - came for came, went in ends) / span if span else 0.0

    def to_json(self) -> dict[str, Any]:
        """JSON values only; `of` is the inverse."""
        return {"peak": self.peak, "calls": [[call.key, call.came, call.went] for call in self.calls]}

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Log:
        """The log that `to_json` described."""
        return cls([Call(*call) for call in value["calls"]], int(value["peak"]))
