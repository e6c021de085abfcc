"""`ragc grid`: evaluate the listed settings of a recipe."""

from __future__ import annotations

import argparse

from ragc.api import grids
from ragc.cli import commands, console
from ragc.core.progress import showing


def register(command: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    command.add_argument("recipe", metavar="RECIPE", help="the recipe, with a table [grid]")
    command.add_argument("--set", **commands.SETS)
    command.add_argument("--out", metavar="DIR", help="the grid (default: grids/<recipe name>)")
    command.add_argument("--dry-run", action="store_true", help="check everything and bound the cost")
    command.set_defaults(run=run, after_interrupt=" Run the same command to go on; recorded settings stay.")


def run(args: argparse.Namespace) -> int:
    """Evaluates, or with `--dry-run` bounds the cost; returns the exit code."""
    if args.dry_run:
        estimate = grids.grid(args.recipe, sets=args.sets, out=args.out, dry_run=True)
        console.print_json(estimate) if args.json else console.grid_plan(estimate)
        return 0
    with showing(True) as progress:
        recorded = grids.grid(args.recipe, sets=args.sets, out=args.out, progress=progress)
    console.print_json(recorded.to_json()) if args.json else console.print_grid(recorded)
    return 0
