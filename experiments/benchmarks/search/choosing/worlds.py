"""One task for a search: a table of scores that it pays for, answer by answer, within a budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass
class World:
    """A table of `scores`, shape (settings, dev questions), of which a search may ask for `budget` cells.

    `settings` are mappings from column to value, `baseline` is the number of one. Where they are not all
    combinations of their values, a proposal becomes the nearest of them (`nearest`). `values` are their true
    mean scores, shape (settings,), or those on held-out questions. A cell costs one answer the first time.
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

    @cached_property
    def columns(self) -> dict[str, list[Any]]:
        """The values of each column that varies, in order."""
        names = sorted({name for setting in self.settings for name in setting})
        values = {
            name: sorted({repr(s[name]): s[name] for s in self.settings}.values(), key=_order)
            for name in names
        }
        return {name: options for name, options in values.items() if len(options) > 1}

    @cached_property
    def codes(self) -> NDArray[np.int_]:
        """The settings as numbers of values, shape (settings, columns)."""
        labels = [[repr(value) for value in options] for options in self.columns.values()]
        rows = [
            [label.index(repr(s[name])) for name, label in zip(self.columns, labels, strict=True)]
            for s in self.settings
        ]
        return np.array(rows, dtype=int).reshape(len(self.settings), len(labels))

    def nearest(self, codes: Sequence[int], among: Sequence[int] | None = None) -> int:
        """The setting of `among` that has most values of `codes`; the first of equals."""
        pool = np.arange(len(self.settings)) if among is None else np.asarray(among)
        return int(pool[int((self.codes[pool] == np.asarray(codes)).sum(1).argmax())])

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

    def cut(self, questions: int) -> World:
        """The same task on its first `questions` dev questions, of which nothing was asked."""
        return replace(self, scores=self.scores[:, :questions])


def _order(value: Any) -> tuple[bool, float, str]:
    """Numbers in their order, then everything else by its text."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return (not number, float(value) if number else 0.0, repr(value))


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
