"""`ragc train`: fine-tune a model, or write a base as a directory."""

from __future__ import annotations

import argparse

from ragc.api import training
from ragc.cli import commands, console
from ragc.core.progress import showing
from ragc.errors import UsageError


def register(command: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    command.add_argument("config", nargs="?", metavar="CONFIG", help="what is trained and how, a TOML file")
    command.add_argument("--set", **commands.SETS)
    command.add_argument("--out", metavar="DIR", required=True, help="the tuned model; a killed run goes on")
    command.add_argument(
        "--base",
        metavar="embedded|FILE.gguf",
        help="without CONFIG: write this model as a directory, no more",
    )
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Trains, or with `--base` writes a base; returns the exit code."""
    if bool(args.config) == bool(args.base):
        raise UsageError(
            "Name a CONFIG to train, or --base to write a base as a directory; "
            f"{'both are there' if args.config else 'neither is there'}."
        )
    with showing(True) as progress:
        if args.base:
            path = training.write_base(args.base, out=args.out, progress=progress)
            result, lines = {"base": args.base, "out": str(path)}, [f"The base is in {path}"]
        else:
            trained = training.train(args.config, out=args.out, sets=args.sets, progress=progress)
            result, lines = trained.to_json(), trained.lines()
    console.print_json(result) if args.json else console.lines(lines)
    return 0
