"""`ragc gate`: whether a program is shown to lose less than is allowed; exit codes 0, 10 and 11."""

from __future__ import annotations

import argparse

from ragc.api import gate
from ragc.cli import commands, console
from ragc.core.progress import showing
from ragc.errors import UsageError


def register(command: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    command.add_argument("program", metavar="COMPILED|ROWS.jsonl", help="the program that is to be let in")
    command.add_argument(
        "--against",
        required=True,
        metavar="COMPILED|ROWS.jsonl",
        help="the program, or its rows, that it replaces",
    )
    command.add_argument(
        "--metric", default="", metavar="METRIC", help="what decides (default: the first of both)"
    )
    command.add_argument(
        "--allow",
        type=float,
        default=0.05,
        metavar="X",
        help="the loss that is not to be reached (default: 0.05)",
    )
    command.add_argument(
        "--min",
        dest="minimums",
        action="append",
        default=[],
        metavar="METRIC=X",
        help="a least mean of the program, to be shown too",
    )
    command.add_argument(
        "--split", choices=("train", "dev", "test"), default="test", help="the questions (default: test)"
    )
    command.add_argument("--markdown", metavar="FILE", help="also write a comment for a pull request")
    command.add_argument("--junit", metavar="FILE", help="also write JUnit XML")
    command.add_argument("--set", **commands.SETS)
    command.add_argument("--base", **commands.BASE)
    command.add_argument("--trust-targets", **commands.TRUST_TARGETS)
    command.add_argument("--trust-code", **commands.TRUST_CODE)
    command.add_argument("--include-seen", **commands.INCLUDE_SEEN)
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Runs the gate; returns the exit code."""
    least = dict(map(_minimum, args.minimums))
    asking = {"split": args.split, "include_seen": args.include_seen, **args.opening}
    from ragc.compiled import gate_report
    from ragc.core.files import put_file

    files = [
        (gate_report.check_file(path, head), write)
        for path, head, write in (
            (args.markdown, gate_report.HEADING, gate_report.markdown),
            (args.junit, gate_report.XML_HEAD, gate_report.junit),
        )
        if path
    ]
    with showing(True) as progress:
        result = gate.gate(
            args.program,
            args.against,
            metric=args.metric,
            allow=args.allow,
            least=least,
            progress=progress,
            **asking,
        )
    for path, write in files:
        put_file(path, write(result).encode("utf-8", "backslashreplace"))
    console.print_json(result.to_json()) if args.json else console.lines(result.lines())
    code: int = result.exit_code
    return code


def _minimum(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        return name.strip(), float(value)
    except ValueError:
        raise UsageError(f"--min needs METRIC=X with a number, such as f1=0.7, found {text!r}.") from None
