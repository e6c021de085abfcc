"""`ragc serve`: compiled programs behind OpenAI's HTTP interface."""

from __future__ import annotations

import argparse

from ragc.api import use
from ragc.cli import commands, console, screen


def register(command: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    command.add_argument(
        "programs", metavar="COMPILED", nargs="+", help="compiled directories; their names are the model ids"
    )
    command.add_argument("--host", default="127.0.0.1", help="the address to listen on (127.0.0.1)")
    command.add_argument("--port", type=int, default=8080, help="the port (8080); 0 takes any free one")
    command.add_argument(
        "--allow-host",
        metavar="NAME",
        dest="allowed_hosts",
        action="append",
        default=[],
        help="a name by which clients reach this server",
    )
    command.add_argument(
        "--history",
        choices=("compiled", "last", "rewrite", "refuse"),
        default="compiled",
        help="earlier turns are left out (last), read by one more call that makes a whole question "
        "(rewrite), or refused; by default as the program's knob history says",
    )
    command.add_argument(
        "--system", choices=("ignore", "refuse"), default="ignore", help="what becomes of system messages"
    )
    command.add_argument(
        "--stream",
        choices=("real", "late"),
        default="real",
        help="send text while it is written, or once it is final",
    )
    command.add_argument("--workers", type=int, default=1, help="processes that share the address (1)")
    command.add_argument("--in-flight", type=int, default=64, help="questions at once in a worker (64)")
    command.add_argument("--in-flight-per-key", type=int, help="questions of one key at once in a worker")
    command.add_argument("--time-out", type=float, default=120.0, help="seconds for one question (120)")
    command.add_argument(
        "--keep", action="store_true", help="write what clients ask, and the replies, to the call store"
    )
    command.add_argument("--set", **commands.SETS)
    command.add_argument("--base", **commands.BASE)
    command.add_argument("--trust-targets", **commands.TRUST_TARGETS)
    command.add_argument("--trust-code", **commands.TRUST_CODE)
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serves until a signal; returns the exit code 0."""
    names = (
        *("host", "port", "allowed_hosts", "history", "system", "stream", "workers"),
        *("in_flight", "in_flight_per_key", "time_out", "keep"),
    )

    def listening(address: str) -> None:
        console.print_json({"address": address}) if args.json else print(f"Serving on {address}/v1")
        screen.results().flush()

    use.serve(
        *args.programs, **{name: getattr(args, name) for name in names}, **args.opening, listening=listening
    )
    return 0
