"""The command line: makes the parser of all commands, runs one, and ends with its exit code.

Argparse's messages are explained with the nearest names.

Exit codes: 2 for errors of use, 1 for errors of the run, 130 for an interrupt.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import Any, NoReturn

from ragc.cli import commands, console, failures
from ragc.cli.commands import COMMANDS
from ragc.cli.screen import escape_output, results_alone
from ragc.compiled.access import Access
from ragc.core.extras import __version__
from ragc.errors import RagcError, UnknownName, Untrusted, nearest

_FOLDERS = {
    "new": "documents",
    "pull": "documents",
    "questions": "documents",
    "mcp": "services",
    "serve": "services",
}
"""The folder of a command whose file is not in this one."""

_CHOICE = re.compile(r"argument ([^:]+): invalid choice: (['\"])(.*)\2 \(choose from (.*)\)", re.DOTALL)
_NUMBER = re.compile(r"argument ([^:]+): invalid (int|float) value: (.*)", re.DOTALL)
_MISSING = re.compile(r"the following arguments are required: (.*)")
_NO_VALUE = re.compile(r"argument ([^:]+): expected one argument")
_ONE_OF = re.compile(r"one of the arguments (.*) is required")
_NOT_BOTH = re.compile(r"argument ([^:]+): not allowed with argument (.*)")
_UNKNOWN = re.compile(r"unrecognized arguments: (.*)", re.DOTALL)
_OPTION = re.compile(r"--[a-z][\w-]*")
_KINDS = {"int": "a whole number", "float": "a number"}


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one sentence, with the usage if that helps."""

    def error(self, message: str) -> NoReturn:
        """Prints what is wrong and exits with status 2."""
        text, with_usage = self._explain(message)
        if with_usage:
            self.print_usage(sys.stderr)
        console.error(text)
        raise SystemExit(2)

    def _explain(self, message: str) -> tuple[str, bool]:
        """Returns the sentence for argparse's `message`, and whether the usage belongs before it."""
        if match := _CHOICE.fullmatch(message):
            what, known = match[1].lstrip("-").lower(), re.findall(r"[\w-]+", match[4])
            return str(UnknownName(what, match[3], known)), False
        if match := _NUMBER.fullmatch(message):
            return f"{match[1]} must be {_KINDS[match[2]]}, found {match[3]}.", False
        if match := _NO_VALUE.fullmatch(message):
            return f"{match[1]} needs a value, and none follows it.", True
        if match := _MISSING.fullmatch(message):
            return f"{self.prog} needs {match[1].replace(', ', ' and ')}; see {self.prog} --help.", True
        if match := _ONE_OF.fullmatch(message):
            return f"{self.prog} needs {match[1].replace(' ', ' or ')}; see {self.prog} --help.", True
        if match := _NOT_BOTH.fullmatch(message):
            return f"{self.prog} takes {match[2]} or {match[1]}, not both.", True
        if match := _UNKNOWN.fullmatch(message):
            return f"{self.prog} does not take {match[1]!r}{self._advice(match[1])}", True
        return f"{self.prog}: {message}.", True

    def _advice(self, rest: str) -> str:
        """Returns the end of the sentence on the arguments `rest`, which the command does not take."""
        if not rest.startswith("-"):
            return "; put an argument with blanks in quotes."
        name = re.split("[= ]", rest)[0]
        return f".{nearest(name, _OPTION.findall(self.format_usage()))}"


def parser(loaded: Collection[str] = COMMANDS.keys()) -> argparse.ArgumentParser:
    """Returns the parser of the command line, in which the commands `loaded` have their arguments."""
    top = Parser(
        prog="ragc", description="Compile retrieval-augmented programs for your questions, corpus and model."
    )
    top.add_argument("--version", action="version", version=f"ragc {__version__}")
    known = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, about in COMMANDS.items():
        command = known.add_parser(name, help=about, description=about)
        command.add_argument(
            "--json", action="store_true", help="one JSON document on stdout and nothing else there"
        )
        command.set_defaults(parser=command, resumable=False, after_interrupt="")
        if name in loaded:
            import_module(module_of(name)).register(command)
    return top


def module_of(command: str) -> str:
    """Returns the module of a command."""
    return ".".join(filter(None, (commands.__name__, _FOLDERS.get(command), command)))


class Arguments(argparse.Namespace):
    """The arguments of a command."""

    @property
    def opening(self) -> dict[str, Any]:
        """How a compiled program is opened, as arguments of the public functions."""
        access = Access(self.base, self.trust_targets, self.trust_code)
        return {"sets": self.sets, "access": access}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit code."""
    with failures.streams(), failures.endings():
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
    """Runs a command; returns its exit code, whatever it raises."""
    try:
        with _results_alone(args):
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


def _results_alone(args: argparse.Namespace) -> AbstractContextManager[None]:
    """Leads what a user's own code prints to stderr where stdout holds one document; MCP has a stdout of its
    own.
    """
    return results_alone() if args.json and args.command != "mcp" else nullcontext()


def _output_failed() -> bool:
    """Returns whether writing to stdout failed, which is reported; a closed pipe is not a failure."""
    refusal = failures.refusal(sys.stdout)
    if refusal is None or isinstance(refusal, BrokenPipeError):
        return False
    console.error(failures.sentence(refusal, "Writing the result to stdout"))
    return True
