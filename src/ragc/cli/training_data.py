"""The command `ragc data`: its arguments, and what it prints."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ragc.core.display import quantity
from ragc.training import FORMATS, KINDS

ABOUT = "make training data for small models from the train questions of a recipe"


def add_parser(command: Callable[..., argparse.ArgumentParser], commands: Any) -> None:
    """Add the command to `commands`; `command` makes one."""
    parser = command(commands, "data", ABOUT, run)
    parser.add_argument("kind", choices=tuple(KINDS), help="what is made: " + "; ".join(_about_kinds()))
    parser.add_argument(
        "recipe", metavar="RECIPE|COMPILED", help="the recipe; for demonstrations a compiled directory"
    )
    parser.add_argument("--out", metavar="FILE.jsonl", required=True, help="the rows; their card is FILE.md")
    parser.add_argument(
        "--set", metavar="KEY=VALUE", dest="sets", action="append", default=[], help="override a recipe's key"
    )
    parser.add_argument(
        "--format", choices=FORMATS, default=FORMATS[0], help="for whom pairs are written (default: trl)"
    )
    parser.add_argument("--dry-run", action="store_true", help="check everything and bound the cost")
    parser.add_argument("--base", metavar="DIR", help="of demonstrations: where relative paths lead")
    parser.add_argument(
        "--trust-code",
        action="store_true",
        help="of demonstrations from elsewhere: allow its author's program",
    )


def _about_kinds() -> Iterator[str]:
    return (f"{name} ({about})" for name, about in KINDS.items())


def run(args: argparse.Namespace) -> int:
    """Make the data, or with `--dry-run` say what it would take."""
    from ragc import api
    from ragc.cli import console
    from ragc.cli.progress import watching
    from ragc.errors import UsageError

    if args.dry_run:
        if args.kind == "demonstrations":
            raise UsageError("Demonstrations send nothing, so there is nothing to plan; leave --dry-run out.")
        planned = api.plan_training_data(args.kind, args.recipe, sets=args.sets, out=args.out)
        _emit(planned) if args.json else console.lines(plan_lines(planned))
        return 0
    with watching() as progress:
        data = api.training_data(
            args.kind,
            args.recipe,
            out=args.out,
            sets=args.sets,
            format=args.format,
            progress=progress,
            base=args.base,
            trust_code=args.trust_code,
        )
    _emit(data.to_json()) if args.json else console.lines(result_lines(data.to_json()))
    return 0


def _emit(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def plan_lines(planned: Mapping[str, Any]) -> Iterator[str]:
    """The estimate for people."""
    questions = quantity(planned["questions"], "train question")
    yield f"{planned['kind']} from {questions}, at most {planned['calls_a_question']} calls each"
    yield (
        f"at most {planned['lm_calls']:,} LM calls, {planned['lm_calls_about']:,} if all replies can be read "
        "and none is needed twice"
    )
    tokens, usd = planned["tokens"], planned["usd"]
    yield "tokens: no bound known" if tokens is None else f"tokens: at most {tokens:,}"
    yield "cost: no bound known; set budget.usd" if usd is None else f"cost: at most ${usd:,.2f}"
    yield "models: " + ", ".join(f"{role} {name}" for role, name in planned["targets"].items())


def result_lines(made: Mapping[str, Any]) -> Iterator[str]:
    """The counts for people."""
    classes = ", ".join(f"{number:,} {label}" for label, number in made["classes"].items())
    yield f"{quantity(made['rows'], 'row')} in {made['out']}: {classes}"
    yield from (f"left out: {reason} ({number:,})" for reason, number in made["drops"].items())
    yield f"card: {made['card']}"
    if cost := made["counters"]:
        sent = f"{cost['sent']:,.0f} requests sent, {cost['replayed']:,.0f} replayed"
        yield f"{sent}, {cost['tokens']:,.0f} tokens, ${cost['usd']:,.2f}, {cost['seconds']:.1f} s"
