"""One check of `ragc doctor`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Check:
    """The result of a check.

    `needed` is False for things that only some recipes use, and for those that repair themselves.
    """

    id: str
    ok: bool
    found: str
    needed: bool = True

    def to_json(self) -> dict[str, Any]:
        """Returns JSON values only."""
        return asdict(self)
