"""False "better" over many looks at one test split, and power at single looks, by simulation.

    PYTHONPATH=src python experiments/benchmarks/scoring/looks.py [RUNS]

In each run 20 programs are compared with the baseline on the same test questions, one after another; none is
better. A rule gives the factor by which p is multiplied at each look. The table has the share of runs in
which any look said "better", with the p-values of `ragc.metrics.stats.intervals.paired`.

    independent    each program answers by itself; one baseline
    pairs          each look has a baseline of its own
    adaptive       each program is the best so far by its test score with the answers to a share of the
                   questions drawn anew, as someone does who keeps what helped on test
    mixed          the answer to each question comes from one of those of the first ten programs that scored
                   above the baseline

Scores are 0 and 1, or partial as those of F1. Questions differ in difficulty. Power is the share of runs in
which the first, second, third and fifth look shows a program that puts right so many of the wrong answers
that a single test has about 80%, after looks at programs without a gain.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ragc.metrics.stats.resampling import sign_flip
from ragc.store.looks import look_factor

Array = NDArray[np.float64]
Rule = Callable[[int], float]

LOOKS = 20
FIRST = 10
CLEAR_P = 0.12
"""The p of a normal test beyond which a sign-flip test is not under .05, so that none is made."""

RULES: dict[str, Rule] = {
    "p alone": lambda number: 1.0,
    "p x looks": float,
    "p x looks, then squares": lambda number: number if number <= 5 else number**2 / 5,
    "p x looks, then doubled": lambda number: number if number <= 5 else 5.0 * 2 ** (number - 5),
    "p x looks (looks + 1)": lambda number: number * (number + 1) / 2,
    "ragc": look_factor,
}


@dataclass(frozen=True, slots=True)
class World:
    """How scores of `n` questions come about; `partial` ones are like those of F1."""

    n: int
    partial: bool

    def difficulty(self, rng: np.random.Generator) -> Array:
        """The probability of a right answer to each question."""
        return rng.beta(0.8, 0.8, self.n)

    def answers(self, rng: np.random.Generator, right: Array) -> Array:
        """The scores of a program that answers with the probabilities `right`."""
        hit = rng.random(self.n) < right
        if not self.partial:
            return hit.astype(float)
        return np.where(hit, rng.beta(4, 1.2, self.n), rng.beta(1, 5, self.n)).round(2)

    @property
    def name(self) -> str:
        """What the table shows."""
        return f"{'partial' if self.partial else '0 and 1'}, {self.n} questions"


def independent(world: World, rng: np.random.Generator) -> Iterator[tuple[Array, Array]]:
    right = world.difficulty(rng)
    baseline = world.answers(rng, right)
    for _ in range(LOOKS):
        yield baseline, world.answers(rng, right)


def pairs(world: World, rng: np.random.Generator) -> Iterator[tuple[Array, Array]]:
    right = world.difficulty(rng)
    for _ in range(LOOKS):
        yield world.answers(rng, right), world.answers(rng, right)


def adaptive(share: float) -> Callable[[World, np.random.Generator], Iterator[tuple[Array, Array]]]:
    def looks(world: World, rng: np.random.Generator) -> Iterator[tuple[Array, Array]]:
        right = world.difficulty(rng)
        baseline = best = world.answers(rng, right)
        for _ in range(LOOKS):
            program = np.where(rng.random(world.n) < share, world.answers(rng, right), best)
            yield baseline, program
            best = program if program.mean() > best.mean() else best

    return looks


def mixed(world: World, rng: np.random.Generator) -> Iterator[tuple[Array, Array]]:
    right = world.difficulty(rng)
    baseline = world.answers(rng, right)
    seen = np.array([world.answers(rng, right) for _ in range(FIRST)])
    yield from ((baseline, program) for program in seen)
    above = seen[seen.mean(axis=1) > baseline.mean()]
    for _ in range(LOOKS - FIRST):
        pool = above if len(above) else seen
        yield baseline, pool[rng.integers(0, len(pool), world.n), np.arange(world.n)]


KINDS = {
    "independent": independent,
    "pairs": pairs,
    "adaptive .1": adaptive(0.1),
    "adaptive .3": adaptive(0.3),
    "adaptive .6": adaptive(0.6),
    "mixed": mixed,
}


def p_better(baseline: Array, program: Array, seed: int) -> float:
    """The p of a gain; 1 where there is none, or where a normal test is far from showing it."""
    differences = (program - baseline).round(12)
    spread, gain = float(differences.std(ddof=1)), float(differences.mean())
    if gain <= 0 or spread == 0:
        return 1.0
    if 2 * stats.norm.sf(gain / spread * len(differences) ** 0.5) > CLEAR_P:
        return 1.0
    return sign_flip(differences, seed)


def false_better(runs: int) -> None:
    """Prints the share of runs with a false "better" at any of the looks, by kind, world and rule."""
    head = "".join(f"{name:>25}" for name in RULES)
    print(f'\nfalse "better" in {LOOKS} looks, {runs} runs\n{"":42}{head}')
    for kind, looks in KINDS.items():
        for world in (World(60, False), World(150, False), World(60, True), World(150, True)):
            rng = np.random.default_rng(1)
            wrong = dict.fromkeys(RULES, 0)
            for run in range(runs):
                every = [p_better(a, b, run) for a, b in looks(world, rng)]
                for name, rule in RULES.items():
                    wrong[name] += any(p * rule(at) < 0.05 for at, p in enumerate(every, 1))
            cells = "".join(f"{count / runs:>25.3f}" for count in wrong.values())
            print(f"{kind:14}{world.name:28}{cells}", flush=True)


def power(runs: int) -> None:
    """Prints the share of runs in which a real gain is shown at a look, by world and rule."""
    numbers = (1, 2, 3, 5)
    head = "".join(f"{name:>25}" for name in RULES)
    print(f"\npower at look {', '.join(map(str, numbers))}, {runs} runs\n{'':28}{head}")
    for world, mended in ((World(60, False), 0.42), (World(150, False), 0.27), (World(60, True), 0.45)):
        rng = np.random.default_rng(2)
        shown = {name: np.zeros(len(numbers)) for name in RULES}
        for run in range(runs):
            right = world.difficulty(rng)
            baseline = world.answers(rng, right)
            p = p_better(baseline, world.answers(rng, right + mended * (1 - right)), run)
            for name, rule in RULES.items():
                shown[name] += [p * rule(number) < 0.05 for number in numbers]
        cells = "".join(f"{' '.join(f'{s / runs:.3f}' for s in held):>25}" for held in shown.values())
        print(f"{world.name:28}{cells}", flush=True)


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    power(wanted)
    false_better(wanted)
