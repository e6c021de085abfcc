"""What a call costs that was made before: ours from memory and from disk, DSPy's beside it, in one run.

    PYTHONPATH=src python experiments/benchmarks/serving/replay.py [CALLS]

One typed call with 8 demonstrations and 5 passages of 600 characters, awaited as a program awaits it
(`await predict.acall(...)`) on one loop, for CALLS different questions (default 300), the systems taking
turns. `from memory` calls again what this process has called; `from disk` opens the stores again, so that
each question is found there for the first time. `in a question` is a replayed call that is recorded and
counted, as programs make it; `no memo` replays only the request, whose prompt is formatted first. DSPy has
its own adapter and caches; ours are shown in that layout (`chat`) and in our default one (`minimal`). `dspy`
is its synchronous call, the faster one. Printed in microseconds: median, tenth and ninetieth percentile of
wall time, the median of processor time, and how many times as much processor time DSPy's hit takes.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import Any

import dspy
import numpy as np
from dspy import lm15

from ragc.core import event_loop
from ragc.core.counters import Counters, counting
from ragc.programs import trace
from ragc.programs.calls.predict import RagPredict
from ragc.programs.runtime import Runtime
from ragc.signatures.answer import ShortAnswer
from ragc.store.call_store import CallStore
from ragc.targets.base import ChatRequest, Reply, Usage
from ragc.testing import ScriptedTarget

DEMOS = [
    {
        "question": f"What is thing {i} made of?",
        "passages": [f"Thing {i}: " + "made of wood. " * 20],
        "answer": "w",
    }
    for i in range(8)
]
CHAT = "[[ ## answer ## ]]\nParis\n\n[[ ## completed ## ]]"
MINIMAL = json.dumps({"answer": "Paris"})

TURN = 20
"""Questions that one system is asked before it is another's turn."""

Call = Callable[[int], Awaitable[Any]]


@cache
def inputs(number: int) -> dict[str, Any]:
    passages = [
        f"Passage {number}.{i} " + "says that Paris is the capital of France. " * 14 for i in range(5)
    ]
    return {"question": f"What is the capital of country {number}?", "passages": [p[:600] for p in passages]}


def instant(request: lm15.Request) -> lm15.Response:
    message, usage = lm15.Message.assistant(CHAT), lm15.Usage(input_tokens=900, output_tokens=9)
    return lm15.Response(id=None, model=request.model, message=message, finish_reason="stop", usage=usage)


class Engine:
    """An engine of DSPy that answers at once."""

    supports_function_calling = supports_reasoning = supports_response_schema = False
    supported_params = frozenset({"temperature", "max_tokens"})

    def complete(self, request: lm15.Request) -> lm15.Response:
        """The one reply."""
        return instant(request)


class AsyncEngine(Engine):
    """The same, awaited."""

    async def complete(self, request: lm15.Request) -> lm15.Response:
        """The one reply."""
        return instant(request)


def ours(folder: Path | None, layout: str, *, memo: bool = True) -> Call:
    reply = Reply(CHAT if layout == "chat" else MINIMAL, usage=Usage(900, 9))

    def script(request: ChatRequest) -> Reply:
        return reply

    runtime = Runtime({"main": ScriptedTarget(script)}, store=CallStore(folder))
    runtime.gateway.memo = memo
    call = RagPredict(ShortAnswer, runtime, layout=layout)
    call.demos = DEMOS
    return lambda number: call.acall(**inputs(number))


def wrap_in_question(call: Call) -> Call:
    async def one(number: int) -> Any:
        with trace.recording(), counting(Counters()):
            return await call(number)

    return one


def theirs(folder: Path, *, sync: bool) -> Call:
    dspy.configure_cache(disk_cache_dir=str(folder), enable_disk_cache=True, enable_memory_cache=True)
    lm = dspy.LM("fake/instant", engine=Engine(), async_engine=AsyncEngine(), cache=True)
    call = dspy.Predict(ShortAnswer)
    call.demos = [dspy.Example(**demo) for demo in DEMOS]
    call.lm = lm

    async def one(number: int) -> Any:
        return call(**inputs(number))

    return one if sync else lambda number: call.acall(**inputs(number))


async def measure_calls(calls: dict[str, Call], questions: int) -> dict[str, np.ndarray]:
    """Wall and processor microseconds of each call, the systems taking turns."""
    spent: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    for start in range(0, questions, TURN):
        for name, call in calls.items():
            for number in range(start, min(start + TURN, questions)):
                inputs(number)
                wall, cpu = time.perf_counter(), time.thread_time()
                prediction = await call(number)
                spent[name].append((time.perf_counter() - wall, time.thread_time() - cpu))
                assert prediction.answer == "Paris"
    return {name: 1e6 * np.array(times) for name, times in spent.items()}


async def run(questions: int, folder: Path) -> None:
    disks = {f"ours, {layout}": folder / layout for layout in ("minimal", "chat")}
    first = {name: ours(path, path.name) for name, path in disks.items()}
    plain = ours(folder / "plain", "minimal", memo=False)
    dspys = {"dspy": theirs(folder / "dspy", sync=True), "dspy, awaited": theirs(folder / "dspy", sync=False)}
    calls: dict[str, Call] = {**first, "ours, no memo": plain, **dspys}
    await measure_calls(calls, questions)
    in_question = {f"{name}, in a question": wrap_in_question(call) for name, call in first.items()}
    report("from memory", await measure_calls({**calls, **in_question}, questions))
    again: dict[str, Call] = {name: ours(path, path.name) for name, path in disks.items()}
    again["ours, no memo"] = ours(folder / "plain", "minimal", memo=False)
    again["dspy"] = theirs(folder / "dspy", sync=True)
    report("from disk", await measure_calls(again, questions))


def report(title: str, spent: dict[str, np.ndarray]) -> None:
    base = float(np.median(spent["dspy"][:, 1]))
    print(f"\n{title:30} {'median':>9} {'p10':>9} {'p90':>9} {'cpu':>9} {'dspy takes':>11}")
    for name, times in spent.items():
        low, middle, high = np.percentile(times[:, 0], (10, 50, 90))
        cpu = float(np.median(times[:, 1]))
        print(f"{name:30} {middle:9.1f} {low:9.1f} {high:9.1f} {cpu:9.1f} {base / cpu:10.1f}x")


def machine() -> str:
    info = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((line.split(": ")[1] for line in info if line.startswith("model name")), platform.machine())
    load = ", ".join(f"{n:.1f}" for n in os.getloadavg())
    return f"{model}, {os.cpu_count()} cores, load {load}, {platform.system()}"


def main() -> None:
    questions = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    print(f"{machine()}, Python {platform.python_version()}, dspy {dspy.__version__}")
    print(f"{questions} questions; microseconds a call")
    with tempfile.TemporaryDirectory() as folder:
        event_loop.run(run(questions, Path(folder)))


if __name__ == "__main__":
    main()
