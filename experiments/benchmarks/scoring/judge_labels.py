"""A judge that treats two systems unlike, corrected by labels of a person, by simulation.

    PYTHONPATH=src python experiments/benchmarks/scoring/judge_labels.py [RUNS]

The judge passes a share of the wrong answers of each system ("false passes") and fails a share of the right
ones of both. A person labels answers of each system that are drawn at random: the same questions for both
systems, or each its own. Printed are the coverage of 95% intervals of the true difference, their width, and
the share of runs that say "better" where there is no difference: by the judge alone, by the labels alone
(both with Student's t), and corrected.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ragc.metrics.stats.prediction_powered import correct

Array = NDArray[np.float64]

CONFIDENCE = 0.95


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

    @property
    def name(self) -> str:
        """What the table shows."""
        alike = "same" if self.same else "own"
        passes = f"{self.passes[1]:.0%} against {self.passes[0]:.0%}"
        return f"{self.n:5} {self.labels:4} {alike:5} {passes:16} {self.right:.2f} {self.gain:+.2f}"

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


WORLDS = (
    World(300, 100, (0.1, 0.3)),
    World(300, 100, (0.1, 0.3), same=False),
    World(150, 100, (0.1, 0.3)),
    World(1000, 100, (0.1, 0.3)),
    World(300, 30, (0.1, 0.3)),
    World(300, 30, (0.1, 0.3), same=False),
    World(300, 200, (0.1, 0.3)),
    World(300, 100, (0.1, 0.3), right=0.85),
    World(300, 100, (0.1, 0.3), right=0.2),
    World(300, 100, (0.1, 0.1)),
    World(300, 100, (0.5, 0.9)),
    World(300, 100, (0.1, 0.3), gain=0.15),
    World(300, 100, (0.02, 0.02), gain=0.15),
)


def by_labels(labels: list[dict[int, float]]) -> tuple[float, float, float]:
    """The interval and p of the difference of the labels alone."""
    first, second = (np.array(list(held.values())) for held in labels)
    if labels[0].keys() == labels[1].keys():
        gaps = second - first
        error, freedom = gaps.std(ddof=1) / len(gaps) ** 0.5, len(gaps) - 1
    else:
        error = (first.var(ddof=1) / len(first) + second.var(ddof=1) / len(second)) ** 0.5
        freedom = len(first) + len(second) - 2
    diff = second.mean() - first.mean()
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom)) * error
    p = float(2 * stats.t.sf(abs(diff) / error, freedom)) if error > 0 else 1.0
    return diff - half, diff + half, p


def main(runs: int) -> None:
    """Prints a line a world."""
    print(
        f'{runs} runs; coverage, width and share of "better"\n'
        f"    n labels  passes of b, a   right gain{'judge alone':>22}{'labels alone':>22}{'corrected':>22}"
    )
    for world in WORLDS:
        rng = np.random.default_rng(3)
        table = np.zeros((3, 3))
        for _ in range(runs):
            (a, b), labels = world.draw(rng)
            mended = correct(a.tolist(), b.tolist(), labels[0], labels[1])
            for row, (low, high, p) in enumerate(
                (
                    by_labels([dict(enumerate(a.tolist())), dict(enumerate(b.tolist()))]),
                    by_labels(labels),
                    (mended.low, mended.high, mended.p),
                )
            ):
                better = p < 1 - CONFIDENCE and low + high > 0
                table[row] += (low <= world.gain <= high, high - low, better)
        cells = "".join(
            f"{'':4}{covered:6.3f}{width:6.3f}{better:6.3f}" for covered, width, better in table / runs
        )
        print(f"{world.name}{cells}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
