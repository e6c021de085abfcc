"""`ragc study status`: see the progress of a study."""

from __future__ import annotations

import argparse

from ragc.api import studies
from ragc.cli import console
from ragc.compiled.access import Access


def register(command: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    command.add_argument("action", choices=("status",), help="show how it is doing")
    command.add_argument("study", metavar="STUDY", help="the --out of its compile, or its recipe")
    command.add_argument("--trust-targets", action="store_true", help="allow the addresses of its recipe")
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Shows the state of the study; returns the exit code."""
    status = studies.study_status(args.study, access=Access(targets=args.trust_targets))
    console.print_json(status.to_json()) if args.json else console.status(status.lines())
    return 0
