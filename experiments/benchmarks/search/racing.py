"""Errors and savings of the racing rule, by simulation.

    PYTHONPATH=src python -m experiments.benchmarks.search.racing [REPEATS]

Each repeat draws N dev questions and a pair of systems, orders the questions at random and looks after every
block. Printed per true gap (trial minus incumbent on all N): the share of trials stopped and the share of
questions saved; then, of all trials, the share that was stopped though it would have won, and by how much of
a question's score on average. Two rules that limit errors among the winners alone are printed beside it: a
test by betting and Bonferroni t tests with a finite-population correction. `equal` are systems with the same
true rate, where wrong stops are likeliest; in a `near tie` the trial has one right answer more.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from scipy import stats

from experiments.benchmarks.search.racing_betting import hopeless as betting
from ragc.metrics import score
from ragc.optimizers.search.racing import win_probability

Pair = tuple[np.ndarray, np.ndarray]
Draw = Callable[[np.random.Generator, int], Pair]
Stops = Callable[[list[float], list[float]], bool]
JUDGED = Path(__file__).resolve().parents[4] / "shared/data/judged/openqa_eval"


def correlated_pair(rng: np.random.Generator, n: int) -> Pair:
    """0/1 scores of correlated systems whose true rates differ by up to .4."""
    base, gap = rng.uniform(0.2, 0.7), rng.uniform(-0.4, 0.15)
    ease = rng.normal(size=n)
    incumbent = ease + rng.normal(size=n) < stats.norm.ppf(base) * 2**0.5
    trial = ease + rng.normal(size=n) < stats.norm.ppf(np.clip(base + gap, 0.02, 0.98)) * 2**0.5
    return trial.astype(float), incumbent.astype(float)


def equal(rng: np.random.Generator, n: int) -> Pair:
    """Correlated 0/1 scores of systems with the same true rate."""
    ease, rate = rng.normal(size=n), stats.norm.ppf(rng.uniform(0.1, 0.9)) * 2**0.5
    trial, incumbent = (ease + rng.normal(size=n) < rate for _ in range(2))
    return trial.astype(float), incumbent.astype(float)


def near_tie(rng: np.random.Generator, n: int) -> Pair:
    """Correlated 0/1 scores in which the trial has exactly one right answer more than the incumbent."""
    wins = int(rng.integers(1, n // 5 + 2))
    trial, incumbent = np.zeros(n), np.zeros(n)
    both = int(rng.integers(0, n - 2 * wins + 1))
    trial[: wins + both] = 1
    incumbent[wins : 2 * wins - 1 + both] = 1
    order = rng.permutation(n)
    return trial[order], incumbent[order]


def reader_pairs(metric: str) -> Draw:
    """Four open-domain readers on NQ; in half of the pairs the trial loses some of its answers."""
    systems = []
    for path in sorted(JUDGED.glob("NQ_*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            rows = [json.loads(line) for line in lines]
        systems.append(np.array([score(metric, row["prediction"], row["answer"]) for row in rows]))

    def draw(rng: np.random.Generator, n: int) -> Pair:
        first, second = rng.choice(len(systems), 2, replace=False)
        chosen = rng.choice(len(systems[0]), n, replace=False)
        trial, incumbent = systems[first][chosen].copy(), systems[second][chosen]
        trial[rng.random(n) < rng.choice([0.0, 0.0, 0.1, 0.3, 0.6])] = 0.0
        return trial, incumbent

    return draw


def stopping_points(n: int, block: int) -> Iterator[int]:
    return iter(range(block, n, block))


def run_race(trial: np.ndarray, incumbent: np.ndarray, block: int, stops: Stops) -> int:
    peers = incumbent.tolist()
    for seen in stopping_points(len(trial), block):
        if stops(trial[:seen].tolist(), peers):
            return seen
    return len(trial)


def bonferroni(trial: np.ndarray, incumbent: np.ndarray, block: int, alpha: float) -> int:
    n, count = len(trial), len(list(stopping_points(len(trial), block)))
    for seen in stopping_points(n, block):
        if trial[:seen].sum() + (n - seen) <= incumbent.sum():
            return seen
        gaps = (trial - incumbent)[:seen]
        spread = gaps.std(ddof=1)
        if (
            spread
            and stats.t.cdf(gaps.mean() / (spread * (1 / seen - 1 / n) ** 0.5), seen - 1) < alpha / count
        ):
            return seen
    return n


def band(trial: np.ndarray, incumbent: np.ndarray) -> str:
    gap = trial.mean() - incumbent.mean()
    if gap > 0:
        return "better"
    return "0 to -.05" if gap > -0.05 else "-.05 to -.15" if gap > -0.15 else "below -.15"


def report(title: str, draw: Draw, n: int, block: int, repeats: int) -> None:
    rules: dict[str, Callable[[np.ndarray, np.ndarray], int]] = {
        "chance .05": lambda t, i: run_race(
            t, i, block, lambda mine, peers: win_probability(mine, peers) < 0.05
        ),
        "chance .1": lambda t, i: run_race(
            t, i, block, lambda mine, peers: win_probability(mine, peers) < 0.1
        ),
        "chance .2": lambda t, i: run_race(
            t, i, block, lambda mine, peers: win_probability(mine, peers) < 0.2
        ),
        "betting .1": lambda t, i: run_race(t, i, block, betting),
        "t tests .1": lambda t, i: bonferroni(t, i, block, 0.1),
    }
    seen_by_band: dict[str, list[list[int]]] = {}
    lost: list[list[float]] = []
    rng = np.random.default_rng(n)
    for _ in range(repeats):
        trial, incumbent = draw(rng, n)
        seen_by = [rule(trial, incumbent) for rule in rules.values()]
        seen_by_band.setdefault(band(trial, incumbent), []).append(seen_by)
        gain = max(0.0, float(trial.sum() - incumbent.sum()))
        lost.append([gain if seen < n else 0.0 for seen in seen_by])
    print(f"\n{title}, N {n}, blocks of {block}: stopped / questions saved, by {', '.join(rules)}")
    for name in ("better", "0 to -.05", "-.05 to -.15", "below -.15"):
        if name in seen_by_band:
            seen = np.array(seen_by_band[name])
            cells = (f"{(column < n).mean():.3f} / {1 - column.mean() / n:.3f}" for column in seen.T)
            print(f"{name:14}{len(seen):6}  " + "    ".join(cells), flush=True)
    columns = np.array(lost).T
    cells = (f"{(c > 0).mean():.3f} / {c[c > 0].mean() if c.any() else 0:5.1f}" for c in columns)
    print(f"{'wrongly stopped':20}  " + "    ".join(cells), flush=True)


if __name__ == "__main__":
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    for n, block in ((50, 10), (100, 10), (100, 25), (300, 25)):
        report("equal", equal, n, block, repeats)
        report("near tie", near_tie, n, block, repeats)
        report("made up", correlated_pair, n, block, repeats)
    for metric in ("em", "f1") if JUDGED.is_dir() else ():
        report(f"NQ readers, {metric}", reader_pairs(metric), 100, 10, repeats)
        report(f"NQ readers, {metric}", reader_pairs(metric), 100, 25, repeats)
