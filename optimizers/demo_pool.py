"""The demonstrations that a study collected, with the scores that earned them, and sets drawn from them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Demo = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Demonstration:
    """One demonstration of a typed call: its `values` by field name.

    `score` (0..1) is what the question that it comes from scored; None where the gold answer stood in for
    the model's.
    """

    values: Demo
    score: float | None = None

    def to_json(self) -> dict[str, Any]:
        """JSON values only; `of` is the inverse."""
        return {"values": dict(self.values), "score": self.score}

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Demonstration:
        """The demonstration that `to_json` described."""
        return cls(value["values"], value["score"])


ByPredictor = Mapping[str, tuple[Demonstration, ...]]


@dataclass(frozen=True, slots=True)
class Pool:
    """Demonstrations by predictor, each list in the order of the train questions that they come from.

    `earned` are the scores of the questions that earned the bootstrapped ones, which come first; `labelled`
    counts those that follow. `asked` is how many questions were tried and `counters` what that cost.
    """

    kept: ByPredictor
    earned: tuple[float, ...]
    asked: int
    labelled: int = 0
    counters: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """JSON values only; `of` is the inverse."""
        return {
            "demos": {name: [one.to_json() for one in kept] for name, kept in self.kept.items()},
            "earned": list(self.earned),
            "asked": self.asked,
            "labelled": self.labelled,
            "counters": dict(self.counters),
        }

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Pool:
        """The pool that `to_json` described."""
        kept = {name: tuple(map(Demonstration.of, found)) for name, found in value["demos"].items()}
        earned, counts = tuple(value["earned"]), dict(value["counters"])
        return cls(kept, earned, int(value["asked"]), int(value["labelled"]), counts)

    @property
    def demos(self) -> dict[str, tuple[Demo, ...]]:
        """The values alone, by predictor."""
        return {name: tuple(one.values for one in kept) for name, kept in self.kept.items()}

    @property
    def size(self) -> int:
        """The most demonstrations that any predictor has."""
        return max((len(kept) for kept in self.kept.values()), default=0)

    def sets(self, count: int, size: int, seed: int) -> list[dict[str, list[Demo]]]:
        """`count` orderings of the pool, each cut to `size` a predictor; the first keeps the order.

        The same arguments give the same sets. Predictors are cut alike, so that the demonstrations
        of one question stay together where each predictor has one for it.
        """
        return [
            {name: [one.values for one in self.drawn(name, number, size, seed)] for name in self.kept}
            for number in range(count)
        ]

    def drawn(self, predictor: str, number: int, size: int, seed: int) -> tuple[Demonstration, ...]:
        """At most `size` demonstrations of `predictor` in the order of set `number`."""
        found = _ordered(self.kept.get(predictor, ()), number, seed)
        return tuple(found[:size])


def _ordered(found: Sequence[Demonstration], number: int, seed: int) -> Sequence[Demonstration]:
    """Set 0 keeps the order; every other one is shuffled, lists of equal length alike."""
    if not number:
        return found
    order = list(range(len(found)))
    random.Random(f"demos {seed} {number}").shuffle(order)
    return [found[place] for place in order]
