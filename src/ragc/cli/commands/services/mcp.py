"""`ragc mcp`: a compiled program and its sources as tools of agents."""

from __future__ import annotations

import argparse

from ragc.api import use
from ragc.cli import commands, console, screen


def register(command: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    command.add_argument("program", metavar="COMPILED", help="a compiled directory")
    command.add_argument(
        "--transport",
        choices=("stdio", "http"),
        default="stdio",
        help="stdio, as agents start it, or streamable HTTP",
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
    command.add_argument("--in-flight", type=int, default=64, help="calls of tools at once (64)")
    command.add_argument("--time-out", type=float, default=120.0, help="seconds for one call (120)")
    command.add_argument(
        "--keep", action="store_true", help="write what clients ask, and the replies, to the call store"
    )
    command.add_argument("--set", **commands.SETS)
    command.add_argument("--base", **commands.BASE)
    command.add_argument("--trust-targets", **commands.TRUST_TARGETS)
    command.add_argument("--trust-code", **commands.TRUST_CODE)
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Offers the tools until stdin is closed, or for HTTP until a signal; returns the exit code 0."""
    names = ("host", "port", "allowed_hosts", "in_flight", "time_out", "keep")

    def listening(address: str) -> None:
        console.print_json({"address": address}) if args.json else print(f"Offering tools on {address}")
        screen.results().flush()

    use.mcp(
        args.program,
        transport=args.transport,
        **{name: getattr(args, name) for name in names},
        **args.opening,
        listening=listening,
    )
    return 0
