"""What choosing costs the processor: a search on a scripted target, and how memory grows with calls.

    PYTHONPATH=src python -m experiments.benchmarks.search.processor [--trials 60] [--dev 30] [--profile]

The model of `tests.support.loopback_world` answers in this process at once, so all that is
measured is ragc's own work. Printed are seconds of processor time (all threads) and of wall time of a search
over knobs and demonstrations, after a small one that loads what is loaded when needed; then the bytes that
the process grows by a call while one program answers `--calls` questions twice over, the first half not
counted. No reply is replayed.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import gc
import os
import pstats
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from experiments.benchmarks.search.study import machine
from ragc import recipe as recipes
from ragc.compiled.opened import open_program
from ragc.core import event_loop
from ragc.optimizers import compile as compiling
from ragc.store.call_store import CallStore
from ragc.targets.base import ChatRequest, Reply
from ragc.testing import ScriptedTarget
from tests.support.loopback_world import reply, write_data

RECIPE = """
program = "vanilla"
seed = 7
concurrency = 64
[search]
knobs = ["top_k", "query_pos", "chunk_size", "cot", "noise_n"]
demos = 3
trials = {trials}
objectives = ["em"]
[data]
questions = "questions.jsonl"
corpus = "corpus.jsonl"
[sources.local]
kind = "bm25"
[targets.main]
kind = "embedded"
[metrics]
report = ["em"]
"""


def answer(request: ChatRequest) -> str:
    """The reply of the loopback model to `request`."""
    messages = [{"role": m.role, "content": m.content} for m in request.messages]
    schema = (
        {"type": "json_schema", "json_schema": {"schema": dict(request.schema)}} if request.schema else None
    )
    return reply({"messages": messages, "response_format": schema})


class Forgetful(ScriptedTarget):
    """A scripted target that does not record requests, so that memory is the program's own."""

    async def complete(self, request: ChatRequest) -> Reply:
        """The next reply of the script."""
        self.requests.clear()
        return await super().complete(request)


def search(folder: Path, trials: int, dev: int) -> tuple[float, float]:
    """Processor and wall seconds of one search in a new `folder`."""
    folder.mkdir()
    write_data(folder, dev, dev)
    (folder / "recipe.toml").write_text(RECIPE.format(trials=trials), "utf-8")
    recipe = recipes.load(folder / "recipe.toml")
    processor, wall = time.process_time(), time.monotonic()
    compiling.compile(
        recipe, folder / "out", store=CallStore(folder / "store"), targets={"main": Forgetful(answer)}
    )
    return time.process_time() - processor, time.monotonic() - wall


def resident() -> int:
    """Bytes of memory in use."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def growth(folder: Path, calls: int) -> float:
    """Bytes a call that memory grows by from `calls` to twice as many calls."""
    folder.mkdir()
    write_data(folder, 0, 100)
    (folder / "recipe.toml").write_text(RECIPE.format(trials=1).replace("demos = 3", "demos = 0"), "utf-8")
    sizes = []
    opened = open_program(folder / "recipe.toml", store=CallStore(None), targets={"main": Forgetful(answer)})

    async def ask(first: int, last: int) -> None:
        for start in range(first, last, 50):
            questions = [f"What colour is thing number{i % 100}? ({i})" for i in range(start, start + 50)]
            await asyncio.gather(*(opened.program.acall(question=question) for question in questions))

    for half in range(2):
        event_loop.run(ask(half * calls, (half + 1) * calls))
        sizes.append(resident())
    opened.close()
    return (sizes[1] - sizes[0]) / calls


async def switch(action: Callable[[], None]) -> None:
    """Calls `action` in the thread of ragc's loop, where a search runs."""
    action()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--dev", type=int, default=30)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--profile", action="store_true", help="print where the time of the last run goes")
    args = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["RAGC_HOME"] = str(folder / "home")
        search(folder / "warm", 4, 6)
        profile = cProfile.Profile()
        for run in range(args.runs):
            profiled = args.profile and run == args.runs - 1
            if profiled:
                event_loop.run(switch(profile.enable))
            processor, wall = search(folder / str(run), args.trials, args.dev)
            if profiled:
                event_loop.run(switch(profile.disable))
            print(f"search of {args.trials} x {args.dev}: {processor:.1f} s of processor time, {wall:.1f} s")
        if args.profile:
            pstats.Stats(profile).sort_stats("cumulative").print_stats(60)
        if args.calls:
            grown = growth(folder / "calls", args.calls)
            print(f"memory a call, from {args.calls} to {2 * args.calls}: {grown:.0f} bytes")


if __name__ == "__main__":
    main()
