"""`ragc reproduce`: the tables of the papers, listed or run."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from ragc.cli import console, screen
from ragc.errors import UsageError

if TYPE_CHECKING:
    from ragc.optimizers.grids.tables.result import Reproduction


def run(args: argparse.Namespace) -> int:
    """Run the command; the exit code."""
    if args.table is None:
        return _list(args)
    return _plan(args) if args.dry_run else _run_table(args)


def _list(args: argparse.Namespace) -> int:
    from ragc import api

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
    listed = api.paper_tables(data=args.data)
    if args.json:
        _emit(listed)
        return 0
    from ragc.optimizers.grids.tables import listing

    console.table(listing.lines(listed))
    if absent := listing.needs(listed):
        console.lines(["", "Absent data:", *(f"- {text}" for text in absent)])
    console.lines(["", listing.summary(listed)])
    return 0


def _plan(args: argparse.Namespace) -> int:
    from ragc import api

    planned = api.plan_reproduce(args.table, **_part(args))
    if args.json:
        _emit(planned)
        return 0
    rows: list[tuple[str, ...]] = [("data set", "row", "questions", "answered", "LM calls at most")]
    rows += [
        (
            cell["data"],
            cell["row"],
            f"{cell['questions']:,}",
            f"{cell['answered']:,}",
            "no bound" if cell["lm_calls"] is None else f"{cell['lm_calls']:,}",
        )
        for cell in planned["cells"]
    ]
    _grid(rows)
    if planned["lm_calls"] is not None:
        about = f"{planned['lm_calls_about']:,} if every reply can be read"
        console.lines(["", f"{planned['lm_calls']:,} LM calls at most, {about}. Nothing was sent."])
    if planned["left_out"]:
        console.lines(["", "Left out:", *(f"- {text}" for text in planned["left_out"])])
    if unmeasured := planned["unmeasured"]:
        console.lines(["", "Not measured:", *(f"- {name}: {why}" for name, why in unmeasured.items())])
    if same := planned["same_requests"]:
        rows_named = (f"- {' and '.join(one['rows'])} on {one['data']}" for one in same)
        console.lines(["", "Equal program, settings and sources, so figures cannot differ:", *rows_named])
    return 0


def _run_table(args: argparse.Namespace) -> int:
    from ragc import api
    from ragc.core.progress import bars as console_watch

    with console_watch.watching() as progress:
        result: Reproduction = api.reproduce(args.table, **_part(args), beside=args.beside, progress=progress)
    if args.json:
        _emit(result.to_json())
    else:
        _grid(result.grid())
        console.lines(["", *result.lines()])
    return 0


def _part(args: argparse.Namespace) -> dict[str, Any]:
    """The part of the table that the options name."""
    return {name: getattr(args, name) for name in ("rows", "data_sets", "data", "sets", "limit", "out")}


def _grid(rows: list[tuple[str, ...]]) -> None:
    sys.stdout.writelines(f"{line}\n" for line in screen.grid(rows, screen.width()))


def _emit(value: object) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
