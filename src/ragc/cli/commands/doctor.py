"""`ragc doctor`: check this machine, and what the targets of a recipe can do."""

from __future__ import annotations

import argparse

from ragc.api import recipes
from ragc.cli import commands, console
from ragc.errors import UsageError


def register(command: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    command.add_argument("recipe", nargs="?", metavar="RECIPE", help="open its targets, and ask each once")
    command.add_argument("--set", **commands.SETS)
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints a line a check; returns the exit code, 1 where something needed is missing."""
    if args.recipe is None and args.sets:
        raise UsageError("--set is for the targets of a recipe; name the recipe, or leave it out.")
    checks = recipes.examine(args.recipe, sets=args.sets)
    console.print_json([check.to_json() for check in checks]) if args.json else console.checks(checks)
    return 0 if all(check.ok or not check.needed for check in checks) else 1
