"""The demonstrations that a study collected, with the scores that earned them, and sets drawn from them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragc.optimizers.balancing import balanced
from ragc.optimizers.demonstration import ByPredictor, Demo, Demonstration
from ragc.recipe_spec import BALANCED, BOOTSTRAPPED, FILLED, LABELLED


@dataclass(frozen=True, slots=True)
class Pool:
    """Demonstrations by predictor, each list in the order of the train questions that they come from.

    `earned` are the scores of the questions that earned the bootstrapped ones, which come first; `labelled`
    counts those that follow. `asked` is how many questions were tried and `counters` what that cost.
    `taught` are labelled ones of all train questions, where a study wants those alone, and `judged` are more
    bootstrapped ones of judgement calls, of which a question may make many.
    """

    kept: ByPredictor
    earned: tuple[float, ...]
    asked: int
    labelled: int = 0
    counters: Mapping[str, float] = field(default_factory=dict)
    taught: ByPredictor = field(default_factory=dict)
    judged: ByPredictor = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """JSON values only; `of` is the inverse."""
        return {
            "demos": _written(self.kept),
            "taught": _written(self.taught),
            "judged": _written(self.judged),
            "earned": list(self.earned),
            "asked": self.asked,
            "labelled": self.labelled,
            "counters": dict(self.counters),
        }

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Pool:
        """The pool that `to_json` described."""
        kept, taught, judged = (_read(value[name]) for name in ("demos", "taught", "judged"))
        earned, counts = tuple(value["earned"]), dict(value["counters"])
        return cls(kept, earned, int(value["asked"]), int(value["labelled"]), counts, taught, judged)

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

    def drawn(
        self, predictor: str, number: int, size: int | None, seed: int, kind: str = FILLED
    ) -> tuple[Demonstration, ...]:
        """At most `size` demonstrations of `predictor` in the order of set `number`, of a `kind`.

        Kinds that are a matter of the questions or of the moment (cross-domain, nearest) are filled ones.
        A predictor that has no labels to balance shows filled ones too.
        """
        found = self._of(kind, predictor)
        if kind == BALANCED and any(one.label for one in found):
            return balanced(found, number, size, seed)
        return tuple(_ordered(found, number, seed)[:size])

    def _of(self, kind: str, predictor: str) -> Sequence[Demonstration]:
        kept = self.kept.get(predictor, ())
        if kind == BOOTSTRAPPED:
            return [one for one in kept if one.score is not None]
        if kind == LABELLED:
            return self.taught.get(predictor, ())
        if kind == BALANCED:
            known = [one.values for one in kept]
            return [*kept, *(one for one in self.judged.get(predictor, ()) if one.values not in known)]
        return kept


def _written(found: ByPredictor) -> dict[str, Any]:
    return {name: [one.to_json() for one in kept] for name, kept in found.items()}


def _read(value: Mapping[str, Any]) -> dict[str, tuple[Demonstration, ...]]:
    return {name: tuple(map(Demonstration.of, found)) for name, found in value.items()}


def _ordered(found: Sequence[Demonstration], number: int, seed: int) -> Sequence[Demonstration]:
    """Set 0 keeps the order; every other one is shuffled, lists of equal length alike."""
    if not number:
        return found
    order = list(range(len(found)))
    random.Random(f"demos {seed} {number}").shuffle(order)
    return [found[place] for place in order]
