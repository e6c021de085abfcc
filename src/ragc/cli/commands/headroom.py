"""`ragc headroom`: measure what a study of a recipe can show."""

from __future__ import annotations

import argparse

from ragc.api import studies
from ragc.cli import commands, console
from ragc.core.progress import showing


def register(command: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    command.add_argument("recipe", metavar="RECIPE", help="the recipe, a TOML file")
    command.add_argument("--set", **commands.SETS)
    command.add_argument(
        "--calls", type=int, default=300, metavar="N", help="LM calls to spend at most (default: 300)"
    )
    command.add_argument(
        "--gain", type=float, default=0.05, metavar="X", help="the gain that is to be shown (default: 0.05)"
    )
    command.add_argument("--dry-run", action="store_true", help="say what would be tried, and send nothing")
    command.set_defaults(run=run, after_interrupt=" Run the same command to go on.")


def run(args: argparse.Namespace) -> int:
    """Measures, or with `--dry-run` says what would be tried; returns the exit code."""
    if args.dry_run:
        planned = studies.headroom(
            args.recipe,
            sets=args.sets,
            calls=args.calls,
            gain=args.gain,
            dry_run=True,
        )
        console.print_json(planned) if args.json else console.headroom_plan(planned)
        return 0
    with showing(True) as progress:
        result = studies.headroom(
            args.recipe,
            sets=args.sets,
            calls=args.calls,
            gain=args.gain,
            progress=progress,
        )
    console.print_json(result.to_json()) if args.json else console.status(list(result.lines()))
    return 0
