"""`ragc compile`: search for the best program of a recipe."""

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
        "--out", metavar="DIR", help="the compiled program (default: compiled/<recipe name>)"
    )
    command.add_argument("--resume", action="store_true", help="go on with a study that was cut off")
    command.add_argument(
        "--again", action="store_true", help="ask the models anew; replies of before are kept, and not used"
    )
    command.add_argument("--dry-run", action="store_true", help="check everything and estimate the cost")
    command.add_argument("--include-seen", **commands.INCLUDE_SEEN)
    command.set_defaults(
        run=run,
        resumable=True,
        after_interrupt=" Run the same command with --resume to go on; `ragc study status` names the best "
        "program so far.",
    )


def run(args: argparse.Namespace) -> int:
    """Compiles, or with `--dry-run` estimates the cost; returns the exit code."""
    if args.dry_run:
        estimate = studies.compile(
            args.recipe,
            sets=args.sets,
            out=args.out,
            include_seen=args.include_seen,
            dry_run=True,
        )
        console.print_json(estimate) if args.json else console.plan(estimate)
        return 0
    with showing(True) as progress:
        compiled = studies.compile(
            args.recipe,
            sets=args.sets,
            out=args.out,
            resume=args.resume,
            again=args.again,
            include_seen=args.include_seen,
            progress=progress,
        )
    console.print_json(compiled.to_json()) if args.json else console.print_compiled(compiled)
    return 0
