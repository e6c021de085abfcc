"""Options that several commands take."""

from __future__ import annotations

import argparse
from typing import Any

from ragc.compiled.access import Access


def add_sets(command: argparse.ArgumentParser) -> None:
    """Adds `--set`, overrides of a recipe."""
    command.add_argument(
        "--set", metavar="KEY=VALUE", dest="sets", action="append", default=[], help="override a recipe's key"
    )


def add_include_seen(command: argparse.ArgumentParser) -> None:
    """Adds `--include-seen`, for commands that score test questions."""
    command.add_argument(
        "--include-seen",
        action="store_true",
        help="score test questions that were used as train or dev before too, and say so",
    )


def add_allow_loss(command: argparse.ArgumentParser) -> None:
    """Adds `--allow-loss`, for commands that read the prompts of a recipe."""
    command.add_argument(
        "--allow-loss",
        action="store_true",
        help="go on where texts of an imported prompt would not be sent, and say which",
    )


def add_trust(command: argparse.ArgumentParser) -> None:
    """Adds `--base`, `--trust-targets` and `--trust-code`, for commands that open a compiled program."""
    command.add_argument("--base", metavar="DIR", help="where relative paths of its recipe lead")
    command.add_argument(
        "--trust-targets",
        action="store_true",
        help="of a program from elsewhere: allow its addresses and variables",
    )
    command.add_argument(
        "--trust-code",
        action="store_true",
        help="of a program from elsewhere: allow the programs and servers it starts",
    )


def opening_options(args: argparse.Namespace) -> dict[str, Any]:
    """Returns the options for opening a compiled program, as arguments of the public functions."""
    access = Access(args.base, args.trust_targets, args.trust_code)
    allow_loss = {"allow_loss": args.allow_loss} if "allow_loss" in args else {}
    return {"sets": args.sets, "access": access, **allow_loss}
