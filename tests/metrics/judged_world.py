"""Two systems, a judge that treats them unlike, and labels of a person, all drawn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class World:
    """The systems a and b on `n` questions: right with probability `right` and `right` + `gain`.

    The judge passes wrong answers with the probabilities `passes` and fails right ones with `fails`.
    """

    n: int
    labels: int
    passes: tuple[float, float]
    right: float = 0.5
    gain: float = 0.0
    fails: float = 0.05
    same: bool = True

    def draw(self, rng: np.random.Generator) -> tuple[list[Array], list[dict[int, float]]]:
        """The judge's scores and the labels of both systems."""
        easy = rng.beta(1.0, 1.0, self.n)
        scores, labels = [], []
        both = rng.choice(self.n, self.labels, replace=False)
        for passed, share in zip(self.passes, (self.right, self.right + self.gain), strict=True):
            truth = (0.5 * easy + 0.5 * rng.random(self.n)) < _quantile(share)
            judged = np.where(truth, rng.random(self.n) > self.fails, rng.random(self.n) < passed)
            scores.append(judged.astype(float))
            at = both if self.same else rng.choice(self.n, self.labels, replace=False)
            labels.append({int(i): float(truth[i]) for i in at})
        return scores, labels


def _quantile(share: float) -> float:
    """The value that the mean of two uniform numbers is under with probability `share`."""
    return float((share / 2) ** 0.5 if share <= 0.5 else 1 - ((1 - share) / 2) ** 0.5)
