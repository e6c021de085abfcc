"""`ragc study`: see the progress of a study, or lend it this machine."""

from __future__ import annotations

import argparse

from ragc.api import studies
from ragc.cli import console
from ragc.compiled.access import Access


def register(command: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    command.add_argument(
        "action", choices=("status", "worker"), help="show how it is doing, or run trials for it here"
    )
    command.add_argument(
        "study", metavar="STUDY", help="the --out of its compile, its recipe, or HOST:PORT of its workers"
    )
    command.add_argument("--trust-targets", action="store_true", help="allow the addresses of its recipe")
    command.add_argument("--trials", type=int, metavar="N", help="with worker: trials at a time")
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Shows the state of the study, or runs its trials until it ends; returns the exit code."""
    if args.action == "worker":
        studies.join_study(args.study, trials=args.trials)
    status = studies.study_status(args.study, access=Access(targets=args.trust_targets))
    console.print_json(status.to_json()) if args.json else console.status(status.lines())
    return 0
