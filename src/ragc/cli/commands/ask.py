"""`ragc ask`: answer one question."""

from __future__ import annotations

import argparse

from ragc.api import use
from ragc.cli import commands, console


def register(command: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    command.add_argument(
        "program", metavar="COMPILED|RECIPE", help="a compiled directory, or a recipe as it is"
    )
    command.add_argument("question", metavar="QUESTION", help="the question, in quotes")
    command.add_argument("--set", **commands.SETS)
    command.add_argument("--base", **commands.BASE)
    command.add_argument("--trust-targets", **commands.TRUST_TARGETS)
    command.add_argument("--trust-code", **commands.TRUST_CODE)
    command.add_argument("--trace", action="store_true", help="show every search and call")
    command.add_argument("--again", action="store_true", help="ask the models anew, not the kept replies")
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Answers the question; returns the exit code, 1 without an answer."""
    row = use.ask(args.program, args.question, again=args.again, **args.opening)
    console.print_json(row.to_json()) if args.json else console.print_answer(row, trace=args.trace)
    from ragc.task.answering import failed_searches, was_replayed

    if text := failed_searches([row]):
        console.error(text)
    if row.failure:
        advice = " This is a reply of an earlier run; --again asks the model anew."
        console.error(f"The question has no answer: {row.failure}{advice if was_replayed(row) else ''}")
    return 1 if row.failure else 0
