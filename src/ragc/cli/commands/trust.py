"""`ragc trust`: see what a compiled program would do, and trust it on this machine."""

from __future__ import annotations

import argparse
import sys

from ragc.api import exchange
from ragc.cli import console
from ragc.errors import UsageError


def register(command: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    command.add_argument("program", metavar="COMPILED", help="the compiled directory")
    command.add_argument("--base", metavar="DIR", help="where its relative paths lead (default: itself)")
    command.add_argument("--yes", action="store_true", help="record it without a question")
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Lists what the program would do, and records it once confirmed; returns the exit code."""
    shown = exchange.trust_listing(args.program, base=args.base)
    if not args.json:
        console.lines(shown.lines())
    if shown.problems:
        if args.json:
            console.print_json(shown.to_json())
        shown.record()  # raises them
    confirmed = args.yes or shown.trusted
    if not confirmed and not args.json and sys.stdin.isatty():
        console.lines(["Trust it on this machine? [y/N]"])
        confirmed = sys.stdin.readline().strip().lower() in ("y", "yes")
        if not confirmed:
            console.lines(["Nothing was recorded."])
            return 1
    if confirmed and (args.base or not shown.trusted):
        shown = shown.record()
    if args.json:
        console.print_json(shown.to_json())
    elif confirmed:
        console.lines([f"{shown.path} is trusted on this machine."])
    if not confirmed:
        raise UsageError(
            f"{shown.path} was not recorded, because nobody can be asked; run the command in a terminal, or "
            "with --yes once you have read what it would do."
        )
    return 0
