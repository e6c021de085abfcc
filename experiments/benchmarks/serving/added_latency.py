"""Time that `ragc serve` adds to an answer, and its throughput beside that of the program itself.

    python experiments/benchmarks/serving/added_latency.py [--seconds 10]

The model is scripted and answers at once, so all that is measured is ours. The HTTP client runs in this
process too, and its work counts as the server's: the ratio is a lower bound. Arrivals are an open loop: a
question comes at its time, however long others take.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import uvicorn

from ragc.compiled.evaluate import answer_question
from ragc.core import event_loop
from ragc.serving.app import build_app
from ragc.serving.programs import open_programs
from ragc.serving.run import Server
from ragc.serving.settings import Settings
from ragc.testing import ScriptedTarget

RECIPE = """
program = "vanilla"
[data]
questions = "questions.jsonl"
corpus = "corpus.jsonl"
[sources.local]
kind = "bm25"
[targets.main]
kind = "embedded"
[study]
keep = false
"""

Ask = Callable[[str], Awaitable[object]]


def write(folder: Path) -> Path:
    """A recipe over 200 passages."""
    passages = [
        {"id": f"p{i}", "title": f"Thing {i}", "text": f"Thing {i} is number {i}."} for i in range(200)
    ]
    questions = [{"id": f"q{i}", "question": f"What is thing {i}?", "answers": [str(i)]} for i in range(20)]
    for name, rows in (("corpus", passages), ("questions", questions)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    path = folder / "recipe.toml"
    path.write_text(RECIPE, "utf-8")
    return path


async def saturated(ask: Ask, name: str, seconds: float) -> float:
    """Answers in a second with 64 in flight."""
    end, done = time.monotonic() + seconds, 0

    async def worker(number: int) -> None:
        nonlocal done
        turn = 0
        while time.monotonic() < end:
            await ask(f"What is thing {turn % 200}? {name} {number} {turn}")
            turn, done = turn + 1, done + 1

    await asyncio.gather(*map(worker, range(64)))
    return done / seconds


async def open_loop(ask: Ask, name: str, rate: float, seconds: float) -> list[float]:
    """Milliseconds of each answer, at `rate` questions a second."""
    times: list[float] = []

    async def one(number: int) -> None:
        begun = time.monotonic()
        await ask(f"What is thing {number % 200}? {name} {number}")
        times.append(1000 * (time.monotonic() - begun))

    tasks, start = [], time.monotonic()
    for number in range(int(rate * seconds)):
        await asyncio.sleep(max(0.0, start + number / rate - time.monotonic()))
        tasks.append(asyncio.create_task(one(number)))
    await asyncio.gather(*tasks)
    return times


async def measure(address: str, here: Ask, seconds: float) -> None:
    """Prints both sides."""
    limits = httpx.Limits(max_connections=64)
    async with httpx.AsyncClient(limits=limits, timeout=60) as client:

        async def there(question: str) -> None:
            body = {"model": "recipe", "messages": [{"role": "user", "content": question}]}
            reply = await client.post(f"{address}/v1/chat/completions", json=body)
            reply.raise_for_status()

        rates = [await saturated(ask, f"full {n}", seconds) for n, ask in enumerate((here, there))]
        print(
            f"at saturation  {rates[0]:.0f}/s here, {rates[1]:.0f}/s served, ratio {rates[1] / rates[0]:.2f}"
        )
        for n, ask in enumerate((here, there)):
            times = sorted(await open_loop(ask, f"half {n}", rates[1] / 2, seconds))
            p99 = times[int(0.99 * (len(times) - 1))]
            side = ("here", "served")[n]
            middle = statistics.median(times)
            print(f"at half  {side:<7} median {middle:.1f} ms, p99 {p99:.1f} ms, {len(times)} answers")


def main() -> None:
    """Serves in a thread and measures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=10.0)
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(port=0)
        target = ScriptedTarget(lambda request: {"answer": "A number."})
        programs = open_programs([write(Path(folder))], settings, targets={"main": target})
        opened = programs["recipe"].opened
        addresses: list[str] = []
        listening = threading.Event()
        config = uvicorn.Config(
            build_app(programs, settings), port=0, http="h11", log_level="warning", access_log=False
        )

        def note_address(address: str) -> None:
            addresses.append(address)
            listening.set()

        server = Server(config, note_address)
        thread = threading.Thread(target=server.run)
        thread.start()
        listening.wait(30)
        asyncio.run(
            measure(
                addresses[0], lambda question: event_loop.on_loop(answer_question(opened, question)), seconds
            )
        )
        server.should_exit = True
        thread.join()
        opened.close()


if __name__ == "__main__":
    main()
