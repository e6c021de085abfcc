"""What a typed call costs on top of the wire: ragc, DSPy, LiteLLM, the openai client and bare aiohttp.

    PYTHONPATH=src python -m experiments.benchmarks.serving.throughput
        [--calls 600] [--in-flight 1 8 64 256] [--latency-ms 0 50] [--long 0] [NAME...]

Every system sends one answer call with 3 demonstrations and 5 passages of 600 characters for different
questions, awaited on one loop with as many in flight, no cache and no store, to a server in a process of its
own; each system runs in a process of its own, in turns. `aiohttp`, `openai` and `litellm` send ready
messages and type nothing. Printed of each: requests a second, the median and the 99th percentile of a call's
wall time above the server's latency, processor seconds per 1,000 calls (imports and warm-up not counted), how
much of that is above aiohttp's, and the resident memory at the end. `--long` sends so many calls through ragc
and prints how its memory grew.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from experiments.benchmarks.machine import machine
from experiments.benchmarks.serving.throughput_server import MODEL

ROOT = Path(__file__).resolve().parents[3]
Call = Callable[[int], Awaitable[Any]]
DEMOS = [
    {
        "question": f"What is thing {i} made of?",
        "passages": [f"Thing {i}: " + "of wood. " * 20],
        "answer": "w",
    }
    for i in range(3)
]


def inputs(number: int) -> dict[str, Any]:
    """One question and five passages of 600 characters."""
    passages = [f"Passage {number}.{i} " + "Paris is the capital of France. " * 19 for i in range(5)]
    return {"question": f"What is the capital of country {number}?", "passages": [p[:600] for p in passages]}


def messages(number: int) -> list[dict[str, str]]:
    """Ready messages of about the same length."""
    fields, shown = inputs(number), json.dumps(DEMOS)
    text = "\n\n".join([*fields["passages"], fields["question"]])
    return [{"role": "system", "content": f"Answer.\n{shown}"}, {"role": "user", "content": text}]


def bare(url: str) -> Call:
    """One pooled session of aiohttp."""
    import aiohttp

    session: list[aiohttp.ClientSession] = []

    async def call(number: int) -> None:
        if not session:
            session.append(aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)))
        body = {"model": MODEL, "messages": messages(number), "temperature": 0.0, "max_tokens": 64}
        async with session[0].post(f"{url}/chat/completions", json=body) as response:
            assert (await response.json())["choices"]

    return call


def client(url: str) -> Call:
    """The openai client."""
    from openai import AsyncOpenAI

    openai_client = AsyncOpenAI(base_url=url, api_key="none", max_retries=0)

    async def call(number: int) -> None:
        prompt: Any = messages(number)
        completion = await openai_client.chat.completions.create(
            model=MODEL, messages=prompt, temperature=0.0, max_tokens=64
        )
        assert completion.choices

    return call


def litellm(url: str) -> Call:
    """LiteLLM."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "true"
    import litellm

    async def call(number: int) -> None:
        completion = await litellm.acompletion(
            model=f"openai/{MODEL}",
            api_base=url,
            api_key="none",
            messages=messages(number),
            temperature=0.0,
            max_tokens=64,
        )
        assert completion.choices

    return call


def dspy_with(engine: str) -> Callable[[str], Call]:
    """A typed call of DSPy's over one of its engines."""

    def build_call(url: str) -> Call:
        os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "true"
        import dspy

        from ragc.signatures.answer import ShortAnswer

        dspy.configure(disable_history=True)
        call = dspy.Predict(ShortAnswer)
        call.demos = [dspy.Example(**demo) for demo in DEMOS]
        call.lm = dspy.LM(
            f"openai/{MODEL}", api_base=url, api_key="none", cache=False, engine=engine, max_tokens=64
        )

        async def one(number: int) -> None:
            assert (await call.acall(**inputs(number))).answer == "Paris"

        return one

    return build_call


def ours(url: str) -> Call:
    """A typed call of ragc's."""
    from ragc.programs.calls.predict import RagPredict
    from ragc.programs.runtime import Runtime
    from ragc.signatures.answer import ShortAnswer
    from ragc.store.calls import CallStore
    from ragc.targets.chat import ChatTarget
    from ragc.targets.options import VllmOptions

    target = ChatTarget(url, MODEL, VllmOptions(concurrency=256))
    call = RagPredict(ShortAnswer, Runtime({"main": target}, store=CallStore(None)))
    call.demos = DEMOS

    async def one(number: int) -> None:
        assert (await call.acall(**inputs(number))).answer == "Paris"

    return one


SYSTEMS: dict[str, Callable[[str], Call]] = {
    "aiohttp": bare,
    "openai": client,
    "litellm": litellm,
    "dspy native": dspy_with("lm15"),
    "dspy litellm": dspy_with("litellm"),
    "ragc": ours,
}


async def measure_calls(call: Call, calls: int, in_flight: int, first: int = 0) -> dict[str, Any]:
    """Seconds of each call, of all, and of the processor, from question number `first` on.

    A tenth more goes before, uncounted.
    """
    limit = asyncio.Semaphore(in_flight)
    taken: list[float] = []

    async def one(number: int) -> None:
        async with limit:
            began = time.perf_counter()
            await call(number)
            taken.append(time.perf_counter() - began)

    await asyncio.gather(*(one(-1 - first - number) for number in range(max(in_flight, calls // 10))))
    taken.clear()
    wall, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*map(one, range(first, first + calls)))
    spent = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    return {**spent, "taken": np.percentile(taken, (50, 99)).tolist(), "resident": resident()}


def resident() -> float:
    """MiB that this process holds (Linux)."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def print_memory(call: Call, calls: int) -> None:
    """Print the memory of this process as it makes `calls`."""
    step = max(1, calls // 10)
    for done in range(0, calls, step):
        costs = await measure_calls(call, step, 64, done)
        print(f"{done + step:8} calls  {costs['resident']:7.1f} MiB", flush=True)


@contextmanager
def run_server(latency_ms: float) -> Iterator[str]:
    """The address of a server with that latency."""
    command = [sys.executable, "-m", "experiments.benchmarks.serving.throughput_server", str(latency_ms)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.kill()


def run_in_turn(names: list[str], url: str, calls: int, in_flight: int, latency_ms: float) -> None:
    """Print a line for each system."""
    base = 0.0
    for name in names:
        command = [
            sys.executable,
            "-m",
            "experiments.benchmarks.serving.throughput",
            "--one",
            name,
            url,
            str(calls),
            str(in_flight),
        ]
        process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        costs = json.loads(process.stdout.splitlines()[-1])
        cpu = costs["cpu"] / calls * 1000
        base = base or cpu
        middle, high = (1000 * seconds - latency_ms for seconds in costs["taken"])
        print(
            f"{name:14}{latency_ms:6.0f}{in_flight:6}{calls / costs['wall']:9.0f}{middle:9.2f}{high:9.2f}"
            f"{cpu:9.2f}{cpu - base:+9.2f}{costs['resident']:9.0f}",
            flush=True,
        )


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        name, url, calls, in_flight = sys.argv[2:]
        call = SYSTEMS[name](url)
        print(json.dumps(on_loop(measure_calls(call, int(calls), int(in_flight)))))
        return
    parser = argparse.ArgumentParser(description="Cost of a typed call, side by side.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SYSTEMS)}")
    parser.add_argument("--calls", type=int, default=600)
    parser.add_argument("--in-flight", type=int, nargs="+", default=[1, 8, 64, 256])
    parser.add_argument("--latency-ms", type=float, nargs="+", default=[0, 50])
    parser.add_argument("--long", type=int, default=0)
    args = parser.parse_args()
    print(f"{machine()}; {args.calls} calls; milliseconds, processor seconds per 1,000 calls, MiB")
    if args.long:
        with run_server(0) as url:
            on_loop(print_memory(ours(url), args.long))
        return
    print(
        f"{'system':14}{'ms':>6}{'open':>6}{'per s':>9}{'p50':>9}{'p99':>9}{'cpu':>9}{'above':>9}{'MiB':>9}"
    )
    for latency_ms in args.latency_ms:
        with run_server(latency_ms) as url:
            for in_flight in args.in_flight:
                calls = args.calls if in_flight > 1 or not latency_ms else args.calls // 10
                run_in_turn(args.names or list(SYSTEMS), url, calls, in_flight, latency_ms)


def on_loop(work: Any) -> Any:
    """What `work` gives, on the loop on which ragc sends."""
    from ragc.core import event_loop

    return event_loop.run(work)


if __name__ == "__main__":
    main()
