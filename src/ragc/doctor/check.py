"""One check of `ragc doctor`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Check:
    """The result of a check.

    `needed` is False for what only some recipes use, and for what repairs itself.
    """

    id: str
    ok: bool
    found: str
    needed: bool = True

    def to_json(self) -> dict[str, Any]:
        """JSON values only."""
        return asdict(self)
