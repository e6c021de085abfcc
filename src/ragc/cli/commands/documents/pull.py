"""`ragc pull`: fetch the models of a recipe or compiled program, for a machine without a network."""

from __future__ import annotations

import argparse

from ragc.api import recipes
from ragc.cli import commands, console
from ragc.core.progress import showing


def register(command: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    command.add_argument(
        "path",
        nargs="?",
        metavar="RECIPE|COMPILED",
        help="whose models to fetch (default: the embedded model that recipes use by default)",
    )
    command.add_argument("--set", **commands.SETS)
    command.add_argument("--base", **commands.BASE)
    command.add_argument("--trust-targets", **commands.TRUST_TARGETS)
    command.add_argument("--trust-code", **commands.TRUST_CODE)
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Fetches the models; returns the exit code."""
    with showing(True) as progress:
        pulled = recipes.pull(args.path, progress=progress, **args.opening)
    if args.json:
        console.print_json([model.to_json() for model in pulled])
    else:
        lines = [f"{model.model} is here ({model.use})." for model in pulled]
        console.lines(lines or ["It names no model that is fetched."])
    return 0
