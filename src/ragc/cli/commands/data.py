"""`ragc data`: make training data for small models."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from ragc.api import training
from ragc.cli import commands, console
from ragc.compiled.access import Access
from ragc.core.display import dollars, quantity, spent
from ragc.core.progress import showing
from ragc.errors import UsageError
from ragc.training import FORMATS, KINDS


def register(command: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    kinds = "; ".join(f"{name}: {about}" for name, about in KINDS.items())
    command.add_argument("kind", choices=tuple(KINDS), help=kinds)
    command.add_argument(
        "recipe", metavar="RECIPE|COMPILED", help="the recipe; for demonstrations a compiled directory"
    )
    command.add_argument("--out", metavar="FILE.jsonl", required=True, help="the rows; their card is FILE.md")
    command.add_argument("--set", **commands.SETS)
    command.add_argument(
        "--format", choices=FORMATS, default=FORMATS[0], help="for whom pairs are written (default: trl)"
    )
    command.add_argument("--dry-run", action="store_true", help="check everything and bound the cost")
    command.add_argument("--base", metavar="DIR", help="of demonstrations: where relative paths lead")
    command.add_argument(
        "--trust-code",
        action="store_true",
        help="of demonstrations from elsewhere: allow the program of their author",
    )
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Makes the data, or with `--dry-run` bounds the cost; returns the exit code."""
    if args.kind != "demonstrations" and (args.base is not None or args.trust_code):
        raise UsageError("--base and --trust-code are for demonstrations; leave them out.")
    if args.dry_run:
        planned = training.training_data(
            args.kind,
            args.recipe,
            sets=args.sets,
            out=args.out,
            dry_run=True,
        )
        console.print_json(planned) if args.json else console.lines(_plan_lines(planned))
        return 0
    with showing(True) as progress:
        data = training.training_data(
            args.kind,
            args.recipe,
            out=args.out,
            sets=args.sets,
            format=args.format,
            progress=progress,
            access=Access(base=args.base, code=args.trust_code),
        )
    console.print_json(data.to_json()) if args.json else console.lines(_result_lines(data.to_json()))
    return 0


def _plan_lines(planned: Mapping[str, Any]) -> Iterator[str]:
    """Yields the estimate for people."""
    questions = quantity(planned["questions"], "train question")
    yield f"{planned['kind']} from {questions}, about {quantity(planned['calls_a_question'], 'call')} each"
    yield f"about {planned['lm_calls_about']:,} LM calls if all replies can be read"
    tokens, usd = planned["tokens"], planned["usd"]
    yield "tokens: unknown" if tokens is None else f"tokens: {tokens:,} if each prompt fills the context"
    yield "cost: unknown; set budget.usd" if usd is None else f"cost: {dollars(usd)} then"
    yield "models: " + ", ".join(f"{role} {name}" for role, name in planned["targets"].items())


def _result_lines(result: Mapping[str, Any]) -> Iterator[str]:
    """Yields the counts for people."""
    classes = ", ".join(f"{number:,} {label}" for label, number in result["classes"].items())
    yield f"{quantity(result['rows'], 'row')} in {result['out']}: {classes}"
    yield from (f"left out: {reason} ({number:,})" for reason, number in result["drops"].items())
    yield f"card: {result['card']}"
    if cost := result["counters"]:
        yield spent(cost)
