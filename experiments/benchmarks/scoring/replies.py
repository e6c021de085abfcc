"""Parsing of labelled replies: how many are read rightly, asked for again, and silently read wrongly.

    PYTHONPATH=src:. python experiments/benchmarks/scoring/replies.py FILE... [--kind embedded --model PATH]

FILE has one labelled reply a line, as tests/recorded/replies does (its README says which fields). With a
target (`--kind` and `--model` as in a recipe's table) each reply that is not read is followed by the one
repair request of a typed call, and what comes of it is counted too.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dspy.adapters.utils import serialize_for_json

from ragc.errors import ParseFailure
from ragc.programs.calls.outputs import forgiving
from ragc.programs.calls.parsing import parse
from ragc.programs.calls.predict import RagPredict
from ragc.programs.runtime import Runtime
from ragc.targets import build
from ragc.targets.base import Reply, Target
from ragc.targets.options import TargetSpec
from tests.programs.calls.labelled_replies import outcome, read, rows_of, signature_of

SHOWN = {
    "right": "right",
    "refused": "asked again",
    "wrong": "silently wrong",
    "kept off": "unreadable, asked again",
}


async def repaired(row: Mapping[str, Any], target: Target) -> dict[str, Any] | None:
    """Returns the outputs after one repair request for the reply of `row`; None if they cannot be read."""
    signature = signature_of(row)
    call = RagPredict(signature, Runtime({"main": target}), layout=row["layout"])
    inputs = {**dict.fromkeys(signature.input_fields, ""), **row.get("inputs", {})}
    reply = Reply(row["reply"], finish="length" if row.get("truncated") else "stop")
    problem = ""
    try:
        parse(signature, reply.text, layout=row["layout"], finish=reply.finish)
    except ParseFailure as failure:
        problem = str(failure)
    second = await target.complete(call.repair_request(call.request(**inputs), reply, problem))
    try:
        enforced = "schema" in target.capabilities
        parsed = parse(
            forgiving(signature), second.text, layout="json", enforced=enforced, finish=second.finish
        )
    except ParseFailure:
        return None
    return {name: serialize_for_json(value) for name, value in parsed.outputs.items()}


async def measure(rows: list[dict[str, Any]], target: Target | None) -> Counter[str]:
    """Returns how many of `rows` had each outcome, at first and after a repair request."""
    counts: Counter[str] = Counter()
    if target is not None:
        await target.open()
    for row in rows:
        result = outcome(row, read(row))
        counts[SHOWN[result]] += 1
        if target is not None and result == "refused":
            after = outcome(row, await repaired(row, target))
            counts[f"{SHOWN[result]}, then {after}"] += 1
    return counts


def main() -> None:
    """Prints a table for each file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--kind", default="embedded")
    parser.add_argument("--model", default="")
    options = parser.parse_args()
    target = build(TargetSpec(kind=options.kind, model=options.model)) if options.model else None
    for file in options.files:
        rows = rows_of(file)
        counts = asyncio.run(measure(rows, target))
        print(f"{file.name}: {len(rows)} replies, {sum(row['readable'] for row in rows)} readable")
        for name, count in sorted(counts.items()):
            print(f"  {count:5} {name}")


if __name__ == "__main__":
    main()
