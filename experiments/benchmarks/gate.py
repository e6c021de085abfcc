"""How often the gate is wrong and right, by simulation.

    PYTHONPATH=src python experiments/benchmarks/gate.py [RUNS] [GROUPS ...]

Questions score 0 or 1. A cell is a share of 200 questions that change (5, 10 or 20%) and a true loss (0, .05,
the allowed one, or .10). Each run draws which questions get better and worse, and asks the gate's own
`margin`. A row has the shares of exit codes 0, 10 and 11. With GROUPS, such as `20 40`, the questions are in
so many groups of one size. A question then follows the draw of its group so often that the changes of two
questions of a group have a correlation of 0, .2 (which is what the gate assumes) or .5.

What must hold in 1,000 runs, with their tolerance, but for a correlation of .5: equal programs end with 10 in
at most 6.4%, a true loss of exactly the allowed one with 0 in at most 6.4%, and without groups a drop of .10
with 20% changed is caught in at least 80%. The script exits 1 where one does not.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragc.metrics.stats.gate import Margin, margin
from ragc.metrics.stats.groups import ASSUMED_CORRELATION

QUESTIONS, ALLOWED = 200, 0.05
CHANGED, LOSSES = (0.05, 0.10, 0.20), (0.0, 0.05, 0.10)
CORRELATIONS = (0.0, ASSUMED_CORRELATION, 0.5)
SEED = 31
MOST_WRONG = 0.064
"""5%, with the tolerance of 1,000 runs."""
LEAST_CAUGHT = 0.8


def exit_code(result: Margin) -> int:
    """The exit code of a gate without `--min`."""
    return 0 if result.small_loss() else 10 if result.drop() else 11


def simulated(
    changed: float, loss: float, runs: int, questions: int = QUESTIONS, seed: int = SEED
) -> dict[int, float]:
    """The share of `runs` with each exit code."""
    rng = np.random.default_rng([seed, round(changed * 100), round(loss * 100)])
    chances = [(changed + loss) / 2, 1 - changed, (changed - loss) / 2]
    known: dict[tuple[int, ...], int] = {}
    counts = {0: 0, 10: 0, 11: 0}
    for drawn in rng.multinomial(questions, chances, size=runs):
        key = tuple(drawn.tolist())
        if key not in known:
            known[key] = exit_code(changes_margin(np.repeat([-1.0, 0.0, 1.0], drawn)))
        counts[known[key]] += 1
    return {code: count / runs for code, count in counts.items()}


def in_groups(changed: float, loss: float, runs: int, groups: int, correlation: float) -> dict[int, float]:
    """As `simulated`, of questions in `groups` of one size whose changes have the `correlation`."""
    rng = np.random.default_rng([SEED, round(100 * correlation)])
    codes = np.repeat(np.arange(groups), QUESTIONS // groups)
    labels = [str(code) for code in codes]
    values, chances = [-1.0, 0.0, 1.0], [(changed + loss) / 2, 1 - changed, (changed - loss) / 2]
    counts = {0: 0, 10: 0, 11: 0}
    for _ in range(runs):
        of_question = rng.choice(values, len(codes), p=chances)
        of_group = rng.choice(values, groups, p=chances)
        follows = rng.random(len(codes)) < correlation**0.5
        counts[exit_code(changes_margin(np.where(follows, of_group[codes], of_question), labels))] += 1
    return {code: count / runs for code, count in counts.items()}


def changes_margin(changes: NDArray[np.float64], labels: Sequence[str] | None = None) -> Margin:
    """The gate's margin where scores of 0 and 1 change by `changes`."""
    before = (changes < 0).astype(float)
    return margin(before.tolist(), (before + changes).tolist(), ALLOWED, seed=0, groups=labels)


def rows(runs: int, groups: int = 0) -> Iterator[dict[str, Any]]:
    """One row a cell, with what must hold of it as `holds`."""
    for changed in CHANGED:
        for loss in (loss for loss in LOSSES if loss <= changed):
            for correlation in CORRELATIONS if groups else (0.0,):
                cell = {"changed": changed, "loss": loss, "runs": runs}
                if groups:
                    cell |= {"groups": groups, "correlation": correlation}
                    shares = in_groups(changed, loss, runs, groups, correlation)
                else:
                    shares = simulated(changed, loss, runs)
                holds = True
                if loss == 0 and correlation <= ASSUMED_CORRELATION:
                    holds &= shares[10] <= MOST_WRONG
                if loss == ALLOWED and correlation <= ASSUMED_CORRELATION:
                    holds &= shares[0] <= MOST_WRONG
                if loss == 0.10 and changed == 0.20 and not groups:
                    holds &= shares[10] >= LEAST_CAUGHT
                yield cell | {"shares": shares, "holds": holds}


def main(runs: int, groups: list[int]) -> int:
    """Prints a row a cell; returns 1 where one does not hold."""
    wrong = 0
    for number in groups or [0]:
        for row in rows(runs, number):
            print(json.dumps(row), flush=True)
            wrong += not row["holds"]
    print(f"{wrong} rows do not hold")
    return int(bool(wrong))


if __name__ == "__main__":
    numbers = [int(one) for one in sys.argv[1:]]
    sys.exit(main(numbers[0] if numbers else 1_000, numbers[1:]))
