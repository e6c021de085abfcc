"""Which search chooses best? Searches on grids of scores, paired over seeds, by regret.

    python -m experiments.benchmarks.search.choosing [--seeds 50] [--first 0] [--grids NAME ...]
        [--recorded DIR ...] [--searches NAME ...] [--budgets .05 .1 .2 .4] [--questions 60]
        [--out rows.jsonl] [--report FILE ...]

A grid is a table of scores of settings on questions. The budget is counted in answers, as a share of the
table. Regret is (best - chosen) / (best - median) of the true means: 0 is the best setting, 1 the median. On
generated grids true means are known, and each seed draws fresh questions. On recorded grids (`ragc grid`) a
seed splits the questions in two halves: a search sees one, the other has the true means.

Without names: two generated grids and the recorded ones of experiments/grids. `--grids all` takes all
generated ones. `--out` appends a JSON line a run and skips the runs that it holds, so a run that broke off
goes on; `--report` prints the tables of such files and runs nothing. `exhaustive` is the best setting on all
dev questions, at any budget. Printed: regret by budget and search, with the standard error over grids and
seeds; the share of runs whose choice is truly more than .01 below the baseline; how far the expectation is
from the truth, the largest mean of a grid and the mean of absolute errors; and the verdicts. The luck of the
dev questions, how much easier they are than all questions, is subtracted from mean errors: it is 0 in the
mean over seeds.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import optuna

from experiments.benchmarks.search.choosing import searches
from experiments.benchmarks.search.choosing.generator import GeneratedGrid, generated
from experiments.benchmarks.search.choosing.worlds import Pick, World, regret
from experiments.benchmarks.search.study import machine

BUDGETS = (0.05, 0.1, 0.2, 0.4)
WORSE = 0.01
EXHAUSTIVE, ORACLE = "exhaustive", "oracle"
SLOW = frozenset({"tpe", "minibatches", "hyperband", "wilcoxon", "futility"})
"""Searches that run on Optuna. With more than `WIDE` settings they take minutes a run and are left out."""
WIDE = 400
RECORDED = Path(__file__).resolve().parents[3] / "grids"


@dataclass(frozen=True)
class Bench:
    """A grid to search on. `world(seed, share)` is one task; `variances` are known for generated grids."""

    name: str
    world: Any
    settings: int
    variances: Any = None


def generated_bench(grid: GeneratedGrid, questions: int) -> Bench:
    """A bench on fresh questions of a generated grid."""

    def world(seed: int, share: float) -> World:
        scores = grid.draw(questions, np.random.default_rng([grid.parameters.seed, seed, 4]))
        return World(grid.settings, grid.baseline, scores, grid.true, int(share * scores.size))

    variances = searches.true_variances(grid.parameters.levels, grid)
    return Bench(grid.name, world, len(grid.true), variances)


def recorded_bench(folder: Path, metric: str = "") -> Bench:
    """A bench on halves of the questions of a recorded grid, with the settings recorded so far."""
    from ragc.optimizers.grids.grid import read

    grid = read(folder)
    scores = grid.scores(metric or grid.metrics[0])
    there = [not np.isnan(row).all() for row in scores]
    settings = [setting for setting, is_there in zip(grid.settings, there, strict=True) if is_there]
    scores = scores[there]
    scores = scores[:, ~np.isnan(scores).any(axis=0)]
    if not there[0] or len(settings) < 3 or scores.shape[1] < 10:
        raise SystemExit(
            f"{folder}: the baseline, 3 settings and 10 questions that all of them answered are needed, "
            f"found {len(settings)} settings and {scores.shape[1]} questions."
        )

    def world(seed: int, share: float) -> World:
        order = np.random.default_rng([seed, 5]).permutation(scores.shape[1])
        half = len(order) // 2
        dev, held = scores[:, order[:half]], scores[:, order[half:]]
        return World(settings, 0, dev, held.mean(1), int(share * dev.size))

    return Bench(grid.name, world, len(scores))


def runs(bench: Bench, names: Sequence[str], budgets: Sequence[float], seeds: Iterable[int],
         done: set[tuple[Any, ...]]) -> Iterator[dict[str, Any]]:  # fmt: skip
    """The rows of all runs that are not `done`."""
    chosen = {name: searches.SEARCHES[name] for name in names if name in searches.SEARCHES}
    if bench.variances is not None and ORACLE in names:
        chosen[ORACLE] = searches.oracle(bench.variances)
    if bench.settings > WIDE:
        chosen = {name: search for name, search in chosen.items() if name not in SLOW}
    for seed in seeds:
        if EXHAUSTIVE in names and (bench.name, EXHAUSTIVE, 1.0, seed) not in done:
            world = bench.world(seed, 1.0)
            means = world.scores.mean(1)
            best = int(means.argmax())
            yield _row(bench, world, EXHAUSTIVE, 1.0, seed, Pick(best, float(means[best])), 0.0)
        for share in budgets:
            for name, search in chosen.items():
                if (bench.name, name, share, seed) in done:
                    continue
                world = bench.world(seed, share)
                started = time.perf_counter()
                pick = search(world, seed)
                yield _row(bench, world, name, share, seed, pick, time.perf_counter() - started)


def _row(
    bench: Bench, world: World, name: str, share: float, seed: int, pick: Pick, seconds: float
) -> dict[str, Any]:
    value = float(world.values[pick.setting])
    return {
        "grid": bench.name,
        "search": name,
        "budget": share,
        "seed": seed,
        "regret": round(regret(world, pick.setting), 5),
        "gain": round(value - float(world.values[world.baseline]), 5),
        "error": round(pick.expected - value, 5),
        "luck": round(float((world.scores - world.values[:, None]).mean()), 5),
        "spent": int(world.seen.sum()),
        "seconds": round(seconds, 4),
    }


Rows = Sequence[Mapping[str, Any]]


def tables(rows: Rows) -> str:
    """The tables and verdicts of `rows`, as Markdown."""
    cells: dict[tuple[str, float, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        cells[row["search"], row["budget"], row["grid"]].append(row)
    grids = sorted({row["grid"] for row in rows})
    budgets = sorted({row["budget"] for row in rows if row["search"] != EXHAUSTIVE})
    names = [n for n in (*searches.SEARCHES, ORACLE) if any(row["search"] == n for row in rows)]
    lines = [f"{len(grids)} grids, {len({row['seed'] for row in rows})} seeds, {len(rows):,} runs", ""]
    for title, of in (
        ("regret ± standard error", _regret_cell),
        ("share of runs worse than the baseline by more than .01", _worse_cell),
        ("expected - true: largest mean of a grid; mean absolute error", _error_cell),
        ("seconds a run", lambda groups: f"{np.mean([r['seconds'] for g in groups for r in g]):.3f}"),
    ):
        lines += [f"| {title} | " + " | ".join(f"{share:.0%}" for share in budgets) + " |"]
        lines += ["| --- " * (len(budgets) + 1) + "|"]
        for name in names:
            groups = [[cells[name, share, g] for g in grids if cells[name, share, g]] for share in budgets]
            if all(groups):
                lines.append(f"| {name} | " + " | ".join(of(group) for group in groups) + " |")
        if title.startswith("regret"):
            whole = [cells[EXHAUSTIVE, 1.0, g] for g in grids if cells[EXHAUSTIVE, 1.0, g]]
            if whole:
                lines.append(
                    f"| {EXHAUSTIVE}, 100% | " + " | ".join([_regret_cell(whole)] * len(budgets)) + " |"
                )
        lines.append("")
    return "\n".join([*lines, *verdicts(rows)])


def _regret_cell(groups: Sequence[Rows]) -> str:
    means = [float(np.mean([r["regret"] for r in g])) for g in groups]
    errors = [float(np.std([r["regret"] for r in g])) / np.sqrt(len(g)) for g in groups]
    return f"{np.mean(means):.3f} ± {np.sqrt(np.sum(np.square(errors))) / len(groups):.3f}"


def _worse_cell(groups: Sequence[Rows]) -> str:
    return f"{np.mean([r['gain'] < -WORSE for g in groups for r in g]):.3f}"


def _error_cell(groups: Sequence[Rows]) -> str:
    means = [float(np.mean([r["error"] - r["luck"] for r in g])) for g in groups]
    absolute = float(np.mean([abs(r["error"]) for g in groups for r in g]))
    return f"{max(means, key=abs):+.3f}; {absolute:.3f}"


def verdicts(rows: Rows) -> list[str]:
    """At each budget: the best other search, decided on every second grid, compared with ours on the rest."""
    by: dict[tuple[str, float, str], float] = {}
    groups: dict[tuple[str, float, str], list[float]] = defaultdict(list)
    for row in rows:
        groups[row["search"], row["budget"], row["grid"]].append(row["regret"])
    by = {key: float(np.mean(values)) for key, values in groups.items()}
    grids = sorted({row["grid"] for row in rows})
    lines = []
    for share in sorted({b for _, b, _ in by if ("ragc", b, grids[0]) in by}):
        others = [n for n in searches.SEARCHES if n != "ragc" and all((n, share, g) in by for g in grids)]
        if not others:
            continue
        if len(grids) > 1:
            deciding, comparing = grids[::2], grids[1::2]
        else:
            deciding = comparing = grids
        best = min(others, key=lambda n: float(np.mean([by[n, share, g] for g in deciding])))
        ours, theirs = (float(np.mean([by[n, share, g] for g in comparing])) for n in ("ragc", best))
        line = (
            f"{share:.0%}: ragc {ours:.3f}, best other ({best}) {theirs:.3f}, difference {ours - theirs:+.3f}"
        )
        known = [g for g in comparing if (ORACLE, share, g) in by]
        if known:
            top = float(np.mean([by[ORACLE, share, g] for g in known]))
            mine, other = (float(np.mean([by[n, share, g] for g in known])) for n in ("ragc", best))
            ratio = f", {(mine - top) / (other - top):.2f} of the other's excess" if other > top else ""
            line += f"; oracle {top:.3f}: excess {mine - top:+.3f} and {other - top:+.3f}{ratio}"
        lines.append(line)
    return lines


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a file; none if it is not there. A line that was cut off is left out."""
    rows = []
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--grids", nargs="*", default=["middle-values", "tough-values"])
    parser.add_argument("--recorded", nargs="*", type=Path)
    parser.add_argument("--searches", nargs="*", default=[*searches.SEARCHES, ORACLE, EXHAUSTIVE])
    parser.add_argument("--budgets", nargs="*", type=float, default=BUDGETS)
    parser.add_argument("--questions", type=int, default=60, help="dev questions of generated grids")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--report", nargs="+", type=Path)
    args = parser.parse_args()
    if args.report:
        print(tables([row for path in args.report for row in read_rows(path)]))
        return
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    print(machine(), flush=True)
    kinds = {kind.name: kind for kind in generated()}
    names = list(kinds) if args.grids == ["all"] else args.grids
    benches = [
        generated_bench(GeneratedGrid(kinds[n]), 500 if kinds[n].settings > WIDE else args.questions)
        for n in names
    ]
    folders = args.recorded
    if folders is None:
        folders = sorted(path.parent for path in RECORDED.glob("*/card.json"))
    benches += [recorded_bench(folder) for folder in folders]
    rows = read_rows(args.out) if args.out else []
    done = {(r["grid"], r["search"], r["budget"], r["seed"]) for r in rows}
    started = time.perf_counter()
    for seed in range(args.first, args.first + args.seeds):
        fresh = [row for bench in benches for row in runs(bench, args.searches, args.budgets, [seed], done)]
        rows += fresh
        if args.out and fresh:
            with args.out.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(row) + "\n" for row in fresh)
    print(f"{time.perf_counter() - started:.0f} s\n\n{tables(rows)}")


if __name__ == "__main__":
    main()
