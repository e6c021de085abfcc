"""`ragc list`: names that recipes can use."""

from __future__ import annotations

import argparse

from ragc.api import names
from ragc.api.names import KINDS
from ragc.cli import console


def register(command: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    command.add_argument("kind", choices=KINDS, help="what is listed")
    command.add_argument("program", nargs="?", help="with knobs: whose knobs")
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Lists the names; returns the exit code."""
    rows = names.list_names(args.kind, args.program)
    console.print_json(rows) if args.json else console.table(rows)
    return 0
