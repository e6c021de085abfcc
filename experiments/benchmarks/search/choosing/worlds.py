"""What a search sees: a table of scores that it pays for, answer by answer, within a budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass
class World:
    """One task for a search: `scores` on dev questions, of which it may ask for `budget` cells.

    `settings` are mappings from column to value, `baseline` is the number of one. `values` are their true
    mean scores, or those on held-out questions. A cell costs one answer the first time.
    """

    settings: Sequence[Mapping[str, Any]]
    baseline: int
    scores: Array
    values: Array
    budget: int
    seen: NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        self.seen = np.zeros(self.scores.shape, dtype=bool)

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of settings and of dev questions."""
        return self.scores.shape[0], self.scores.shape[1]

    @property
    def left(self) -> int:
        """The answers that may still be asked for."""
        return self.budget - int(self.seen.sum())

    def answer(self, setting: int, questions: Sequence[int] | NDArray[np.int_]) -> Array:
        """The scores of `setting` on `questions`, without fresh ones that the budget does not pay for."""
        chosen = np.asarray(questions, dtype=int)
        known = self.seen[setting, chosen]
        chosen = chosen[known | (np.cumsum(~known) <= self.left)]
        self.seen[setting, chosen] = True
        answers: Array = self.scores[setting, chosen]
        return answers

    def affords(self, setting: int, questions: int) -> bool:
        """Whether the budget pays for the first `questions` dev questions of `setting`."""
        return int((~self.seen[setting, :questions]).sum()) <= self.left

    def mean(self, setting: int) -> float:
        """The mean of the scores of `setting` seen so far; 0 if there is none."""
        seen = self.seen[setting]
        return float(self.scores[setting, seen].mean()) if seen.any() else 0.0


@dataclass(frozen=True, slots=True)
class Pick:
    """The setting that a search ends with, and the mean score that it says to expect."""

    setting: int
    expected: float


def regret(world: World, setting: int) -> float:
    """(best - chosen) / (best - median) of the true values: 0 is the best setting, 1 the median.

    0 where all values are equal.
    """
    best, median = float(world.values.max()), float(np.median(world.values))
    return (best - float(world.values[setting])) / (best - median) if best > median else 0.0
