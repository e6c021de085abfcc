"""Which search chooses best on equal terms? ragc's own study and its peers on tables of scores.

    python -m experiments.benchmarks.search.choosing --rows rows.jsonl
        [--seeds 10] [--first 0] [--sources NAME ...] [--searches NAME ...] [--budgets .05 .1 .2 .4]
        [--tables DIR] [--ragsmith pipelines.csv] [--processes 1] [--final [LABEL]]
    python -m experiments.benchmarks.search.choosing --report rows.jsonl ... [--summary summary.csv]
    python -m experiments.benchmarks.search.choosing --summaries summary.csv ...

A world is a table of scores of settings on dev questions, whose true means are known or measured on other
questions. A search asks for a share of its answers, the budget, and chooses a setting. Regret is (best -
chosen) / (best - median) of the true means: 0 is the best setting, 1 the median. ragc is the real study of
`ragc.compile` (`table_study`). Every peer also runs with ragc's cut of dev questions (`+cut`), and chooses
with and without the rule against ending below the baseline. `--searches` names some; `exhaustive` is the best
mean of all answers, `ragc LINES` a study with these further lines of `[search]`.

Half of the kinds and tables are open, drawn by lot; all later kinds (`later`) are, too. The closed ones run
with `--final` only, once a search is fixed. LABEL, by default ragc's commit, tells final runs apart, and a
report shows every one. RAGSmith's pools take part where `--ragsmith` is the path of their table.

`--tables` takes your own tables in place of all these: every folder in DIR that holds a grid, as `ragc grid`
records it and docs/guide/grids.md describes it. Setting 0 is the baseline, the first metric decides; half of
the questions, drawn by the seed, are the dev questions, and the other half has the true means. A setting or
question with gaps is left out; the baseline, 3 settings and 10 questions must remain. `ragc.read_grid` reads
a grid.

Rows are appended as they come, and runs that are there are not repeated, so that a run may be killed. The
report prints, by budget, regret, risk and the error of what is expected, marks the frontier, and compares
ragc with each peer on the same worlds, over all budgets also with peers that end below the baseline no more
often. `--summaries` does this last thing for summaries, by budget too; their intervals draw sources alone.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from experiments.benchmarks.machine import commit, machine
from experiments.benchmarks.search.choosing.lot import Source, outside_tables, sources
from experiments.benchmarks.search.choosing.report import at_no_more_risk, read_summaries, report, summary
from experiments.benchmarks.search.choosing.runs import (
    EXHAUSTIVE,
    NAMES,
    RAGC,
    append,
    key_of,
    read_rows,
    rows,
)

BUDGETS = (0.05, 0.1, 0.2, 0.4)


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="choosing", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument(
        "--sources", nargs="+", help="kinds and tables; all that are open, or closed, without"
    )
    parser.add_argument("--searches", nargs="+", default=[*NAMES, EXHAUSTIVE])
    parser.add_argument("--budgets", nargs="+", type=float, default=BUDGETS)
    parser.add_argument("--tables", type=Path, help="a folder of grids to search in place of all others")
    parser.add_argument("--ragsmith", type=Path)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--final", nargs="?", const="", metavar="LABEL")
    parser.add_argument("--rows", type=Path, help="the file that rows are appended to")
    parser.add_argument("--report", nargs="+", type=Path)
    parser.add_argument("--summary", type=Path)
    parser.add_argument("--summaries", nargs="+", type=Path)
    return parser


def check_searches(names: Sequence[str]) -> None:
    """Raises SystemExit for a search that is not known."""
    known = {*NAMES, EXHAUSTIVE}
    if unknown := [name for name in names if name not in known and not name.startswith(f"{RAGC} ")]:
        raise SystemExit(f"No search is called {unknown[0]!r}; known: {', '.join(sorted(known))}.")


def chosen_sources(
    known: Sequence[Source], names: Sequence[str] | None, *, final: bool
) -> list[Source]:  # fmt: skip
    """The sources of `names`, all open or all closed. Raises SystemExit for others."""
    half = {source.name: source for source in known if source.is_open != final}
    for name in names or ():
        if name not in half:
            closed = any(source.name == name for source in known)
            which = "closed, and runs with --final only" if closed and not final else "not among the closed"
            why = f"is {which}" if closed else f"is not known; known: {', '.join(half)}"
            raise SystemExit(f"{name!r} {why}.")
    return [half[name] for name in names] if names else list(half.values())


def main() -> None:
    args = arguments().parse_args()
    if args.summaries:
        texts = [path.read_text("utf-8") for path in args.summaries]
        for budgets in ((), *([f"{budget:g}"] for budget in BUDGETS)):
            print("", f"{', '.join(budgets) or 'all'} of the answers", "", sep="\n")
            print(*at_no_more_risk(read_summaries(texts, budgets)), sep="\n")
        return
    if args.report:
        loaded = [row for path in args.report for row in read_rows(path)]
        if args.summary:
            args.summary.write_text(summary(loaded), "utf-8")
        print(report(loaded))
        return
    if args.rows is None:
        raise SystemExit("--rows names the file of rows; a run that breaks off goes on from it.")
    check_searches(args.searches)
    known, left_out = (outside_tables(args.tables), "") if args.tables else sources(args.ragsmith)
    final = args.final is not None
    chosen = chosen_sources(known, args.sources, final=final)
    label = (args.final or commit() or "final") if final else ""
    print(machine(), left_out, sep="\n", flush=True)
    done = {key_of(row) for row in read_rows(args.rows)}
    begun, last = time.monotonic(), 0.0
    counts: dict[str, list[float]] = defaultdict(list)
    for row in rows(
        chosen, args.searches, args.budgets, range(args.first, args.first + args.seeds), done,
        label=label, ragsmith=args.ragsmith, tables=args.tables, processes=args.processes,
    ):  # fmt: skip
        append(args.rows, row)
        counts[row["search"]].append(row["seconds"])
        if (now := time.monotonic() - begun) > last + 60:
            last = now
            print(f"{now:.0f} s, {sum(map(len, counts.values()))} runs", file=sys.stderr, flush=True)
    for name, seconds in counts.items():
        print(f"{name}: {len(seconds)} runs, {sum(seconds) / len(seconds):.3f} s of processor time each")


if __name__ == "__main__":
    main()
