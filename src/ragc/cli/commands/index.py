"""`ragc index`: build the indexes that a recipe's program searches."""

from __future__ import annotations

import argparse

from ragc.api import recipes
from ragc.cli import commands, console
from ragc.core.progress import showing


def register(command: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    command.add_argument("recipe", metavar="RECIPE", help="the recipe, a TOML file")
    command.add_argument("--set", **commands.SETS)
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Builds the indexes; returns the exit code."""
    with showing(True) as progress:
        rows = recipes.index(args.recipe, sets=args.sets, progress=progress)
    console.print_json(rows) if args.json else console.print_indexes(rows)
    return 0
