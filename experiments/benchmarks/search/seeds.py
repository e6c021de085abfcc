"""ragc's study and its peers at one budget of LM calls, over several seeds, on the embedded model.

    PYTHONPATH=src python -m experiments.benchmarks.search.seeds
        [--recipe experiments/demo.toml] [--seeds 1 2 3] [--calls 300]
        [--optimizers ragc random mipro] [--store FOLDER] [--set KEY=VALUE ...]

Each optimizer compiles the recipe with each seed, which also draws the questions. It may spend `--calls` LM
calls on the search, and as many as the test questions need beside. Printed of each: the calls, the seconds,
and the score on the test questions before and after with 95% intervals; then, over the questions of all seeds
together, how each optimizer differs from the first, paired question by question. A store given with `--store`
replays what was asked before; all optimizers share it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

from experiments.benchmarks.search.study import machine
from ragc import recipe as recipes
from ragc.metrics.stats.intervals import mean_ci, paired, verdict
from ragc.optimizers import compile as compiling
from ragc.optimizers.results.evaluate import open_program, score
from ragc.store.call_store import CallStore

DEMO = Path(__file__).resolve().parents[2] / "demo.toml"


def run(recipe: Path, sets: Sequence[str], folder: Path, store: CallStore) -> tuple[list[float], list[float]]:
    """The scores of the test questions before and after one compile, which is printed."""
    compiled = compiling.compile(recipes.load(recipe, sets), folder, store=store)
    facts, counters = compiled.program.provenance, compiled.counters
    name = recipes.load(recipe, sets).search.objectives[0].lstrip("-")
    opened = open_program(folder, store=store)
    after = [row.scores[name] or 0.0 for row in score(opened, "test").rows]
    opened = open_program(recipe, sets, store=store)
    before = [row.scores[name] or 0.0 for row in score(opened, "test").rows]
    cells = []
    for scores in (before, after):
        interval = mean_ci(scores, seed=0)
        cells.append(f"{interval.mean:6.3f} [{interval.low:.3f}, {interval.high:.3f}]")
    choice = facts["search"].get("candidate") or facts["search"].get("notes")
    print(
        f"{facts['counters']['lm_calls']:7.0f}{counters['sent']:7.0f}{counters['seconds']:8.0f}  "
        + "  ->".join(cells)
        + f"   {json.dumps(choice)[:200]}",
        flush=True,
    )
    return before, after


def main() -> None:
    parser = argparse.ArgumentParser(description="Optimizers at one budget over several seeds.")
    parser.add_argument("--recipe", type=Path, default=DEMO)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--optimizers", nargs="+", default=["ragc", "random", "mipro"])
    parser.add_argument("--store", type=Path)
    parser.add_argument("--set", dest="sets", action="append", default=[], metavar="KEY=VALUE")
    args = parser.parse_args()
    print(machine())
    print(f"{args.recipe.name}, {args.calls} LM calls for a search {' '.join(args.sets)}")
    print(f"\n{'optimizer':12}{'seed':>5}{'calls':>7}{'sent':>7}{'seconds':>8}  test before  -> after")
    scores: dict[str, list[float]] = {name: [] for name in args.optimizers}
    with tempfile.TemporaryDirectory() as scratch:
        store = CallStore(args.store or Path(scratch) / "store")
        for seed in args.seeds:
            for name in args.optimizers:
                sets = [*args.sets, f"seed={seed}", f'search.optimizer="{name}"']
                test = 2 * (recipes.load(args.recipe, sets).data.test or 0)
                sets.append(f"budget.lm_calls={args.calls + int(test)}")
                print(f"{name:12}{seed:5}", end="", flush=True)
                _, after = run(args.recipe, sets, Path(scratch) / f"{name}-{seed}", store)
                scores[name] += after
    first = args.optimizers[0]
    print(f"\nAll {len(scores[first])} test questions together:")
    for name, row_scores in scores.items():
        own = mean_ci(row_scores, seed=0)
        text = f"{name:12}{own.mean:6.3f} [{own.low:.3f}, {own.high:.3f}]"
        if name != first:
            gap = paired(row_scores, scores[first], seed=0)
            text += f"   {first} - {name}: {gap.diff:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}], p {gap.p:.3g}"
            text += f", {first} is {verdict(gap)}"
        print(text)


if __name__ == "__main__":
    main()
