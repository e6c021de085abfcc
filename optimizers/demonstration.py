"""One demonstration of a typed call, with what earned it its place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Demo = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Demonstration:
    """One demonstration of a typed call: its `values` by field name.

    `score` (0..1) is what the question that it comes from scored; None where the gold answer stood in for
    the model's. `label` is what a judgement call decided, as JSON; "" for other calls.
    """

    values: Demo
    score: float | None = None
    label: str = ""

    def to_json(self) -> dict[str, Any]:
        """JSON values only; `of` is the inverse."""
        label = {"label": self.label} if self.label else {}
        return {"values": dict(self.values), "score": self.score, **label}

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Demonstration:
        """The demonstration that `to_json` described."""
        return cls(value["values"], value["score"], value.get("label", ""))


ByPredictor = Mapping[str, tuple[Demonstration, ...]]
