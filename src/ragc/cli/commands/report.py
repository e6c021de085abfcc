"""`ragc report`: write what was measured as one HTML file."""

from __future__ import annotations

import argparse

from ragc.api import use
from ragc.cli import console
from ragc.compiled.access import Access


def register(command: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    command.add_argument(
        "paths",
        nargs="+",
        metavar="STUDY|COMPILED|ROWS.jsonl",
        help="a study or a compiled directory, rows of `ragc eval --out`, or both",
    )
    command.add_argument(
        "--out", default="report.html", metavar="FILE.html", help="the page (default: report.html)"
    )
    command.add_argument("--trust-targets", action="store_true", help="allow the addresses of its recipe")
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Writes the report; returns the exit code."""
    written = use.report(args.paths, out=args.out, access=Access(targets=args.trust_targets))
    console.print_json(written.to_json()) if args.json else console.lines(written.text())
    return 0
