"""The command `ragc data`: makes training data, and prints what was made."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from ragc.core.display import quantity


def run(args: argparse.Namespace) -> int:
    """Make the data, or with `--dry-run` say what it would take."""
    from ragc import api
    from ragc.cli import console
    from ragc.core.progress.bars import watching
    from ragc.errors import UsageError

    if args.kind != "demonstrations" and (args.base is not None or args.trust_code):
        raise UsageError("--base and --trust-code are for demonstrations; leave them out.")
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
    yield f"{planned['kind']} from {questions}, at most {quantity(planned['calls_a_question'], 'call')} each"
    yield (
        f"at most {planned['lm_calls']:,} LM calls, {planned['lm_calls_about']:,} if all replies can be read "
        "and none is needed twice"
    )
    tokens, usd = planned["tokens"], planned["usd"]
    yield "tokens: no bound known" if tokens is None else f"tokens: at most {tokens:,}"
    yield "cost: no bound known; set budget.usd" if usd is None else f"cost: at most ${usd:,.2f}"
    yield "models: " + ", ".join(f"{role} {name}" for role, name in planned["targets"].items())


def result_lines(result: Mapping[str, Any]) -> Iterator[str]:
    """The counts for people."""
    classes = ", ".join(f"{number:,} {label}" for label, number in result["classes"].items())
    yield f"{quantity(result['rows'], 'row')} in {result['out']}: {classes}"
    yield from (f"left out: {reason} ({number:,})" for reason, number in result["drops"].items())
    yield f"card: {result['card']}"
    if cost := result["counters"]:
        sent = f"{cost['sent']:,.0f} requests sent, {cost['replayed']:,.0f} replayed"
        yield f"{sent}, {cost['tokens']:,.0f} tokens, ${cost['usd']:,.2f}, {cost['seconds']:.1f} s"
