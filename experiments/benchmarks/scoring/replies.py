"""Parsing of labelled replies: how many are read rightly, asked for again, and silently read wrongly.

    PYTHONPATH=src:. python experiments/benchmarks/scoring/replies.py FILE... [--kind embedded --model PATH]

FILE has one labelled reply a line, as tests/recorded/replies does (its README says which fields). With a
target (`--kind` and `--model` as in a recipe's table) each reply that is not read is followed by the one
repair request of a typed call, and what comes of it is counted too. tests/programs/calls/labelled_replies.py
says what the outcomes are called.
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
from ragc.programs.calls.predict import RagPredict
from ragc.programs.runtime import Runtime
from ragc.targets import build
from ragc.targets.base import Reply, Target
from ragc.targets.options import TargetSpec
from tests.programs.calls.labelled_replies import outcome, read, rows_of, signature_of


async def repaired(row: Mapping[str, Any], target: Target) -> dict[str, Any] | None:
    """Returns the outputs after one repair request for the reply of `row`; None if they cannot be read."""
    signature = signature_of(row)
    call = RagPredict(signature, Runtime({"main": target}), layout=row["layout"])
    reply = Reply(row["reply"], finish="length" if row.get("truncated") else "stop")
    try:
        parsed = call.parse_reply(reply, enforced=False)
    except ParseFailure as failure:
        request = call.second_request(
            call.request(**{**dict.fromkeys(signature.input_fields, ""), **row.get("inputs", {})}),
            reply,
            str(failure),
        )
        if request is None:
            return None
        second = await target.complete(request)
        try:
            parsed = call.parse_reply(second, enforced=request.schema is not None, again=True)
        except ParseFailure:
            return None
    return {name: serialize_for_json(value) for name, value in parsed.outputs.items()}


async def measure(rows: list[dict[str, Any]], target: Target | None) -> Counter[str]:
    """Returns how many of `rows` had each outcome, at first and after a repair request."""
    outcomes = Counter(outcome(row, read(row)) for row in rows)
    if target is not None:
        await target.open()
        for row in rows:
            if outcome(row, read(row)) == "refused":
                outcomes[f"refused, then {outcome(row, await repaired(row, target))}"] += 1
    return outcomes


def main() -> None:
    """Prints the outcomes in each file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--kind", default="embedded")
    parser.add_argument("--model", default="")
    options = parser.parse_args()
    target = build(TargetSpec(kind=options.kind, model=options.model)) if options.model else None
    for file in options.files:
        print(file.name, dict(asyncio.run(measure(rows_of(file), target))))


if __name__ == "__main__":
    main()
