"""How often the gate is wrong and right, by simulation, beside the shares that it prints before a run.

    PYTHONPATH=src python experiments/benchmarks/gate.py [RUNS] [GROUPS ...]

Questions score 0 or 1. A cell is a share of 200 questions that change (5, 10 or 20%) and a true loss (0, .05,
the allowed one, or .10). Each run draws which questions get better and worse, and asks the gate's own
`margin`. A row has the simulated shares of exit codes 0, 10 and 11, and those that the gate prints.
With GROUPS, such as `20 40`, the questions stand in so many groups of one size. A question then follows the
draw of its group so often that the changes of two questions of a group have a correlation of 0, .2 (which is
what the printed shares assume) or .5.

What must hold in 1,000 runs, with their tolerance: equal programs end with 10 in at most 6.4%, a true loss of
exactly the allowed one with 0 in at most 6.4%, a drop of .10 with 20% changed is caught in at least 80%, and
the shares agree within .03 (with groups: at a correlation of .2). The script exits 1 where one does not.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from ragc.metrics.stats.clusters import ASSUMED_CORRELATION
from ragc.metrics.stats.grouped_shares import shares_in_groups, simulated_shares
from ragc.metrics.stats.noninferiority import Margin, margin

QUESTIONS, ALLOWED = 200, 0.05
CHANGED, LOSSES = (0.05, 0.10, 0.20), (0.0, 0.05, 0.10)
CORRELATIONS = (0.0, ASSUMED_CORRELATION, 0.5)
SEED = 31
MOST_WRONG = 0.064
"""5%, with the tolerance of 1,000 runs."""
LEAST_CAUGHT = 0.8
APART = 0.03


def exit_code(result: Margin) -> int:
    """The exit code of a gate without `--min`."""
    return 0 if result.small_loss() else 10 if result.drop() else 11


def simulated(changed: float, loss: float, runs: int, seed: int = SEED) -> dict[int, float]:
    """The share of `runs` with each exit code."""
    rng = np.random.default_rng([seed, round(changed * 100), round(loss * 100)])
    chances = [(changed + loss) / 2, 1 - changed, (changed - loss) / 2]
    known: dict[tuple[int, ...], int] = {}
    counts = {0: 0, 10: 0, 11: 0}
    for drawn in rng.multinomial(QUESTIONS, chances, size=runs):
        key = tuple(drawn.tolist())
        if key not in known:
            worse, same, _ = key
            before = np.concatenate([np.ones(worse + same // 2), np.zeros(QUESTIONS - worse - same // 2)])
            after = before.copy()
            after[:worse] = 0
            after[worse + same :] = 1
            known[key] = exit_code(margin(before.tolist(), after.tolist(), ALLOWED, seed=0))
        counts[known[key]] += 1
    return {code: count / runs for code, count in counts.items()}


def in_groups(changed: float, loss: float, runs: int, groups: int, correlation: float) -> dict[int, float]:
    """As `simulated`, of questions in `groups` of one size whose changes have the `correlation`."""
    sizes, seed = [QUESTIONS // groups] * groups, SEED + round(100 * correlation)
    shares = simulated_shares(sizes, loss, changed, ALLOWED, correlation=correlation, runs=runs, seed=seed)
    assert shares is not None
    return {0: shares.no_loss, 10: shares.drop, 11: shares.cannot_tell}


def rows(runs: int, groups: int = 0) -> Iterator[dict[str, Any]]:
    """One row a cell, with what must hold of it as `holds`."""
    sizes = [QUESTIONS // groups] * groups if groups else [1] * QUESTIONS
    for changed in CHANGED:
        for loss in LOSSES:
            shares = shares_in_groups(sizes, loss, changed, ALLOWED)
            if shares is None:
                continue
            expected = {0: shares.no_loss, 10: shares.drop, 11: shares.cannot_tell}
            cell = {"changed": changed, "loss": loss, "runs": runs}
            shown = {code: round(share, 4) for code, share in expected.items()}
            for correlation in CORRELATIONS if groups else (0.0,):
                if groups:
                    cell |= {"groups": groups, "correlation": correlation}
                    found_shares = in_groups(changed, loss, runs, groups, correlation)
                else:
                    found_shares = simulated(changed, loss, runs)
                apart = max(abs(found_shares[code] - expected[code]) for code in expected)
                as_printed = not groups or correlation == ASSUMED_CORRELATION
                holds = apart <= APART or not as_printed
                if loss == 0:
                    holds &= found_shares[10] <= MOST_WRONG
                if loss == ALLOWED:
                    holds &= found_shares[0] <= MOST_WRONG and expected[0] <= 0.05
                if loss == 0.10 and changed == 0.20 and not groups:
                    holds &= found_shares[10] >= LEAST_CAUGHT
                row = {"simulated": found_shares, "expected": shown, "apart": round(apart, 4)}
                yield cell | row | {"holds": holds}


def main(runs: int, groups: list[int]) -> int:
    """Prints a row a cell; returns 1 where one does not hold."""
    wrong = 0
    for number in groups or [0]:
        for row in rows(runs, number):
            sys.stdout.write(f"{json.dumps(row)}\n")
            sys.stdout.flush()
            wrong += not row["holds"]
    sys.stdout.write(f"{wrong} rows do not hold\n")
    return int(bool(wrong))


if __name__ == "__main__":
    numbers = [int(one) for one in sys.argv[1:]]
    sys.exit(main(numbers[0] if numbers else 1_000, numbers[1:]))
