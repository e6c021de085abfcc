"""ragc's study and its peers at one budget of LM calls, over several seeds, on the embedded model.

    python -m experiments.benchmarks.search.seeds
        [--recipe experiments/demo.toml] [--seeds 1 2 3] [--calls 300]
        [--optimizers ragc random mipro] [--store FOLDER] [--out rows.jsonl] [--set KEY=VALUE ...]

Each optimizer compiles the recipe with each seed, which also draws the questions; `{seed}` in a VALUE is
replaced by the seed, so that each may have files of its own. An optimizer may spend `--calls` LM calls on the
search, and as many as the test questions need beside. Printed of each: the calls, the seconds, and the score
on the test questions before and after with 95% intervals; then, over the questions of all seeds together, how
each optimizer differs from the first, paired question by question. A store given with `--store` replays what
was asked before; all optimizers share it. `--out` gets a row a search, with the scores by question; searches
that it holds are not run again. `--blind` prints no score, so that the first look comes after the last run.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.benchmarks.search.study import machine
from ragc import recipe as recipes
from ragc.compiled.evaluate import score
from ragc.compiled.opened import open_program
from ragc.metrics.stats.intervals import mean_ci, paired, verdict
from ragc.optimizers import compile as compiling
from ragc.store.call_store import CallStore
from ragc.task import base as tasks

DEMO = Path(__file__).resolve().parents[2] / "demo.toml"


def run(recipe: Path, sets: Sequence[str], folder: Path, store: CallStore) -> dict[str, Any]:
    """One compile: what it cost, what it chose, and the scores of the test questions before and after."""
    compiled = compiling.compile(recipes.load(recipe, sets), folder, store=store, include_seen=True)
    facts, counters = compiled.program.provenance, compiled.counters
    name = recipes.load(recipe, sets).search.objectives[0].lstrip("-")
    opened = open_program(folder, store=store)
    after = [row.scores[name] or 0.0 for row in score(opened, "test", include_seen=True).rows]
    opened = open_program(recipe, sets, store=store)
    opened_rows = score(opened, "test", include_seen=True).rows
    before = [row.scores[name] or 0.0 for row in opened_rows]
    return {
        "calls": facts["counters"]["lm_calls"],
        "sent": counters["sent"],
        "seconds": round(counters["seconds"], 1),
        "choice": facts["search"].get("candidate") or facts["search"].get("notes"),
        "questions": [row.question.id for row in opened_rows],
        "before": before,
        "after": after,
    }


def line(row: Mapping[str, Any], *, blind: bool) -> str:
    """One printed line of a row."""
    cells = []
    for scores in (row["before"], row["after"]):
        interval = mean_ci(scores, seed=0)
        cells.append(f"{interval.mean:6.3f} [{interval.low:.3f}, {interval.high:.3f}]")
    shown = "" if blind else "  ->".join(cells) + f"   {json.dumps(row['choice'])[:200]}"
    return f"{row['calls']:7.0f}{row['sent']:7.0f}{row['seconds']:8.0f}  {shown}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Optimizers at one budget over several seeds.")
    parser.add_argument("--recipe", type=Path, default=DEMO)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--optimizers", nargs="+", default=["ragc", "random", "mipro"])
    parser.add_argument("--store", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--blind", action="store_true")
    parser.add_argument("--set", dest="sets", action="append", default=[], metavar="KEY=VALUE")
    args = parser.parse_args()
    print(machine())
    print(f"{args.recipe.name}, {args.calls} LM calls for a search {' '.join(args.sets)}")
    print(f"\n{'optimizer':12}{'seed':>5}{'calls':>7}{'sent':>7}{'seconds':>8}  test before  -> after")
    lines = args.out.read_text("utf-8").splitlines() if args.out and args.out.exists() else []
    done = {(row["optimizer"], row["seed"]): row for row in map(json.loads, lines)}
    with tempfile.TemporaryDirectory() as scratch:
        store = CallStore(args.store or Path(scratch) / "store")
        for seed in args.seeds:
            for name in args.optimizers:
                print(f"{name:12}{seed:5}", end="", flush=True)
                if (name, seed) not in done:
                    sets = [text.replace("{seed}", str(seed)) for text in args.sets]
                    sets += [f"seed={seed}", f'search.optimizer="{name}"', f"budget.lm_calls={args.calls}"]
                    loaded = recipes.load(args.recipe, sets)
                    test = len(tasks.prepare(loaded, store=store).test)
                    sets[-1] = f"budget.lm_calls={args.calls + 2 * test}"
                    row = run(args.recipe, sets, Path(scratch) / f"{name}-{seed}", store)
                    done[name, seed] = {"optimizer": name, "seed": seed, **row}
                    if args.out:
                        with args.out.open("a", encoding="utf-8") as file:
                            file.write(json.dumps(done[name, seed]) + "\n")
                print(line(done[name, seed], blind=args.blind), flush=True)
    if not args.blind:
        summarize([[done[name, seed] for seed in args.seeds] for name in args.optimizers])


def summarize(searches: Sequence[Sequence[Mapping[str, Any]]]) -> None:
    """Prints the score of each optimizer over the questions of all seeds, and its difference to the first."""
    scores = {rows[0]["optimizer"]: [score for row in rows for score in row["after"]] for rows in searches}
    first = next(iter(scores))
    print(f"\nAll {len(scores[first])} test questions together:")
    before = mean_ci([score for row in searches[0] for score in row["before"]], seed=0)
    print(f"{'before':12}{before.mean:6.3f} [{before.low:.3f}, {before.high:.3f}]")
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
