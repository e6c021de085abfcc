"""`ragc export`: write a compiled program's prompts for other systems, or check an export."""

from __future__ import annotations

import argparse

from ragc.api import exchange
from ragc.cli import commands, console
from ragc.core.progress import showing
from ragc.errors import UsageError


def register(command: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    command.add_argument("program", metavar="COMPILED", help="the compiled directory")
    action = command.add_mutually_exclusive_group(required=True)
    action.add_argument("--to", metavar="FORMAT|all", help="the format; see: ragc list exports")
    action.add_argument("--check", metavar="PATH", help="compare an export with the compiled program")
    command.add_argument("--out", metavar="PATH", help="with --to: the file or folder to write")
    command.add_argument("--force", action="store_true", help="replace an export that is there")
    command.add_argument(
        "--questions",
        type=int,
        default=0,
        metavar="N",
        help="dev questions to go along as cases, answered first",
    )
    command.add_argument("--set", **commands.SETS)
    command.add_argument("--base", **commands.BASE)
    command.add_argument("--trust-targets", **commands.TRUST_TARGETS)
    command.add_argument("--trust-code", **commands.TRUST_CODE)
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Exports, or with `--check` compares; returns the exit code."""
    if args.questions < 0:
        raise UsageError(f"--questions must be 0 or more, found {args.questions}.")
    return _check(args) if args.check else _export(args)


def _check(args: argparse.Namespace) -> int:
    formats = exchange.check_export(args.program, args.check, questions=args.questions, **args.opening)
    if args.json:
        console.print_json({"checked": args.check, "formats": formats.split(", ")})
    else:
        console.print_export_check(args.check, formats)
    return 0


def _export(args: argparse.Namespace) -> int:
    if args.sets and not args.questions:
        raise UsageError("--set is for the recipe that answers --questions N; name N, or leave --set out.")
    if not args.out:
        raise UsageError("ragc export --to needs --out PATH, the file or folder to write.")
    with showing(True) as progress:
        result = exchange.export(
            args.program,
            args.to,
            args.out,
            force=args.force,
            questions=args.questions,
            progress=progress,
            **args.opening,
        )
    console.print_json(result.to_json()) if args.json else console.print_export(result)
    return 0
