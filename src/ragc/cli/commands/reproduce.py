"""`ragc reproduce`: the tables of the papers, listed or run."""

from __future__ import annotations

import argparse
from typing import Any

from ragc.api import grids
from ragc.cli import commands, console
from ragc.core.progress import showing
from ragc.errors import UsageError


def register(command: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    command.add_argument("table", nargs="?", metavar="TABLE", help="the table; without it all are listed")
    command.add_argument(
        "--row", metavar="ID", dest="rows", action="append", default=[], help="only this row; repeatable"
    )
    command.add_argument(
        "--data-set",
        metavar="ID",
        dest="data_sets",
        action="append",
        default=[],
        help="only this data set; repeatable",
    )
    command.add_argument(
        "--data", metavar="DIR", default="data", help="where one folder a data set is (default: data)"
    )
    command.add_argument("--limit", type=int, metavar="N", help="questions of each data set at most")
    command.add_argument(
        "--beside", default="", metavar="MODEL", help="the paper's model whose figures are compared"
    )
    command.add_argument("--out", metavar="DIR", help="rows and result (default: reproduced/TABLE)")
    command.add_argument("--dry-run", action="store_true", help="check everything and bound the LM calls")
    command.add_argument("--set", **commands.SETS)
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Runs a table, bounds its cost, or lists all tables; returns the exit code."""
    if args.table is None:
        return _list(args)
    return _plan(args) if args.dry_run else _run_table(args)


def _list(args: argparse.Namespace) -> int:
    named = [
        option
        for option, value in (
            ("--row", args.rows),
            ("--data-set", args.data_sets),
            ("--set", args.sets),
            ("--limit", args.limit),
            ("--beside", args.beside),
            ("--out", args.out),
            ("--dry-run", args.dry_run),
        )
        if value
    ]
    if named:
        raise UsageError(f"{named[0]} is for running a table; name one, or leave it out to list all.")
    listed = grids.paper_tables(data=args.data)
    if args.json:
        console.print_json(listed)
        return 0
    from ragc.optimizers.grids.tables import listing

    console.table(listing.lines(listed))
    if absent := listing.needs(listed):
        console.lines(["", "Absent data:", *(f"- {text}" for text in absent)])
    console.lines(["", listing.summary(listed)])
    return 0


def _plan(args: argparse.Namespace) -> int:
    planned = grids.reproduce(args.table, **_part(args), dry_run=True)
    if args.json:
        console.print_json(planned)
        return 0
    rows: list[tuple[str, ...]] = [("data set", "row", "questions", "answered", "LM calls, about")]
    rows += [
        (
            cell["data"],
            cell["row"],
            f"{cell['questions']:,}",
            f"{cell['answered']:,}",
            "unknown" if cell["lm_calls_about"] is None else f"{cell['lm_calls_about']:,}",
        )
        for cell in planned["cells"]
    ]
    console.print_table(rows)
    if planned["lm_calls_about"] is not None:
        about = f"About {planned['lm_calls_about']:,} LM calls if every reply can be read. Nothing was sent."
        console.lines(["", about])
    if planned["left_out"]:
        console.lines(["", "Left out:", *(f"- {text}" for text in planned["left_out"])])
    if unmeasured := planned["unmeasured"]:
        console.lines(["", "Not measured:", *(f"- {name}: {why}" for name, why in unmeasured.items())])
    return 0


def _run_table(args: argparse.Namespace) -> int:
    with showing(True) as progress:
        result = grids.reproduce(args.table, **_part(args), progress=progress)
    if args.json:
        console.print_json(result.to_json())
    else:
        console.print_table(result.grid())
        console.lines(["", *result.lines()])
    return 0


def _part(args: argparse.Namespace) -> dict[str, Any]:
    """Returns the part of the table that the options name."""
    return {
        name: getattr(args, name) for name in ("rows", "data_sets", "data", "sets", "limit", "beside", "out")
    }
