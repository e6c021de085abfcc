"""Time that `ragc serve` adds to an answer, and its throughput beside that of the program itself.

    python -m experiments.benchmarks.serving.added_latency [--seconds 5] [--rounds 5] [--over-http]

The model is scripted and answers at once, so all that is measured is ours: in this process, or `--over-http`
on a server in a process of its own, as hosted models and vLLM are asked. The client is a process of its own
and writes HTTP by hand; where other work fills the processors, look at the processor time of an answer, which
is the server's alone. Arrivals are an open loop: a question comes at its time, however long others take, at
half of the rate that the server reached. Rounds alternate between the program itself, the server, and a bare
server as a control: uvicorn alone, which reads a question and sends a fixed answer of the same size. What it
takes, the network of the machine among it, is in every server; "ratio at best" is the ratio of processor
times that the program would have behind it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import dspy
import uvicorn

import ragc
from experiments.benchmarks.serving.throughput_server import MODEL
from ragc.compiled.opened import answer_question
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
"""
CLIENTS = 64

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


async def saturated(ask: Ask, name: str, seconds: float) -> dict[str, float]:
    """Answers in a second with 64 in flight."""
    end, done = time.monotonic() + seconds, 0

    async def worker(number: int) -> None:
        nonlocal done
        turn = 0
        while time.monotonic() < end:
            await ask(f"What is thing {turn % 200}? {name} {number} {turn}")
            turn, done = turn + 1, done + 1

    await asyncio.gather(*map(worker, range(CLIENTS)))
    return {"answers": done, "rate": done / seconds}


async def open_loop(ask: Ask, name: str, rate: float, seconds: float) -> dict[str, float]:
    """The median and the 99th percentile of the milliseconds of an answer, at `rate` questions a second."""
    times: list[float] = []

    async def one(number: int) -> None:
        begun = time.monotonic()
        await ask(f"What is thing {number % 200}? {name} {number}")
        times.append(1000 * (time.monotonic() - begun))

    tasks, start = [], time.monotonic()
    for number in range(max(1, int(rate * seconds))):
        await asyncio.sleep(max(0.0, start + number / rate - time.monotonic()))
        tasks.append(asyncio.create_task(one(number)))
    await asyncio.gather(*tasks)
    times.sort()
    median, p99 = statistics.median(times), times[int(0.99 * (len(times) - 1))]
    return {"answers": len(times), "median": median, "p99": p99}


class Client:
    """Asks over HTTP, at most 64 questions at once, on connections that stay open."""

    def __init__(self, address: str) -> None:
        self._where = urlsplit(address)
        self._free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._limit = asyncio.Semaphore(CLIENTS)

    async def ask(self, question: str) -> None:
        """Asks, and reads the answer."""
        body = json.dumps({"model": "recipe", "messages": [{"role": "user", "content": question}]})
        host, port = self._where.hostname, self._where.port
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        async with self._limit:
            reader, writer = self._free.pop() if self._free else await asyncio.open_connection(host, port)
            writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
            reply = (await reader.readuntil(b"\r\n\r\n")).lower()
            if b" 200 " not in reply[:16]:
                raise RuntimeError(reply.decode())
            await reader.readexactly(int(reply.partition(b"content-length: ")[2].split()[0]))
            self._free.append((reader, writer))


async def as_client(address: str, rate: float, seconds: float) -> None:
    """Measures from outside, at saturation where `rate` is 0, and prints the figures as JSON."""
    ask, name = Client(address).ask, str(os.getpid())  # questions that no client asked before
    figures = saturated(ask, name, seconds) if not rate else open_loop(ask, name, rate, seconds)
    with event_loop.frozen_gc():  # a collection in the client is no time of the server's
        print(json.dumps(await figures))


def from_outside(address: str, rate: float, seconds: float) -> Any:
    """What `as_client` prints in a process of its own."""
    options = ["--client", address, "--rate", str(rate), "--seconds", str(seconds)]
    command = [sys.executable, "-m", "experiments.benchmarks.serving.added_latency", *options]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=10 * seconds + 60)
    return json.loads(done.stdout)


def timed(measure: Callable[[], Any]) -> tuple[Any, float]:
    """The figures, and the milliseconds of this process's processor time for each answer."""
    before = time.process_time()
    figures = measure()
    return figures, 1000 * (time.process_time() - before) / figures["answers"]


async def answer_alike(scope: Any, receive: Any, send: Any) -> None:
    """The bare server: an ASGI application whose answer is always the same."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    body = b'{"choices": [{"message": {"content": "A number."}}], "padding": "%s"}' % (b"x" * 400)
    head = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": body})


@contextmanager
def bare_server() -> Iterator[str]:
    """Serves `answer_alike`; yields its address."""
    config = uvicorn.Config(
        answer_alike, port=0, http="httptools", lifespan="off", access_log=False, log_level="warning"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    host, port = server.servers[0].sockets[0].getsockname()[:2]
    try:
        yield f"http://{host}:{port}"
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def scripted_target(*, over_http: bool) -> Iterator[Any]:
    """Yields a model that answers at once, in this process or on a server of its own."""
    if not over_http:
        yield ScriptedTarget(lambda request: {"answer": "A number."})
        return
    command = [sys.executable, "-m", "experiments.benchmarks.serving.throughput_server", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        url = server.stdout.readline().strip() if server.stdout else ""
        options: dict[str, Any] = {"base_url": url, "concurrency": CLIENTS, "context_tokens": 8000}
        yield ragc.target("hosted", model=f"openai/{MODEL}", api_key_env="RAGC_BENCH_KEY", **options)
        server.kill()


def one_round(address: str, bare: str, here: Ask, name: str, seconds: float) -> dict[str, float]:
    """The figures of all sides, the program's own, the server's and the bare one's, by what they are."""
    inside, cpu_inside = timed(lambda: event_loop.run(saturated(here, f"full {name}", seconds)))
    outside, cpu_outside = timed(lambda: from_outside(address, 0, seconds))
    half = outside["rate"] / 2
    alone = event_loop.run(open_loop(here, f"half {name}", half, seconds))
    served = from_outside(address, half, seconds)
    _, cpu_bare = timed(lambda: from_outside(bare, 0, seconds))
    control = from_outside(bare, half, seconds)
    return {
        "rate here": inside["rate"],
        "rate served": outside["rate"],
        "ratio of rates": outside["rate"] / inside["rate"],
        "processor ms here": cpu_inside,
        "processor ms served": cpu_outside,
        "processor ms bare server": cpu_bare,
        "ratio of processor times": cpu_inside / cpu_outside,
        "ratio at best": cpu_inside / (cpu_inside + cpu_bare),
        "median ms here": alone["median"],
        "median ms served": served["median"],
        "median ms added": served["median"] - alone["median"],
        "p99 ms added": served["p99"] - alone["p99"],
        "p99 ms of bare server": control["p99"],
        "load": os.getloadavg()[0],
    }


def compare(address: str, bare: str, here: Ask, seconds: float, rounds: int) -> None:
    """Prints all sides of each round, and the medians of the rounds. A round lasts 6 times `seconds`."""
    event_loop.run(saturated(here, "warm", 1))
    from_outside(address, 0, 1)
    figures: dict[str, list[float]] = {}
    for number in range(rounds):
        for name, value in one_round(address, bare, here, str(number), seconds).items():
            figures.setdefault(name, []).append(value)
    for name, values in figures.items():
        each = " ".join(f"{value:.2f}" for value in values)
        print(f"{name:<25} {statistics.median(values):8.2f}   rounds: {each}")


def main() -> None:
    """Serves, and measures from inside and outside."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--over-http", action="store_true")
    parser.add_argument("--client", default="", help=argparse.SUPPRESS)
    parser.add_argument("--rate", type=float, default=0.0, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.client:
        asyncio.run(as_client(args.client, args.rate, args.seconds))
        return
    with tempfile.TemporaryDirectory() as folder, scripted_target(over_http=args.over_http) as target:
        settings = Settings(port=0, in_flight=2 * CLIENTS)
        programs = open_programs([write(Path(folder))], settings, targets={"main": target})
        opened = programs["recipe"].opened
        addresses: list[str] = []
        listening = threading.Event()

        def note_address(address: str) -> None:
            addresses.append(address)
            listening.set()

        async def here(question: str) -> None:
            with dspy.context(disable_history=True):
                await answer_question(opened, question)

        server = Server(build_app(programs, settings), settings, note_address)
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        listening.wait(30)
        with event_loop.frozen_gc(), bare_server() as bare:
            compare(addresses[0], bare, here, args.seconds, args.rounds)
        server.should_exit = True
        thread.join()
        programs["recipe"].close()


if __name__ == "__main__":
    main()
