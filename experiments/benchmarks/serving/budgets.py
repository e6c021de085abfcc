"""Whether budgets hold, counted by the provider, over random studies of `tests.support.budget_runs`.

    PYTHONPATH=src python -m experiments.benchmarks.serving.budgets
        [--runs 500] [--first 0] [--jobs 2] [--out rows.jsonl]

Printed are the runs, how many of them a limit ended, and every violation; `--out` gets a row a run.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.support.budget_runs import context_of, note, run
from tests.support.priced_provider import PricedProvider


def main() -> None:
    parser = argparse.ArgumentParser(description="Whether budgets hold, by a provider's own count.")
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=2, help="runs at once")
    parser.add_argument("--out", type=Path, help="gets a row a run")
    args = parser.parse_args()
    context, seen = context_of(), Counter[str]()

    with PricedProvider() as provider, ThreadPoolExecutor(args.jobs) as pool:

        def one(seed: int) -> dict[str, Any]:
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                return run(seed, provider, context, Path(folder))

        for row in pool.map(one, range(args.first, args.first + args.runs)):
            if args.out:
                note(args.out, row)
            seen["runs"] += 1
            seen["ended"] += row.get("ended", False)
            seen["stopped by a limit"] += bool(row.get("refusals"))
            seen["starts"] += row.get("starts", 0)
            for violation in row["violations"]:
                seen["violations"] += 1
                print(f"run {row['seed']}: {violation}", flush=True)
            for what, number in row.get("answers", {}).items():
                seen[what] += number
    print(dict(seen))


if __name__ == "__main__":
    main()
