"""`ragc pack`: one file with a compiled program and what it reads, for another machine."""

from __future__ import annotations

import argparse

from ragc.api import gate
from ragc.cli import console


def register(command: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    command.add_argument("program", metavar="COMPILED", help="the compiled directory")
    command.add_argument("--out", required=True, metavar="FILE.ragc", help="the file to write")
    command.add_argument(
        "--weights", action="store_true", help="its models go along, so that no network is needed"
    )
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Writes the pack; returns the exit code."""
    packed = gate.pack(args.program, out=args.out, weights=args.weights)
    if args.json:
        console.print_json(packed.to_json())
    else:
        console.lines([f"{packed.path}: {packed.files} files, {packed.bytes:,} bytes, {packed.digest}"])
    return 0
