"""What `search.worth` saves and what it costs, where the truth is known.

    PYTHONPATH=src python -m experiments.benchmarks.search.worth [--worths 0 0.001 ...]
        [--seeds 4] [--null-seeds 10] [--rows FILE]

The real study answers from tables (`choosing.table_study`), without a budget. Kinds: `null`, where all
settings are equal, and the open ones of `choosing.lot` without RAGSmith's pools. Printed for each kind and in
all, for each worth: answers as a share of those without the rule, the true mean of the winner less that of
the winner without the rule in the metric's units, and the difference of regret ((best - chosen) / (best -
median)), each with a 95% interval over runs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from scipy.special import expit
from scipy.stats import t as student

from experiments.benchmarks.search.choosing.kinds import LEVELS, _grid
from experiments.benchmarks.search.choosing.lot import Source, sources
from experiments.benchmarks.search.choosing.table_study import TableLedger, _studied, table_task
from experiments.benchmarks.search.choosing.worlds import World, regret
from ragc.optimizers.search.selection import select
from ragc.recipe import Budget

NULL = "null"


def null_world(seed: int, questions: int = 60) -> World:
    """48 settings that are all as good: they differ on single questions only."""
    rng = np.random.default_rng([seed, 45])
    _, settings = _grid(LEVELS)
    latent = rng.uniform(-1.5, 1) + rng.normal(0, rng.uniform(0.5, 2.5), questions)
    chances = expit(latent + rng.normal(0, rng.uniform(0.2, 0.8), (len(settings), questions)))
    scores = (rng.random(chances.shape) < chances).astype(float)
    return World(settings, 0, scores, np.full(len(settings), 0.5), scores.size)


def run(name: str, world: World, seed: int, worth: float) -> dict[str, Any]:
    """One study of `world` without a budget."""
    world = replace(world, budget=world.scores.size)
    begun = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        task = table_task(world, seed, Path(folder), f"worth = {worth}")
        ledger = TableLedger(world, Budget())
        free = replace(task, recipe=replace(task.recipe, budget=Budget()), ledger=ledger)
        study = asyncio.run(_studied(free, Path(folder)))
        chosen = free.setting_of(select(study.trials, free.rule).candidate)
    return {
        "kind": name, "seed": seed, "worth": worth, "answers": int(world.seen.sum()),
        "value": float(world.values[chosen]), "regret": regret(world, chosen),
        "ended": bool(study.looks.ended), "seconds": round(time.process_time() - begun, 1),
    }  # fmt: skip


def interval(values: Sequence[float]) -> str:
    """The mean with its 95% interval by Student's t."""
    n, mean = len(values), float(np.mean(values))
    half = float(student.ppf(0.975, n - 1) * np.std(values, ddof=1) / n**0.5) if n > 1 else float("nan")
    return f"{mean:+.4f} [{mean - half:+.4f}, {mean + half:+.4f}]"


def report(rows: Sequence[dict[str, Any]]) -> str:
    """A line for each kind and worth, then one for all open kinds."""
    off = {(row["kind"], row["seed"]): row for row in rows if not row["worth"]}
    lines = []
    groups = [[kind] for kind in dict.fromkeys(row["kind"] for row in rows)]
    groups.append([kind for (kind,) in groups if kind != NULL])
    for kinds in groups:
        for worth in sorted({row["worth"] for row in rows} - {0.0}):
            pairs = [
                (row, off[key])
                for row in rows
                if row["worth"] == worth and row["kind"] in kinds
                and (key := (row["kind"], row["seed"])) in off
            ]  # fmt: skip
            if pairs:
                share = sum(a["answers"] for a, _ in pairs) / sum(b["answers"] for _, b in pairs)
                lines.append(
                    f"{kinds[0] if len(kinds) == 1 else 'all open':24}{worth:8g}{len(pairs):5}{share:8.2f}   "
                    f"{interval([a['value'] - b['value'] for a, b in pairs])}   "
                    f"{interval([a['regret'] - b['regret'] for a, b in pairs])}"
                )
    return "\n".join(lines)


def _whole(source: Source) -> Callable[[int], World]:
    """Returns the worlds of `source` with a budget for all answers, by seed."""
    return lambda seed: source.world(seed, 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description="What search.worth saves and costs.")
    parser.add_argument("--worths", type=float, nargs="+", default=[0, 0.001, 0.002, 0.005])
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--null-seeds", type=int, default=10)
    parser.add_argument("--rows", type=Path, help="append rows here, and leave out those that are there")
    args = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    rows: list[dict[str, Any]] = []
    if args.rows and args.rows.exists():
        rows = [json.loads(line) for line in args.rows.read_text().splitlines()]
    done = {(row["kind"], row["seed"], row["worth"]) for row in rows}
    opened = [source for source in sources()[0] if source.is_open]
    for seed in range(max(args.seeds, args.null_seeds)):
        worlds: dict[str, Callable[[int], World]] = {NULL: null_world} if seed < args.null_seeds else {}
        if seed < args.seeds:
            worlds |= {source.name: _whole(source) for source in opened}
        for name, world in worlds.items():
            for worth in args.worths:
                if (name, seed, worth) in done:
                    continue
                rows.append(run(name, world(seed), seed, worth))
                if args.rows:
                    with args.rows.open("a") as file:
                        file.write(json.dumps(rows[-1]) + "\n")
    print(f"{'kind':24}{'worth':>8}{'runs':>5}{'answers':>8}   value less that without it   regret, likewise")
    print(report(rows))


if __name__ == "__main__":
    main()
