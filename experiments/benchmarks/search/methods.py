"""Every program on the same questions: score, LM calls, tokens, searches, parse repairs.

    python experiments/benchmarks/search/methods.py RECIPE [--programs ID ...] [--questions 12] [--small]
                                 [--set KEY=VALUE ...] [--out FOLDER]

RECIPE names data, sources and targets; its program is replaced by each program in turn, with that
program's default knobs. `--small` cuts what would take hours on a processor (`SMALL` below). Prints one
Markdown row a program, each number a question's mean. With `--out`, FOLDER/PROGRAM.jsonl gets one row
a question, trace included. Calls that the store holds are replayed, so a run that broke off goes on.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Sequence
from pathlib import Path

from ragc import recipe
from ragc.core import event_loop
from ragc.errors import RagcError
from ragc.programs import METHODS, method
from ragc.store.call_store import open_store
from ragc.task.answering import Row, evaluate, means
from ragc.task.base import Task, prepare

SMALL = {
    "ggatrieval": {"rounds": 1, "candidates": 4, "k_support": 3},
    "llatrieval": {"rounds": 1, "candidates": 4, "k_support": 3},
    "rankgpt": {"rank_pool": 20, "k_support": 3},
    "rqrag": {"max_depth": 1},
    "selfrag": {"top_k": 3},
    "crag": {"top_k": 3, "web_k": 3},
    "prefrag": {"k_local": 3, "k_web": 3},
    "react": {"k_local": 3, "k_web": 3},
    "vanilla_sources": {"k_local": 3, "k_web": 3},
}
COSTS = ("lm_calls", "prompt_tokens", "completion_tokens", "searches", "repairs", "dropped", "truncated")
FIXED = ("search.knobs=[]", "search.demos=0", "search.trials=1", "data.train=0", "data.test=0")


def cells(task: Task, rows: Sequence[Row]) -> list[str]:
    """The numbers of one table row; a question without an answer counts with its scores of 0."""
    scored = means(rows, task.metrics)
    costs = [sum(row.counters.get(name, 0) for row in rows) / len(rows) for name in COSTS]
    failed = sum(bool(row.failure) for row in rows)
    return [
        *(f"{scored[m.id]:.3f}" if m.id in scored else "-" for m in task.metrics),
        *(
            f"{cost:.0f}" if "tokens" in name else f"{cost:.1f}"
            for name, cost in zip(COSTS, costs, strict=True)
        ),
        str(failed),
    ]


async def answer_dev(task: Task, settings: dict[str, int], questions: int) -> tuple[Row, ...]:
    """The first dev questions, answered by the recipe's program."""
    await task.runtime.open()
    program = task.method.build(task.runtime, {**task.recipe.fixed(task.method), **settings})
    await task.fit(program)
    return await evaluate(program, task.dev[:questions], task.scorer, limit=asyncio.Semaphore(task.in_flight))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--programs", nargs="*", default=[entry.id for entry in METHODS])
    parser.add_argument("--questions", type=int, default=12)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--set", action="append", default=[], dest="sets")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    store, headed = open_store(), False
    for name in args.programs:
        sets = (*FIXED, f"program={method(name).id}", f"data.dev={args.questions}", *args.sets)
        try:
            task = prepare(recipe.load(args.recipe, sets), store=store)
            if not headed:
                head = ["program", *(m.id for m in task.metrics), *COSTS, "failed", "seconds"]
                print(f"| {' | '.join(head)} |\n| {' | '.join('---' for _ in head)} |", flush=True)
                headed = True
            begun = time.perf_counter()
            rows = event_loop.run(answer_dev(task, SMALL.get(name, {}) if args.small else {}, args.questions))
        except RagcError as error:
            print(f"| {name} | {' '.join(str(error).split())} |", flush=True)
            continue
        seconds = f"{time.perf_counter() - begun:.0f}"
        print(f"| {' | '.join([name, *cells(task, rows), seconds])} |", flush=True)
        if args.out:
            args.out.mkdir(parents=True, exist_ok=True)
            lines = "".join(json.dumps(row.to_json(), default=str) + "\n" for row in rows)
            (args.out / f"{name}.jsonl").write_text(lines, encoding="utf-8")


if __name__ == "__main__":
    main()
