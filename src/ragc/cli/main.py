"""The command line: makes the parser of all commands, runs one, and ends with its exit code.

Exit codes: 2 for errors of use, 1 for errors of the run, 130 for an interrupt.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import Any

from ragc.cli import console, failures
from ragc.cli.arguments import Parser
from ragc.cli.commands import COMMANDS, SERVICES
from ragc.cli.screen import escape_output
from ragc.compiled.access import Access
from ragc.core.extras import __version__
from ragc.errors import RagcError, Untrusted


def parser(loaded: Collection[str] = COMMANDS.keys()) -> argparse.ArgumentParser:
    """Returns the parser of the command line, in which the commands `loaded` have their arguments."""
    top = Parser(
        prog="ragc", description="Compile retrieval-augmented programs for your questions, corpus and model."
    )
    top.add_argument("--version", action="version", version=f"ragc {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, about in COMMANDS.items():
        command = commands.add_parser(name, help=about, description=about)
        command.add_argument(
            "--json", action="store_true", help="one JSON document on stdout and nothing else there"
        )
        command.set_defaults(parser=command, resumable=False, after_interrupt="")
        if name in loaded:
            import_module(f"ragc.cli.commands.{SERVICES.get(name, name)}").register(command)
    return top


class Arguments(argparse.Namespace):
    """The arguments of a command."""

    @property
    def opening(self) -> dict[str, Any]:
        """How a compiled program is opened, as arguments of the public functions."""
        allow_loss = {"allow_loss": self.allow_loss} if "allow_loss" in self else {}
        access = Access(self.base, self.trust_targets, self.trust_code)
        return {"sets": self.sets, "access": access, **allow_loss}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    with failures.streams(), failures.interrupts(), failures.endings():
        if sys.stdout is None:
            console.error(
                "stdout is closed, and results are written there; open it, or lead it to /dev/null."
            )
            return 1
        return _main(argv)


@escape_output
def _main(argv: Sequence[str] | None) -> int:
    try:
        words = sys.argv[1:] if argv is None else argv
        first = next((word for word in words if word in COMMANDS), None)
        args, rest = parser([first] if first else []).parse_known_args(words, Arguments())
        if rest:
            args.parser.error(f"unrecognized arguments: {' '.join(rest)}")
    except SystemExit:
        if _output_failed():
            return 1
        raise
    try:
        status = _run(args)
    finally:
        if loop := sys.modules.get("ragc.core.event_loop"):  # not imported by a command without requests
            with failures.ignore_interrupts():
                loop.release()
    return 1 if _output_failed() else status


def _run(args: argparse.Namespace) -> int:
    """The exit code of a command, whatever it raises."""
    try:
        with _saying_losses(args):
            status: int = args.run(args)
        return status
    except RagcError as error:
        console.error(error.command if isinstance(error, Untrusted) else str(error))
        return error.exit_code
    except KeyboardInterrupt as stop:
        with failures.ignore_interrupts():
            console.error(str(stop) or f"Interrupted; every finished request is kept.{args.after_interrupt}")
        return failures.interrupted_status()
    except BrokenPipeError:
        return 0
    except Exception as error:
        if not failures.refusal(sys.stdout):
            resumable = args.resumable and not args.dry_run
            console.error(failures.sentence(error, f"ragc {args.command}", resumable=resumable))
        return 1


def _saying_losses(args: argparse.Namespace) -> AbstractContextManager[None]:
    """Prints on stderr what prompts lose, for a command that allows it."""
    if not getattr(args, "allow_loss", False):
        return nullcontext()
    from ragc.core.progress import listening

    return listening(console.error)


def _output_failed() -> bool:
    """Whether writing to stdout failed, which is reported; a closed pipe is not a failure."""
    refusal = failures.refusal(sys.stdout)
    if refusal is None or isinstance(refusal, BrokenPipeError):
        return False
    console.error(failures.sentence(refusal, "Writing the result to stdout"))
    return True
