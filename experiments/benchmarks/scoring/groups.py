"""Questions in groups, by simulation: coverage and width of intervals, and false claims of comparisons.

    PYTHONPATH=src python experiments/benchmarks/scoring/groups.py [REPEATS] [means|pairs|gains]...

A cell is a number of groups (6, 12, 20, 60), equal sizes or Zipf's (the r-th group has 1/r of the questions
of the first), 5 questions a group in the mean, a standard deviation of groups on the logit scale (0 to 2),
and a base rate (.5, .9). Groups of one cell are alike, and their size says nothing of their rate.

    means   `mean_ci`: coverage of the base rate, and width over that of an oracle, which knows the variances
            and takes the mean as normal
    pairs   `paired` and `verdict` for two systems with the same base rate whose groups differ
            independently: both with the standard deviation, or one with none (`unlike`, where signs are not
            exchangeable)
    gains   `paired` where the second system is better by .1 (from .5) or worse by .1
            (from .9): coverage of the difference, and how often it is shown

With 1000 repeats the simulation error of a coverage is .7 points. Without names all parts run, which takes
about 15 minutes on one core.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from scipy import optimize
from scipy.special import expit

from ragc.metrics.stats.resample import Paired, mean_ci, paired, verdict

Array = np.ndarray[Any, np.dtype[np.float64]]

NUMBERS, KINDS, SDS, RATES = (6, 12, 20, 60), ("equal", "zipf"), (0.0, 0.5, 1.0, 2.0), (0.5, 0.9)
PER_GROUP = 5
WIDE_ENOUGH = 12
"""Groups from which widths are compared with the oracle's."""

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(80)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


@dataclass(frozen=True)
class Cell:
    """One kind of grouped questions."""

    groups: int
    kind: str
    sd: float
    rate: float
    per_group: int = PER_GROUP

    def __str__(self) -> str:
        return f"{self.groups:3} {self.kind:5} sd {self.sd:3.1f} rate {self.rate:.1f}"

    @property
    def sizes(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The number of questions of each group."""
        if self.kind == "equal":
            return np.full(self.groups, self.per_group, np.int64)
        shares = 1 / np.arange(1, self.groups + 1)
        counts = np.round(shares / shares.sum() * self.groups * self.per_group)
        whole: np.ndarray[Any, np.dtype[np.int64]] = np.maximum(1, counts).astype(np.int64)
        return whole

    @property
    def labels(self) -> list[str]:
        """The group of each question."""
        return [str(code) for code in np.repeat(np.arange(self.groups), self.sizes)]

    def scores(self, rng: np.random.Generator, rate: float | None = None, sd: float | None = None) -> Array:
        """0/1 scores, with rates of groups that are normal on the logit scale around the base rate."""
        sd = self.sd if sd is None else sd
        rates = expit(centre(self.rate if rate is None else rate, sd) + sd * rng.standard_normal(self.groups))
        chances = np.repeat(rates, self.sizes)
        return (rng.random(len(chances)) < chances).astype(float)

    @property
    def oracle(self) -> float:
        """The width of the normal interval of the mean with the true variances."""
        rates = expit(centre(self.rate, self.sd) + self.sd * _NODES)
        between = float(_WEIGHTS @ (rates - self.rate) ** 2)
        within = float(_WEIGHTS @ (rates * (1 - rates)))
        n = self.sizes.sum()
        return 2 * 1.96 * float(np.sqrt(between * (self.sizes**2).sum() / n**2 + within / n))


def centre(rate: float, sd: float) -> float:
    """The mean on the logit scale at which the mean rate is `rate`."""
    return float(optimize.brentq(lambda at: float(_WEIGHTS @ expit(at + sd * _NODES)) - rate, -30, 30))


def cells() -> Iterator[Cell]:
    for groups, kind, sd, rate in product(NUMBERS, KINDS, SDS, RATES):
        yield Cell(groups, kind, sd, rate)


def means(repeats: int) -> None:
    covered, ratios = {}, {}
    for cell in cells():
        rng = np.random.default_rng([cell.groups, len(cell.kind), int(10 * cell.sd), int(10 * cell.rate)])
        ends = [mean_ci(cell.scores(rng).tolist(), seed=seed, groups=cell.labels) for seed in range(repeats)]
        covered[cell] = float(np.mean([one.low <= cell.rate <= one.high for one in ends]))
        ratios[cell] = float(np.mean([one.high - one.low for one in ends])) / cell.oracle
        print(
            f"mean_ci {cell}: covers {covered[cell]:.3f}, width {ratios[cell]:.2f} of the oracle's",
            flush=True,
        )
    wide = [ratio for cell, ratio in ratios.items() if cell.groups >= WIDE_ENOUGH]
    few = sum(value < 0.9 for value in covered.values())
    print(f"mean_ci: coverage {extremes(covered.values(), min)}, below .90 in {few} of {len(covered)} cells")
    print(f"mean_ci: width from {WIDE_ENOUGH} groups, relative to the oracle's: {extremes(wide, max)}")


def extremes(values: Iterable[float], far: Callable[[list[float]], float]) -> str:
    listed = list(values)
    return f"{np.mean(listed):.3f} in the mean, {far(listed):.3f} {'at least' if far is min else 'at most'}"


def compared(cell: Cell, rng: np.random.Generator, seed: int, unlike: bool, gain: float) -> Paired:
    rate = cell.rate
    a = cell.scores(rng, rate, 0.0 if unlike else None)
    b = cell.scores(rng, rate + gain)
    return paired(a.tolist(), b.tolist(), seed=seed, groups=cell.labels)


def pairs(repeats: int, gain: float = 0.0) -> None:
    for unlike in (False, True):
        name = "unlike" if unlike else "alike"
        better, worse, covered = {}, {}, {}
        for cell in cells():
            change = gain if cell.rate < 0.7 else -gain
            rng = np.random.default_rng([cell.groups, len(cell.kind), int(10 * cell.sd), int(10 * cell.rate)])
            results = [compared(cell, rng, seed, unlike, change) for seed in range(repeats)]
            verdicts = [verdict(result) for result in results]
            better[cell], worse[cell] = (verdicts.count(one) / repeats for one in ("better", "worse"))
            covered[cell] = float(np.mean([one.low <= change <= one.high for one in results]))
            print(
                f"{name} {cell}: better {better[cell]:.3f}, worse {worse[cell]:.3f}, "
                f"covers {covered[cell]:.3f}",
                flush=True,
            )
        for what, shares, far in (("better", better, max), ("worse", worse, max), ("coverage", covered, min)):
            print(f"{name}, gain {gain:g}: {what} {extremes(shares.values(), far)}")


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    parts = sys.argv[2:] or ["means", "pairs", "gains"]
    if "means" in parts:
        means(repeats)
    if "pairs" in parts:
        pairs(repeats)
    if "gains" in parts:
        pairs(repeats, gain=0.1)


if __name__ == "__main__":
    main()
